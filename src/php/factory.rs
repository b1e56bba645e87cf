//! The class RedisLockFactory: a server, a prefix and defaults in one object to inject.

use std::rc::Rc;

use ext_php_rs::{
    builders::FunctionBuilder,
    class::{ClassEntryInfo, ClassMetadata, ConstructorMeta, RegisteredClass},
    convert::IntoZvalDyn,
    describe::DocComments,
    flags::{ConstantFlags, DataType, MethodFlags},
    types::Zval,
};

use super::{
    args::Args,
    lock::RedisLock,
    lock_class::{restored_token, ttl},
    method::{self, Class, PUBLIC, Stop, handler, optional, required, with_args},
    settings,
    stores::{self, SharedStore},
};
use crate::lock::{keys::Key, options::Options};

pub struct RedisLockFactory {
    store: Rc<SharedStore>,
    prefix: Vec<u8>,
    options: Options,
}

impl RegisteredClass for RedisLockFactory {
    const CLASS_NAME: &'static str = "RedisLockFactory";
    const BUILDER_MODIFIER: Option<fn(ext_php_rs::builders::ClassBuilder) -> ext_php_rs::builders::ClassBuilder> = None;
    const EXTENDS: Option<ClassEntryInfo> = None;
    const IMPLEMENTS: &'static [ClassEntryInfo] = &[];

    fn get_metadata() -> &'static ClassMetadata<Self> {
        static METADATA: ClassMetadata<RedisLockFactory> = ClassMetadata::new(&[]);
        &METADATA
    }

    fn constructor() -> Option<ConstructorMeta<Self>> {
        Some(ConstructorMeta {
            constructor: |frame| method::construct(frame, construct),
            build_fn: |function| {
                function
                    .arg(optional("servers", DataType::String, "null"))
                    .arg(optional("prefix", DataType::String, "null"))
                    .arg(optional("ttl", DataType::Double, "null"))
                    .arg(optional("autoRelease", DataType::Bool, "true"))
                    .required_args(0)
            },
            flags: None,
        })
    }

    fn method_builders() -> Vec<(FunctionBuilder<'static>, MethodFlags)> {
        let overrides = || [optional("ttl", DataType::Double, "null"), optional("autoRelease", DataType::Bool, "null")];
        let lock = || DataType::object(RedisLock::CLASS_NAME);
        let create = [required("key", DataType::String)].into_iter().chain(overrides());
        let restore =
            [required("key", DataType::String), required("token", DataType::String)].into_iter().chain(overrides());
        vec![
            (
                with_args(FunctionBuilder::new("createLock", handler!(create_lock)), 1, create.collect()).returns(
                    lock(),
                    false,
                    false,
                ),
                PUBLIC,
            ),
            (
                with_args(FunctionBuilder::new("restoreLock", handler!(restore_lock)), 2, restore.collect()).returns(
                    lock(),
                    false,
                    false,
                ),
                PUBLIC,
            ),
        ]
    }

    fn constants() -> &'static [(&'static str, &'static dyn IntoZvalDyn, DocComments, ConstantFlags)] {
        &[]
    }
}

impl Class for RedisLockFactory {
    const RETURN_STATIC: &'static [&'static str] = &[];
    const SENSITIVE: &'static [(&'static str, u32)] = &[("__construct", 0), ("restoreLock", 1)];
}

fn construct(args: &mut Args) -> Result<RedisLockFactory, Stop> {
    args.expect(0, 4)?;
    let address = args.optional_string(1)?;
    let prefix = args.optional_string(2)?;
    let ttl = ttl(args, 3)?;
    let auto_release = args.bool(4, true)?;
    Ok(RedisLockFactory {
        store: stores::given(args, 1, address)?,
        prefix: prefix.map_or_else(settings::prefix, Into::into),
        options: settings::options(ttl, auto_release)?,
    })
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
