//! Tells the PHP layer which PHP it is built for (`cfg(php82)`, `cfg(php83)` …).

use ext_php_rs_build::{ApiVersion, PHPInfo, emit_check_cfg, emit_php_cfg_flags, emit_rerun_if_env_changed, find_php};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    emit_check_cfg();
    // Without the PHP layer there need be no PHP.
    if std::env::var_os("CARGO_FEATURE_PHP").is_some() {
        emit_rerun_if_env_changed();
        let zend_version = PHPInfo::get(&find_php()?)?.zend_version()?;
        emit_php_cfg_flags(ApiVersion::try_from(zend_version)?);
    }
    Ok(())
}
