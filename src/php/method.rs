//! How a method of ours is called and how a class of ours is registered.
//!
//! Methods are written against the engine's calling convention, and not with ext-php-rs's macros, for these take
//! arguments in a way of their own: no weak-mode coercion, and errors that name neither function nor position.

use std::{ffi::CString, mem::offset_of, panic::AssertUnwindSafe};

use ext_php_rs::{
    args::Arg,
    builders::{ClassBuilder, FunctionBuilder},
    class::{ConstructorResult, RegisteredClass},
    error::Result,
    ffi::{zend_class_entry, zend_function, zend_hash_str_find_ptr_lc},
    flags::{DataType, MethodFlags},
    types::{ZendClassObject, Zval},
    zend::{ClassEntry, ExecuteData, bailout, run_handler},
};

use super::{args::Args, exceptions, zend};

/// Why a method ends without a value. By then it has cleaned up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// An exception is pending.
    Thrown,
    /// The engine has met a fatal error and unwinds.
    Bailout,
}

/// What a method does: reads its arguments and gives its value.
pub type Body = fn(&mut Args, &mut Zval) -> std::result::Result<(), Stop>;

/// Runs a method. Panics become `\Error`; a bailout goes on from here, where none of our frames are left to skip.
pub fn run(frame: &mut ExecuteData, value: &mut Zval, body: Body) {
    let mut outcome = Ok(());
    run_handler(AssertUnwindSafe(|| outcome = body(&mut Args::new(frame), value)));
    if outcome == Err(Stop::Bailout) {
        // SAFETY: this frame owns nothing any more.
        unsafe { bailout() };
    }
}

/// Runs a constructor. What it throws is pending when it returns.
pub fn construct<T: Class>(frame: &mut ExecuteData) -> ConstructorResult<T> {
    let object = T::construct(&mut Args::new(frame));
    // Looked at last: what an argument's conversion runs may have constructed the object.
    match object {
        Ok(_) if frame.get_object::<T>().is_some() => {
            exceptions::logic(&format!("{}::__construct(): the object is constructed already", T::CLASS_NAME));
            ConstructorResult::ArgError
        }
        Ok(object) => ConstructorResult::Ok(object),
        Err(_) => ConstructorResult::ArgError,
    }
}

/// A function of the engine's convention that runs `$body`.
macro_rules! handler {
    ($body:expr) => {{
        extern "C" fn handler(frame: &mut ::ext_php_rs::zend::ExecuteData, value: &mut ::ext_php_rs::types::Zval) {
            $crate::php::method::run(frame, value, $body);
        }
        handler
    }};
}
pub(super) use handler;

/// A function of the engine's convention.
pub type Handler = extern "C" fn(&mut ExecuteData, &mut Zval);

pub type Method = (FunctionBuilder<'static>, MethodFlags);

/// A public method: its name, what it does, how many arguments it needs at least, and their types.
pub fn method(name: &str, handler: Handler, least: usize, args: Vec<Arg<'static>>, value: Type) -> Method {
    let Type(data_type, nullable) = value;
    let function = with_args(FunctionBuilder::new(name, handler), least, args).returns(data_type, false, nullable);
    (function, MethodFlags::Public)
}

pub fn static_method((function, flags): Method) -> Method {
    (function, flags | MethodFlags::Static)
}

/// What a method returns, and whether that may be null.
pub struct Type(DataType, bool);

pub const ARRAY: Type = Type(DataType::Array, false);
pub const BOOL: Type = Type(DataType::Bool, false);
pub const MIXED: Type = Type(DataType::Mixed, false);
pub const STRING: Type = Type(DataType::String, false);

pub fn object(class: &'static str) -> Type {
    Type(DataType::object(class), false)
}

pub fn nullable(data_type: DataType) -> Type {
    Type(data_type, true)
}

/// A parameter with a default.
pub fn optional(name: &str, data_type: DataType, default: &str) -> Arg<'static> {
    let arg = Arg::new(name, data_type).default(default);
    if default == "null" { arg.allow_null() } else { arg }
}

pub fn required(name: &str, data_type: DataType) -> Arg<'static> {
    Arg::new(name, data_type)
}

pub fn with_args<'a>(function: FunctionBuilder<'a>, least: usize, args: Vec<Arg<'static>>) -> FunctionBuilder<'a> {
    args.into_iter().fold(function, FunctionBuilder::arg).required_args(least)
}

/// A class of ours.
pub trait Class: RegisteredClass {
    /// Static methods whose return type is `static`.
    const RETURN_STATIC: &'static [&'static str];
    /// Parameters of the type string that may be arrays as well: method, position from 0.
    const ALSO_ARRAYS: &'static [(&'static str, u32)];
    /// Parameters that backtraces must not show: method, position from 0.
    const SENSITIVE: &'static [(&'static str, u32)];

    /// How many arguments the constructor needs at least, and which it takes.
    fn constructor_args() -> (usize, Vec<Arg<'static>>);
    fn construct(args: &mut Args) -> std::result::Result<Self, Stop>;
    fn methods() -> Vec<Method>;
}

/// Tells ext-php-rs of a `Class`, which is named in PHP as it is here.
macro_rules! registered_class {
    ($class:ident) => {
        impl ::ext_php_rs::class::RegisteredClass for $class {
            const CLASS_NAME: &'static str = stringify!($class);
            const BUILDER_MODIFIER: Option<
                fn(::ext_php_rs::builders::ClassBuilder) -> ::ext_php_rs::builders::ClassBuilder,
            > = None;
            const EXTENDS: Option<::ext_php_rs::class::ClassEntryInfo> = None;
            const IMPLEMENTS: &'static [::ext_php_rs::class::ClassEntryInfo] = &[];

            fn get_metadata() -> &'static ::ext_php_rs::class::ClassMetadata<Self> {
                static METADATA: ::ext_php_rs::class::ClassMetadata<$class> =
                    ::ext_php_rs::class::ClassMetadata::new(&[]);
                &METADATA
            }

            fn constructor() -> Option<::ext_php_rs::class::ConstructorMeta<Self>> {
                Some(::ext_php_rs::class::ConstructorMeta {
                    constructor: $crate::php::method::construct,
                    build_fn: |function| {
                        let (least, args) = <Self as $crate::php::method::Class>::constructor_args();
                        $crate::php::method::with_args(function, least, args)
                    },
                    flags: None,
                })
            }

            fn method_builders() -> Vec<$crate::php::method::Method> {
                <Self as $crate::php::method::Class>::methods()
            }

            fn constants() -> &'static [(
                &'static str,
                &'static dyn ::ext_php_rs::convert::IntoZvalDyn,
                ::ext_php_rs::describe::DocComments,
                ::ext_php_rs::flags::ConstantFlags,
            )] {
                &[]
            }
        }
    };
}
pub(super) use registered_class;

pub fn register<T: Class>() -> Result<()> {
    let builder = T::method_builders()
        .into_iter()
        .fold(ClassBuilder::new(T::CLASS_NAME), |builder, (method, flags)| builder.method(method, flags));
    builder
        .flags(T::FLAGS)
        .object_override::<T>()
        .registration(|class, tables| {
            for method in T::RETURN_STATIC {
                return_static(class, method);
            }
            for (method, position) in T::ALSO_ARRAYS {
                also_array(class, method, *position);
            }
            for (method, position) in T::SENSITIVE {
                mark_sensitive(class, method, *position);
            }
            T::get_metadata().set_ce(class);
            T::get_metadata().set_arg_info(tables);
        })
        .register()
}

fn find_method(class: &mut ClassEntry, name: &str) -> Option<&'static mut zend_function> {
    // SAFETY: the table of a class that is being registered holds functions by their name in lower case.
    unsafe {
        zend_hash_str_find_ptr_lc(&class.function_table, name.as_ptr().cast(), name.len())
            .cast::<zend_function>()
            .as_mut()
    }
}

/// ext-php-rs has no word for the type `static`.
fn return_static(class: &mut ClassEntry, method: &str) {
    const MAY_BE_STATIC: u32 = 1 << 15;
    if let Some(function) = find_method(class, method) {
        // SAFETY: the return type stands before the types of the arguments, in a table that ext-php-rs has on the heap
        // and that nobody else looks at while the class is being registered.
        unsafe { (*function.internal_function.arg_info.sub(1)).type_.type_mask = MAY_BE_STATIC };
    }
}

/// ext-php-rs has no union types.
fn also_array(class: &mut ClassEntry, method: &str, position: u32) {
    const MAY_BE_ARRAY: u32 = 1 << 7;
    if let Some(function) = find_method(class, method) {
        // SAFETY: as above; the method has that parameter.
        unsafe { (*function.internal_function.arg_info.add(position as usize)).type_.type_mask |= MAY_BE_ARRAY };
    }
}

#[cfg(php82)]
fn mark_sensitive(class: &mut ClassEntry, method: &str, position: u32) {
    unsafe extern "C" {
        fn zend_add_attribute(
            attributes: *mut *mut ext_php_rs::ffi::HashTable,
            name: *mut ext_php_rs::ffi::zend_string,
            argc: u32,
            flags: u32,
            offset: u32,
            line: u32,
        ) -> *mut std::ffi::c_void;
    }
    const PERSISTENT: u32 = 1;
    if let Some(function) = find_method(class, method) {
        let name = ext_php_rs::types::ZendStr::new_interned("SensitiveParameter", true).into_raw();
        // SAFETY: as the engine's own classes do it while they are registered; offset 0 is the function itself.
        unsafe {
            zend_add_attribute(&raw mut function.internal_function.attributes, name, 0, PERSISTENT, position + 1, 0);
        }
    }
}

#[cfg(not(php82))]
fn mark_sensitive(_: &mut ClassEntry, _: &str, _: u32) {}

/// A new object of `class`, which is `T`'s or a child of it, that holds `payload`; its constructor does not run.
pub fn instantiate<T: RegisteredClass>(
    object: &mut Zval,
    class: *mut zend_class_entry,
    payload: T,
) -> std::result::Result<(), Stop> {
    // SAFETY: makes the object with our own handler, or throws where the class is abstract.
    if unsafe { zend::object_init_ex(object, class) } != 0 {
        return Err(Stop::Thrown);
    }
    if let Some(std) = object.object_mut() {
        // SAFETY: the handler put the object at this offset within a `ZendClassObject<T>`, with nothing in it.
        unsafe {
            let holder = std::ptr::from_mut(std).byte_sub(offset_of!(ZendClassObject<T>, std));
            (*holder.cast::<ZendClassObject<T>>()).obj = Some(payload);
        }
    }
    Ok(())
}

/// For the engine's functions: C ends a string at a NUL, so there is none left.
pub fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}
