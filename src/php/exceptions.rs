//! The exception classes, and the one place that says which error becomes which of them.
//!
//! They are registered by hand, without a Rust payload: so file, line, trace, previous, `new`, subclasses and
//! serialization are PHP's own.

use std::{
    ffi::CStr,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicPtr, Ordering::SeqCst},
    time::SystemTime,
};

use ext_php_rs::{
    args::ArgInfoTables,
    builders::{ClassBuilder, ClassProperty},
    error::{Result, php_error},
    ffi::{zend_class_entry, zend_object, zend_read_property, zend_throw_error, zend_throw_exception},
    flags::{ErrorType, PropertyFlags},
    types::Zval,
    zend::{ClassEntry, ce, try_catch},
};

use super::{
    args::Args,
    method::{self, Stop, c_string},
    zend,
};
use crate::{
    keeper::Loss,
    lock::{
        error::{Error, seconds},
        ports::{Busy, Cause},
        token::{Holder, Identity},
    },
};

type Class = AtomicPtr<zend_class_entry>;

static BASE: Class = Class::new(std::ptr::null_mut());
static CONNECTION: Class = Class::new(std::ptr::null_mut());
static COMMAND: Class = Class::new(std::ptr::null_mut());
static LOCK_TIMEOUT: Class = Class::new(std::ptr::null_mut());
static LOCK_LOST: Class = Class::new(std::ptr::null_mut());

/// At each module start: a restart in the same process makes the classes anew.
pub fn register() -> Result<()> {
    // The class table that `ClassEntry::try_find` searches does not exist yet.
    // SAFETY: a class of the engine's, set before any module of ours starts.
    let runtime: fn() -> &'static ClassEntry = || entry(unsafe { zend::spl_ce_RuntimeException });
    child("RedisLock\\Exception", runtime).registration(|class, args| keep(&BASE, class, args)).register()?;
    let base: fn() -> &'static ClassEntry = || entry(BASE.load(SeqCst));
    child("RedisLock\\ConnectionException", base)
        .registration(|class, args| keep(&CONNECTION, class, args))
        .register()?;
    child("RedisLock\\CommandException", base).registration(|class, args| keep(&COMMAND, class, args)).register()?;
    child("RedisLock\\LockTimeoutException", base)
        .registration(|class, args| keep(&LOCK_TIMEOUT, class, args))
        .register()?;
    let (get_result, public) = method::method("getResult", method::handler!(get_result), 0, vec![], method::MIXED);
    child("RedisLock\\LockLostException", base)
        .property(private("result"))
        .property(private("key"))
        .method(get_result, public)
        .registration(|class, args| keep(&LOCK_LOST, class, args))
        .register()
}

fn private(name: &'static str) -> ClassProperty {
    ClassProperty {
        name: name.into(),
        flags: PropertyFlags::Private,
        default: None,
        docs: &[],
        ty: None,
        nullable: true,
        readonly: false,
        default_stub: None,
    }
}

fn child(name: &str, parent: fn() -> &'static ClassEntry) -> ClassBuilder {
    ClassBuilder::new(name).extends((parent, ""))
}

fn keep(class: &Class, entry: &'static mut ClassEntry, args: ArgInfoTables) {
    class.store(entry, SeqCst);
    // The engine reads them for as long as the class lives.
    Box::leak(args);
}

fn entry(class: *mut zend_class_entry) -> &'static ClassEntry {
    // SAFETY: the engine's class, or one that `keep` stored at module start; both live until the module ends.
    unsafe { class.as_ref() }.unwrap_or(ce::exception())
}

const RESULT: &CStr = c"result";
/// Of the lock that was lost.
const KEY: &CStr = c"key";

fn get_result(args: &mut Args, value: &mut Zval) -> std::result::Result<(), Stop> {
    args.expect(0, 0)?;
    if let Some(this) = args.object() {
        *value = property(this, RESULT);
    }
    Ok(())
}

/// Of a `LockLostException`.
fn property(object: *mut zend_object, name: &CStr) -> Zval {
    let mut buffer = Zval::new();
    // SAFETY: the class declares the property; what is given is null, the property itself, or the buffer.
    unsafe {
        zend_read_property(LOCK_LOST.load(SeqCst), object, name.as_ptr(), name.count_bytes(), true, &mut buffer)
            .as_ref()
    }
    .map_or_else(Zval::new, |value| value.dereference().shallow_clone())
}

/// As above. The engine copies the value.
fn set_property(object: *mut zend_object, name: &CStr, mut value: Zval) {
    // SAFETY: as above.
    unsafe {
        zend::zend_update_property(LOCK_LOST.load(SeqCst), object, name.as_ptr(), name.count_bytes(), &mut value);
    }
}

fn throw(class: &Class, message: &str) -> Stop {
    // SAFETY: a class that lives, and a string that the engine copies.
    unsafe { zend_throw_exception(class.load(SeqCst), c_string(message).as_ptr(), 0) };
    Stop::Thrown
}

/// An error of the layers below, as PHP sees it.
pub fn lock(error: Error) -> Stop {
    match &error {
        Error::Store(fault) => match fault.cause {
            Cause::Answered(_) | Cause::NotNow(_) => throw(&COMMAND, &error.to_string()),
            Cause::Unreachable(_)
            | Cause::TurnedAway(_)
            | Cause::NoAnswer(_)
            | Cause::NoQuorum(_)
            | Cause::Tainted(_)
            | Cause::Unasked(_)
            | Cause::Unconfirmed(_)
            | Cause::Unconfirmable(_)
            | Cause::Forked => throw(&CONNECTION, &error.to_string()),
        },
        Error::UsedUp { .. } | Error::Forked => throw(&CONNECTION, &error.to_string()),
        // What interrupted is pending already; the pump knows it better.
        Error::Interrupted => Stop::Thrown,
    }
}

pub fn randomness(message: &str) -> Stop {
    throw(&BASE, message)
}

/// No thread can be started, or not woken: the lease would end unseen.
pub fn not_looked_after(key: &[u8], error: &std::io::Error) -> Stop {
    throw(&BASE, &format!("The lock {} cannot be looked after by a thread: {error}", quoted(key)))
}

/// The token of a lock that the application named itself must not be used again.
pub fn tainted(key: &[u8]) -> Stop {
    throw(
        &CONNECTION,
        &format!(
            "The lock {} cannot be acquired with this token again: a release of it, whose answer did not come, may still \
             be carried out",
            quoted(key)
        ),
    )
}

pub fn timeout(key: &[u8], busy: Option<&Busy>, waited: std::time::Duration) -> Stop {
    let who = busy.map_or(String::new(), |busy| format!("; {}", in_words(&busy.holder)));
    let ahead = busy.and_then(|busy| busy.queued).map_or(String::new(), |queued| match queued.ahead {
        0 => "; nobody waited before us".into(),
        1 => "; 1 other waited before us".into(),
        others => format!("; {others} others waited before us"),
    });
    let waited = seconds(waited);
    throw(&LOCK_TIMEOUT, &format!("The lock {} could not be had within {waited}{who}{ahead}", quoted(key)))
}

/// `result`: what the callable returned; None: it was interrupted.
pub fn lost(key: &[u8], loss: &Loss, result: Option<Zval>) -> Stop {
    let message = format!("The lock {} was lost before its holder had finished{}", quoted(key), why(loss));
    // SAFETY: as in `throw`.
    let object = unsafe { zend_throw_exception(LOCK_LOST.load(SeqCst), c_string(&message).as_ptr(), 0) };
    let mut name = Zval::new();
    name.set_binary(key.to_vec());
    set_property(object, KEY, name);
    if let Some(result) = result {
        set_property(object, RESULT, result);
    }
    Stop::Thrown
}

/// Whether the pending exception says that the lock of this key was lost.
pub fn is_lost(key: &[u8]) -> bool {
    let pending = zend::exception();
    // SAFETY: null, or an object that lives.
    let is_ours = unsafe { pending.as_ref() }.is_some_and(|it| it.instance_of(entry(LOCK_LOST.load(SeqCst))));
    is_ours && property(pending.cast_mut(), KEY).zend_str().is_some_and(|name| name.as_bytes() == key)
}

/// Why a lease ended, as a message goes on.
pub fn why(loss: &Loss) -> String {
    match loss {
        Loss::RanOut => ": its ttl ran out".into(),
        Loss::MaxHold => ": maxHold ended its renewal, and its ttl ran out".into(),
        Loss::NotOurs => ": the server said that the key was not ours any more".into(),
        Loss::NotRenewed(fault) => format!(": it could not be renewed in time ({fault})"),
    }
}

pub fn logic(message: &str) -> Stop {
    // SAFETY: as in `throw`.
    unsafe { zend_throw_exception(zend::spl_ce_LogicException, c_string(message).as_ptr(), 0) };
    Stop::Thrown
}

pub fn error(message: &str) -> Stop {
    // SAFETY: a null class means \Error; the format takes one string.
    unsafe { zend_throw_error(std::ptr::null_mut(), c"%s".as_ptr(), c_string(message).as_ptr()) };
    Stop::Thrown
}

pub fn value(message: &str) -> Stop {
    // SAFETY: the format takes one string.
    unsafe { zend::zend_value_error(c"%s".as_ptr(), c_string(message).as_ptr()) };
    Stop::Thrown
}

/// Warns. A user's error handler may run: it may exit, and fail. What it throws is dropped, as many a framework's
/// handler throws for each warning: it would take away what the warning is beside, the value or exception of work that
/// was done. The warning then goes to PHP's error log.
pub fn warn(message: &str) -> std::result::Result<(), Stop> {
    let pending = zend::suspend_exception();
    let message = message.replace('\0', "\\0");
    let warned = if zend::is_exit(pending) {
        // The script is over; no code of it may run.
        Ok(())
    } else {
        try_catch(AssertUnwindSafe(|| php_error(&ErrorType::Warning, &message)))
    };
    if warned.is_err() {
        // What was pending goes down with the request.
        return Err(Stop::Bailout);
    }
    if zend::has_exception() {
        zend::log(&format!("PHP Warning:  {message}"));
    }
    zend::resume_exception(pending);
    if zend::has_exception() { Err(Stop::Thrown) } else { Ok(()) }
}

fn in_words(holder: &Holder) -> String {
    let who = holder.identity.as_ref().map_or("another client holds it".into(), |Identity { host, pid, since }| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
        // When it drew its token, that is: it may have waited since.
        format!("process {pid} on {host}, which asked for it {} s ago, holds it", now.saturating_sub(*since))
    });
    match holder.remaining {
        Some(left) => format!("{who}, for another {} unless it is refreshed", seconds(left)),
        None => format!("{who}, and has no ttl; it may be no lock"),
    }
}

/// A key may be long, and need not be text.
pub fn quoted(key: &[u8]) -> String {
    const MOST: usize = 100;
    let shown = String::from_utf8_lossy(key.get(..MOST).unwrap_or(key)).replace(|c: char| c.is_control(), "?");
    if key.len() > MOST { format!("\"{shown}…\"") } else { format!("\"{shown}\"") }
}
