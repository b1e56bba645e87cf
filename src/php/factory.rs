//! The class RedisLockFactory: a server, a prefix and defaults in one object to inject.

use std::rc::Rc;

use ext_php_rs::{args::Arg, class::RegisteredClass, flags::DataType, types::Zval};

use super::{
    args::Args,
    lock::RedisLock,
    lock_class::{restored_token, ttl},
    method::{self, Class, Method, Stop, handler, method, object, optional, registered_class, required},
    settings,
    stores::{self, SharedStore},
};
use crate::lock::{keys::Key, options::Options};

pub struct RedisLockFactory {
    store: Rc<SharedStore>,
    prefix: Vec<u8>,
    options: Options,
}

registered_class!(RedisLockFactory);

impl Class for RedisLockFactory {
    const RETURN_STATIC: &'static [&'static str] = &[];
    const SENSITIVE: &'static [(&'static str, u32)] = &[("__construct", 0), ("restoreLock", 1)];

    fn constructor_args() -> (usize, Vec<Arg<'static>>) {
        let servers = optional("servers", DataType::String, "null");
        let prefix = optional("prefix", DataType::String, "null");
        let ttl = optional("ttl", DataType::Double, "null");
        (0, vec![servers, prefix, ttl, optional("autoRelease", DataType::Bool, "true")])
    }

    fn construct(args: &mut Args) -> Result<Self, Stop> {
        args.expect(0, 4)?;
        let address = args.optional_string(1)?;
        let prefix = args.optional_string(2)?;
        let ttl = ttl(args, 3)?;
        let auto_release = args.bool(4, true)?;
        Ok(Self {
            store: stores::given(args, 1, address)?,
            prefix: prefix.map_or_else(settings::prefix, Into::into),
            options: settings::options(ttl, auto_release)?,
        })
    }

    fn methods() -> Vec<Method> {
        let text = |name| required(name, DataType::String);
        let overrides = || [optional("ttl", DataType::Double, "null"), optional("autoRelease", DataType::Bool, "null")];
        let create = [text("key")].into_iter().chain(overrides()).collect();
        let restore = [text("key"), text("token")].into_iter().chain(overrides()).collect();
        vec![
            method("createLock", handler!(create_lock), 1, create, object(RedisLock::CLASS_NAME)),
            method("restoreLock", handler!(restore_lock), 2, restore, object(RedisLock::CLASS_NAME)),
        ]
    }
}

fn create_lock(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(1, 3)?;
    let name = args.string(1)?;
    let factory = args.this::<RedisLockFactory>()?;
    let options = factory.overridden(args, 2)?;
    let key = args.check(1, Key::new(&factory.prefix, name))?;
    give(value, RedisLock::new(key, options, factory.store.clone()))
}

fn restore_lock(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(2, 4)?;
    let name = args.string(1)?;
    let token = args.string(2)?;
    let factory = args.this::<RedisLockFactory>()?;
    let options = factory.overridden(args, 3)?;
    let key = args.check(1, Key::new(&factory.prefix, name))?;
    let token = restored_token(args, token)?;
    give(value, RedisLock::restored(key, token, options, factory.store.clone()))
}

fn give(value: &mut Zval, lock: RedisLock) -> Result<(), Stop> {
    let class = std::ptr::from_ref(RedisLock::get_metadata().ce()).cast_mut();
    method::instantiate(value, class, lock)
}

impl RedisLockFactory {
    /// The factory's options, with `ttl` and `autoRelease` from the position `first` on.
    fn overridden(&self, args: &mut Args, first: u32) -> Result<Options, Stop> {
        let ttl = ttl(args, first)?.unwrap_or(self.options.ttl);
        let auto_release = args.optional_bool(first + 1)?.unwrap_or(self.options.auto_release);
        Ok(Options { ttl, auto_release, ..self.options })
    }
}
