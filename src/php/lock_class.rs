//! The methods of the class RedisLock: arguments in, values out.

use std::time::Duration;

use ext_php_rs::{
    args::Arg,
    flags::DataType,
    types::{ZendHashTable, ZendStr, Zval},
};

use super::{
    args::Args,
    exceptions,
    lock::RedisLock,
    lock_args::{LockArgs, Otherwise, ttl},
    method::{
        self, ARRAY, BOOL, Class, MIXED, Method, STRING, Stop, handler, method, nullable, optional, registered_class,
        required, static_method,
    },
    settings, stores,
};
use crate::{
    keeper,
    lock::{
        error::BadValue,
        fence::Fence,
        keys::Key,
        options::Options,
        token::{Holder, Token},
    },
    stats::{self, Counter},
};

registered_class!(RedisLock);

impl Class for RedisLock {
    const RETURN_STATIC: &'static [&'static str] = &["restore"];
    const ALSO_ARRAYS: &'static [(&'static str, u32)] = &[("__construct", 9), ("restore", 10)];
    const SENSITIVE: &'static [(&'static str, u32)] = &[("__construct", 9), ("restore", 1), ("restore", 10)];

    fn constructor_args() -> (usize, Vec<Arg<'static>>) {
        (1, [required("key", DataType::String)].into_iter().chain(lock_options()).collect())
    }

    fn construct(args: &mut Args) -> Result<Self, Stop> {
        args.expect(1, 11)?;
        let name = args.string(1)?;
        let given = Given::read(args, 2)?;
        let key = args.check(1, Key::new(&given.prefix, name))?;
        Ok(Self::new(key, given.options, given.store))
    }

    fn methods() -> Vec<Method> {
        let wait = |default| optional("wait", DataType::Double, default);
        let ttl = optional("ttl", DataType::Double, "null");
        let critical = required("critical", DataType::Callable);
        let handle = [required("key", DataType::String), required("token", DataType::String)];
        let fence = optional("fence", DataType::Long, "null");
        let handle = handle.into_iter().chain(lock_options()).chain([fence]).collect();
        vec![
            method("acquire", handler!(acquire), 0, vec![wait("0.0")], BOOL),
            method("synchronized", handler!(synchronized), 1, vec![critical, wait("null")], MIXED),
            method("release", handler!(release), 0, vec![], BOOL),
            method("refresh", handler!(refresh), 0, vec![ttl], BOOL),
            method("isAcquired", handler!(is_acquired), 0, vec![], BOOL),
            method("isExpired", handler!(is_expired), 0, vec![], BOOL),
            method("getRemainingLifetime", handler!(get_remaining_lifetime), 0, vec![], nullable(DataType::Double)),
            method("getKey", handler!(get_key), 0, vec![], STRING),
            method("getToken", handler!(get_token), 0, vec![], nullable(DataType::String)),
            method("getFence", handler!(get_fence), 0, vec![], nullable(DataType::Long)),
            method("getHolder", handler!(get_holder), 0, vec![], nullable(DataType::Array)),
            method("forceRelease", handler!(force_release), 0, vec![], BOOL),
            static_method(method("stats", handler!(stats), 0, vec![], ARRAY)),
            static_method(method("restore", handler!(restore), 2, handle, MIXED)),
        ]
    }
}

fn lock_options() -> impl Iterator<Item = Arg<'static>> {
    let servers = optional("servers", DataType::String, "null");
    let prefix = optional("prefix", DataType::String, "null");
    LockArgs::list(Otherwise::Settings).into_iter().chain([servers, prefix])
}

fn restore(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(2, 13)?;
    let name = args.string(1)?;
    let token = args.string(2)?;
    let given = Given::read(args, 3)?;
    let fence = restored_fence(args, 13)?;
    let key = args.check(1, Key::new(&given.prefix, name))?;
    let token = restored_token(args, token)?;
    let lock = RedisLock::restored(key, token, fence, given.options, given.store);
    method::instantiate(value, args.called_class(), lock)
}

/// A token given as the second argument.
pub fn restored_token(args: &Args, token: &[u8]) -> Result<Token, Stop> {
    if token.is_empty() {
        args.check(2, Err(BadValue("must not be empty".into())))?;
    }
    Ok(Token::from_bytes(token))
}

/// The fence that the lease came with.
pub fn restored_fence(args: &mut Args, position: u32) -> Result<Option<Fence>, Stop> {
    let Some(number) = args.optional_int(position)? else { return Ok(None) };
    let fence = u64::try_from(number).ok().and_then(Fence::new);
    args.check(position, fence.map(Some).ok_or_else(|| BadValue("must be a fence: from 1 to 9007199254740991".into())))
}

/// The options that constructor and `restore` share, from the position of `ttl` on.
struct Given {
    options: Options,
    store: std::rc::Rc<stores::SharedStore>,
    prefix: Vec<u8>,
}

impl Given {
    fn read(args: &mut Args, first: u32) -> Result<Self, Stop> {
        let given = LockArgs::read(args, first, Otherwise::Settings)?;
        let servers = first + LockArgs::COUNT;
        let addresses = args.optional_strings(servers)?;
        let prefix = args.optional_string(servers + 1)?;
        let store = stores::given(args, servers, addresses)?;
        Ok(Self {
            options: given.over_settings(args, &store)?,
            store,
            prefix: prefix.map_or_else(settings::prefix, Into::into),
        })
    }
}

fn acquire(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 1)?;
    let wait = args.wait(1)?.unwrap_or(Duration::ZERO);
    value.set_bool(args.this::<RedisLock>()?.acquire(wait)?);
    Ok(())
}

fn synchronized(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(1, 2)?;
    let critical = args.callable(1)?;
    let wait = match args.optional_wait(2)? {
        Some(wait) => wait,
        None => settings::wait()?,
    };
    *value = args.this::<RedisLock>()?.synchronized(critical, wait)?;
    Ok(())
}

fn release(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 0)?;
    value.set_bool(args.this::<RedisLock>()?.release()?);
    Ok(())
}

fn refresh(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 1)?;
    let ttl = ttl(args, 1)?;
    let lock = args.this::<RedisLock>()?;
    let guard = lock.options.terms.restart_guard;
    if ttl.is_some_and(|ttl| guard.is_some_and(|guard| ttl.as_duration() > guard)) {
        args.check(1, Err(BadValue("must not be greater than restartGuard".into())))?;
    }
    value.set_bool(lock.refresh(ttl)?);
    Ok(())
}

fn is_acquired(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 0)?;
    value.set_bool(args.this::<RedisLock>()?.is_acquired());
    Ok(())
}

fn is_expired(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 0)?;
    value.set_bool(args.this::<RedisLock>()?.is_expired());
    Ok(())
}

fn get_remaining_lifetime(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 0)?;
    if let Some(remaining) = args.this::<RedisLock>()?.remaining() {
        value.set_double(remaining.as_secs_f64());
    }
    Ok(())
}

fn get_key(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 0)?;
    value.set_zend_string(ZendStr::new(args.this::<RedisLock>()?.key(), false));
    Ok(())
}

fn get_token(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 0)?;
    if let Some(token) = args.this::<RedisLock>()?.token() {
        value.set_zend_string(ZendStr::new(token.as_bytes(), false));
    }
    Ok(())
}

fn get_fence(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 0)?;
    if let Some(fence) = args.this::<RedisLock>()?.fence() {
        value.set_long(i64::try_from(fence.number()).unwrap_or(i64::MAX));
    }
    Ok(())
}

fn get_holder(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 0)?;
    if let Some(holder) = args.this::<RedisLock>()?.holder()? {
        let array = holder_array(&holder).map_err(|error| exceptions::error(&error.to_string()))?;
        value.set_hashtable(array);
    }
    Ok(())
}

fn holder_array(holder: &Holder) -> ext_php_rs::error::Result<ext_php_rs::boxed::ZBox<ZendHashTable>> {
    let identity = holder.identity.as_ref();
    let mut array = ZendHashTable::new();
    array.insert("host", identity.map(|identity| identity.host.as_str()))?;
    array.insert("pid", identity.map(|identity| i64::from(identity.pid)))?;
    array.insert("since", identity.and_then(|identity| i64::try_from(identity.since).ok()))?;
    array.insert("ttl", holder.remaining.map(|remaining| remaining.as_secs_f64()))?;
    Ok(array)
}

fn force_release(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 0)?;
    value.set_bool(args.this::<RedisLock>()?.force_release()?);
    Ok(())
}

fn stats(args: &mut Args, value: &mut Zval) -> Result<(), Stop> {
    args.expect(0, 0)?;
    let counters = [
        ("lost", stats::get(Counter::Lost)),
        ("renewals", stats::get(Counter::Renewals)),
        ("renewalErrors", stats::get(Counter::RenewalErrors)),
        ("interrupts", stats::get(Counter::Interrupts)),
        ("kept", keeper::count() as u64),
    ];
    let mut array = ZendHashTable::new();
    for (name, count) in counters {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        array.insert(name, count).map_err(|error| exceptions::error(&error.to_string()))?;
    }
    value.set_hashtable(array);
    Ok(())
}
