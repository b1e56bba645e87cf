//! The PHP face. The only place that names ext-php-rs; everything below it builds and tests without PHP.

mod args;
mod call;
mod engine;
mod exceptions;
mod factory;
mod info;
mod interrupt;
mod lock;
mod lock_class;
mod method;
mod request;
mod servers;
mod settings;

use factory::RedisLockFactory;
pub use info::show as info;
use lock::RedisLock;
pub use request::end as request_end;

/// Module start: settings and classes. It may run more than once in a process, and before the process forks: nothing
/// is connected and no thread is started here.
pub fn start(module: i32) -> ext_php_rs::error::Result<()> {
    settings::register(module);
    exceptions::register()?;
    method::register::<RedisLock>()?;
    method::register::<RedisLockFactory>()
}
