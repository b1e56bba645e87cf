//! The PHP face. The only place that names ext-php-rs; everything below it builds and tests without PHP.

mod args;
mod between;
mod call;
mod critical;
mod exceptions;
mod factory;
mod info;
mod interrupt;
mod lock;
mod lock_args;
mod lock_class;
mod method;
mod request;
mod settings;
mod stores;
mod synchronized;
mod zend;

use ext_php_rs::{builders::ModuleBuilder, php_module};

use factory::RedisLockFactory;
use lock::RedisLock;

use crate::keeper;

#[php_module]
#[php(startup = start)]
pub fn get_module(module: ModuleBuilder) -> ModuleBuilder {
    module.info_function(info::show).request_shutdown_function(request::end).shutdown_function(stop)
}

/// Module start: settings and classes. It may run more than once in a process, and before the process forks: nothing
/// is connected and no thread is started here.
extern "C" fn start(_type: i32, module: i32) -> i32 {
    let started = std::panic::catch_unwind(|| {
        settings::register(module);
        exceptions::register()?;
        method::register::<RedisLock>()?;
        method::register::<RedisLockFactory>()?;
        critical::hook();
        Ok::<(), ext_php_rs::error::Error>(())
    });
    // Anything but 0 makes PHP refuse the module, which it reports itself.
    i32::from(!matches!(started, Ok(Ok(()))))
}

/// Module end: nothing of ours runs any more.
extern "C" fn stop(kind: i32, module: i32) -> i32 {
    let _ = std::panic::catch_unwind(|| {
        critical::unhook();
        keeper::stop();
        zend::unregister_settings(kind, module);
    });
    0
}
