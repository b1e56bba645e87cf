//! The class RedisLockFactory: a server, a prefix and defaults in one object to inject.

use std::rc::Rc;

use ext_php_rs::{args::Arg, class::RegisteredClass, flags::DataType, types::Zval};

use super::{
    args::Args,
    lock::RedisLock,
    lock_args::{LockArgs, Otherwise},
    lock_class::{restored_fence, restored_token},
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
    const ALSO_ARRAYS: &'static [(&'static str, u32)] = &[("__construct", 0)];
    const SENSITIVE: &'static [(&'static str, u32)] = &[("__construct", 0), ("restoreLock", 1)];

    fn constructor_args() -> (usize, Vec<Arg<'static>>) {
        let servers = optional("servers", DataType::String, "null");
        let prefix = optional("prefix", DataType::String, "null");
        (0, [servers, prefix].into_iter().chain(LockArgs::list(Otherwise::Settings)).collect())
    }

    fn construct(args: &mut Args) -> Result<Self, Stop> {
        args.expect(0, 10)?;
        let addresses = args.optional_strings(1)?;
        let prefix = args.optional_string(2)?;
        let given = LockArgs::read(args, 3, Otherwise::Settings)?;
        let store = stores::given(args, 1, addresses)?;
        let options = given.over_settings(args, &store)?;
        Ok(Self { store, prefix: prefix.map_or_else(settings::prefix, Into::into), options })
    }

    fn methods() -> Vec<Method> {
        let text = |name| required(name, DataType::String);
        let create = [text("key")].into_iter().chain(LockArgs::list(Otherwise::Factory)).collect();
        let fence = optional("fence", DataType::Long, "null");
        let restore = [text("key"), text("token")].into_iter().chain(LockArgs::list(Otherwise::Factory));
        let restore = restore.chain([fence]).collect();
        vec![
            method("createLock", handler!(create_lock), 1, create, object(RedisLock::CLASS_NAME)),
            method("restoreLock", handler!(restore_lock), 2, restore, object(RedisLock::CLASS_NAME)),
        ]
    }
}

fn create_lock(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(1, 9)?;
    let name = args.string(1)?;
    let factory = args.this::<RedisLockFactory>()?;
    let options = LockArgs::read(args, 2, Otherwise::Factory)?.over(args, factory.options, &factory.store)?;
    let key = args.check(1, Key::new(&factory.prefix, name))?;
    give(value, RedisLock::new(key, options, factory.store.clone()))
}

fn restore_lock(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(2, 11)?;
    let name = args.string(1)?;
    let token = args.string(2)?;
    let factory = args.this::<RedisLockFactory>()?;
    let options = LockArgs::read(args, 3, Otherwise::Factory)?.over(args, factory.options, &factory.store)?;
    let fence = restored_fence(args, 3 + LockArgs::COUNT)?;
    let key = args.check(1, Key::new(&factory.prefix, name))?;
    let token = restored_token(args, token)?;
    give(value, RedisLock::restored(key, token, fence, options, factory.store.clone()))
}

fn give(value: &mut Zval, lock: RedisLock) -> Result<(), Stop> {
    let class = std::ptr::from_ref(RedisLock::get_metadata().ce()).cast_mut();
    method::instantiate(value, class, lock)
}
