//! A distributed lock for PHP, through Redis. Wiring only; README.md says which layer is where.

pub mod lock;
pub mod memory;
#[cfg(feature = "php")]
mod php;
pub mod redis;
pub mod sys;

#[cfg(feature = "php")]
mod module {
    use ext_php_rs::{builders::ModuleBuilder, php_module};

    use crate::php;

    #[php_module]
    #[php(startup = start)]
    pub fn get_module(module: ModuleBuilder) -> ModuleBuilder {
        module.info_function(php::info).request_shutdown_function(php::request_end)
    }

    extern "C" fn start(_type: i32, module: i32) -> i32 {
        let started = std::panic::catch_unwind(|| php::start(module));
        // Anything but 0 makes PHP refuse the module, which it reports itself.
        i32::from(!matches!(started, Ok(Ok(()))))
    }
}
