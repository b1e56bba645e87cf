//! What `phpinfo()` and `php --ri redis_lock` show.

use std::{ffi::c_int, panic::catch_unwind};

use ext_php_rs::{
    ffi::{php_printf, zend_ini_entry},
    info_table_end, info_table_row, info_table_start,
    zend::ModuleEntry,
};

use super::{method::c_string, settings, zend};
use crate::redis::servers::Servers;

/// # Safety
///
/// The engine calls it, with its entry of this module.
pub unsafe extern "C" fn show(module: *mut ModuleEntry) {
    info_table_start!();
    info_table_row!("redis_lock", "enabled");
    info_table_row!("Version", env!("CARGO_PKG_VERSION"));
    info_table_row!("TLS (rediss://)", if cfg!(feature = "tls") { "yes" } else { "no" });
    info_table_end!();
    // SAFETY: the entry is the engine's.
    unsafe { zend::display_ini_entries(module.cast()) };
}

/// Shows the addresses without user and password.
pub unsafe extern "C" fn show_servers(_entry: *mut zend_ini_entry, which: c_int) {
    const ORIGINAL: c_int = 1;
    let shown = catch_unwind(|| {
        let address = settings::bytes(c"redis_lock.servers", which == ORIGINAL);
        let address = String::from_utf8_lossy(&address);
        let shown = Servers::parse_all(&address.split_ascii_whitespace().collect::<Vec<_>>());
        let shown = shown.map_or_else(|_| "(not a valid address)".into(), |servers| servers.shown());
        html(&shown)
    });
    // SAFETY: the format takes one string.
    unsafe { php_printf(c"%s".as_ptr(), c_string(&shown.unwrap_or_default()).as_ptr()) };
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
