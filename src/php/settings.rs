//! The settings in php.ini, read when a lock is made.

use std::{
    ffi::{CStr, c_int, c_void},
    time::Duration,
};

use ext_php_rs::{
    ffi::{ext_php_rs_executor_globals, zend_hash_str_find_ptr_lc, zend_ini_entry, zend_string},
    flags::IniEntryPermission,
    zend::{IniEntryDef, IniEntryDefs},
};

use super::{exceptions, method::Stop};
use crate::lock::{
    error::BadValue,
    options::{Limits, Options, Poll, positive_duration},
    ttl::{self, Ttl},
};

static ENTRIES: IniEntryDefs<11> = IniEntryDefs::new([
    masked(c"redis_lock.servers", c"redis://127.0.0.1:6379"),
    entry(c"redis_lock.prefix", c""),
    entry(c"redis_lock.ttl", c"30"),
    entry(c"redis_lock.wait", c"10"),
    entry(c"redis_lock.renew", c"0"),
    entry(c"redis_lock.connect_timeout", c"1"),
    entry(c"redis_lock.command_timeout", c"1"),
    entry(c"redis_lock.poll_min", c"0.01"),
    entry(c"redis_lock.poll_max", c"0.25"),
    entry(c"redis_lock.identify", c"1"),
    IniEntryDef::end(),
]);

const fn entry(name: &'static CStr, default: &'static CStr) -> IniEntryDef {
    let mut entry = IniEntryDef::new(name, default, IniEntryPermission::All);
    entry.on_modify = Some(accept);
    entry
}

/// Values are checked where they are used, by whom it concerns. An entry without this callback is not put back by
/// `ini_restore()`.
unsafe extern "C" fn accept(
    _entry: *mut zend_ini_entry,
    _value: *mut zend_string,
    _arg1: *mut c_void,
    _arg2: *mut c_void,
    _arg3: *mut c_void,
    _stage: c_int,
) -> c_int {
    0
}

/// An entry whose value may hold a password.
const fn masked(name: &'static CStr, default: &'static CStr) -> IniEntryDef {
    let mut entry = entry(name, default);
    entry.displayer = Some(super::info::show_servers);
    entry
}

pub fn register(module: c_int) {
    IniEntryDef::register(ENTRIES.as_slice(), module);
}

pub fn servers() -> Result<String, Stop> {
    String::from_utf8(bytes(c"redis_lock.servers", false))
        .map_err(|_| refuse(c"redis_lock.servers", &BadValue("must be valid UTF-8".into())))
}

/// A bad address in `servers`.
pub fn refuse_servers(bad: &BadValue) -> Stop {
    refuse(c"redis_lock.servers", bad)
}

pub fn prefix() -> Vec<u8> {
    bytes(c"redis_lock.prefix", false)
}

/// What a lock is to be, if nothing else is asked for. `ttl`: instead of the setting, which is then not looked at.
pub fn options(ttl: Option<Ttl>) -> Result<Options, Stop> {
    let ttl = match ttl {
        Some(ttl) => ttl,
        None => checked(c"redis_lock.ttl", Ttl::from_seconds)?,
    };
    Ok(Options {
        terms: ttl.into(),
        renew: flag(c"redis_lock.renew"),
        max_hold: Duration::MAX,
        interrupt: Options::INTERRUPT,
        auto_release: Options::AUTO_RELEASE,
        limits: limits()?,
        poll: poll()?,
        identify: flag(c"redis_lock.identify"),
    })
}

/// The setting of a ttl that is too short for what else is set.
pub fn refuse_ttl(bad: &BadValue) -> Stop {
    refuse(c"redis_lock.ttl", bad)
}

pub fn wait() -> Result<Duration, Stop> {
    checked(c"redis_lock.wait", ttl::wait_from_seconds)
}

fn limits() -> Result<Limits, Stop> {
    Ok(Limits {
        connect: checked(c"redis_lock.connect_timeout", positive_duration)?,
        command: checked(c"redis_lock.command_timeout", positive_duration)?,
    })
}

fn poll() -> Result<Poll, Stop> {
    let poll = Poll {
        min: checked(c"redis_lock.poll_min", positive_duration)?,
        max: checked(c"redis_lock.poll_max", positive_duration)?,
    };
    poll.validate().map_err(|bad| refuse(c"redis_lock.poll_min", &bad))?;
    Ok(poll)
}

fn checked<T>(name: &'static CStr, check: impl FnOnce(f64) -> Result<T, BadValue>) -> Result<T, Stop> {
    let number = text(name).trim().parse().map_err(|_| BadValue("must be a number of seconds".into()));
    number.and_then(check).map_err(|bad| refuse(name, &bad))
}

/// The reader of php.ini has made 1 of `on`, `yes` and `true`, and nothing of their contraries; `ini_set` has not.
fn flag(name: &'static CStr) -> bool {
    !matches!(text(name).trim().to_ascii_lowercase().as_str(), "" | "0" | "off" | "no" | "false" | "none")
}

fn text(name: &'static CStr) -> String {
    String::from_utf8_lossy(&bytes(name, false)).into_owned()
}

/// The value of a setting; `original`: before the script changed it.
pub fn bytes(name: &'static CStr, original: bool) -> Vec<u8> {
    // SAFETY: the table of this thread's settings, whose values are entries; ours are in it, and their strings live
    // until they are changed.
    let value = unsafe {
        let table = (*ext_php_rs_executor_globals()).ini_directives;
        let entry = zend_hash_str_find_ptr_lc(table, name.as_ptr(), name.count_bytes()).cast::<zend_ini_entry>();
        entry.as_ref().and_then(|entry| {
            let changed = original && entry.modified != 0;
            if changed { entry.orig_value.as_ref() } else { entry.value.as_ref() }
        })
    };
    value.map_or_else(Vec::new, |value| value.as_bytes().into())
}

fn refuse(name: &'static CStr, bad: &BadValue) -> Stop {
    exceptions::value(&format!("The setting {} {bad}", name.to_string_lossy()))
}
