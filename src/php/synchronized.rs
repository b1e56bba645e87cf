//! `RedisLock::synchronized()`: whatever way the callable ends, the lock is freed, and what the callable gave or threw
//! is not hidden.

use std::{sync::Arc, time::Duration};

use ext_php_rs::types::Zval;

use super::{
    call,
    critical::{HeldBack, Interruptible},
    exceptions,
    interrupt::{Pump, Quiet},
    lock::RedisLock,
    method::Stop,
    request, zend,
};
use crate::{
    keeper::Loss,
    lock::{
        acquire::Acquired,
        error::Error,
        lease::{Lease, State},
        ports::{Clock, Interrupt},
    },
    stats,
    sys::{clock::SystemClock, fork},
};

impl RedisLock {
    /// Calls `critical` while the lock is held.
    pub fn synchronized(&self, critical: &mut Zval, wait: Duration) -> Result<Zval, Stop> {
        if let Acquired::Busy { busy, waited } = self.take("synchronized", wait, !wait.is_zero())? {
            return Err(exceptions::timeout(self.key.name(), busy.as_ref(), waited));
        }
        let Some(lease) = self.lease() else { return Err(exceptions::error("The lease is gone")) };
        // Also with autoRelease: false, for what a fatal error leaves behind.
        request::keep(&lease, &self.store, self.options.limits);
        let interruptible = match (self.options.interrupt, self.kept()) {
            (false, _) => None,
            (true, Some(kept)) => Some(Interruptible::new(&lease, kept)),
            (true, None) => Some(Interruptible::new(&lease, self.look_after_or_free(&lease, false)?)),
        };
        let called = call::guarded(critical);
        let _held_back = HeldBack::new();
        let thrown = interruptible.as_ref().and_then(Interruptible::thrown);
        let ending = self.end(&lease, called.as_ref().map(|_| ()).map_err(|stop| *stop), thrown);
        let key = self.key.name();
        let result = match (called, ending) {
            (Err(Stop::Bailout), _) => Err(Stop::Bailout),
            (_, Ending::Stopped(stop)) => Err(stop),
            (Ok(value), Ending::Over) => Ok(value),
            (Ok(value), Ending::Lost(loss)) => Err(exceptions::lost(key, &loss, Some(value))),
            (Ok(value), Ending::Unknown(error)) => exceptions::warn(&unreleased(key, &error)).map(|()| value),
            (Err(stop), Ending::Over) => Err(stop),
            // That is the exception.
            (Err(stop), Ending::Lost(_)) if thrown.is_some() && exceptions::is_lost(key) => Err(stop),
            (Err(_), Ending::Lost(loss)) => Err(warn_beside_exception(&format!(
                "The lock {} was lost before the exception that ended its holder{}",
                exceptions::quoted(key),
                exceptions::why(&loss)
            ))),
            (Err(_), Ending::Unknown(error)) => Err(warn_beside_exception(&unreleased(key, &error))),
        };
        match result {
            Ok(value) if call::is_generator(&value) => Err(exceptions::logic(
                "RedisLock::synchronized(): Argument #1 ($critical) must not return a Generator: \
                 its body would run after the release",
            )),
            result => result,
        }
    }

    /// Frees the lock at the end of `synchronized`. `thrown`: the loss that the callable was told of.
    fn end(&self, lease: &Arc<Lease>, called: Result<(), Stop>, thrown: Option<&Loss>) -> Ending {
        if lease.process() != fork::process() {
            return Ending::Over;
        }
        // The callable may have released it, and even acquired it anew on this object.
        let current = self.lease().unwrap_or_else(|| lease.clone());
        let seen = self.look_no_more().filter(|_| Arc::ptr_eq(&current, lease));
        // What was told stays so, even if the key was ours to the end.
        let told = thrown.cloned().or(seen);
        let is_over = told.is_some() || lease.is_expired(SystemClock.now());
        // Where nobody has seen it, it is the clock that says so, or else the server, now or when it was asked.
        let ran_out = is_over && lease.may_live();
        let loss = told.clone().unwrap_or(if ran_out { Loss::RanOut } else { Loss::NotOurs });
        // The engine takes signals off its queue, but calls no handler, while an exception is pending.
        let exception = zend::suspend_exception();
        let pump = Pump::default();
        let nothing_may_run = called == Err(Stop::Bailout) || zend::is_exit(exception);
        let interrupt: &dyn Interrupt = if nothing_may_run { &Quiet } else { &pump };
        let engine = self.engine(interrupt);
        let released = if current.may_live() { engine.release(&current, engine.deadline()) } else { Ok(true) };
        if !current.may_live() || !self.options.auto_release {
            request::forget(&current);
        }
        request::forget(lease);
        if !exception.is_null() && pump.stop() != Err(Stop::Bailout) {
            zend::resume_exception(exception);
        }
        let was_held = told.is_none() && lease.state() == State::Settled;
        let ending = match (pump.stop(), released) {
            (Err(stop), _) => Ending::Stopped(stop),
            (Ok(()), Ok(true)) if was_held => Ending::Over,
            (Ok(()), Err(Error::Forked)) => Ending::Over,
            (Ok(()), Err(error)) if !is_over => Ending::Unknown(error),
            (Ok(()), _) => Ending::Lost(loss),
        };
        if matches!(ending, Ending::Lost(_)) {
            stats::count_loss(lease);
        }
        ending
    }
}

/// How a lease ended at the end of `synchronized`.
enum Ending {
    /// Freed: by us, by the callable, or, in a forked child, not ours to free.
    Over,
    Lost(Loss),
    Unknown(Error),
    Stopped(Stop),
}

fn unreleased(key: &[u8], error: &Error) -> String {
    format!("The lock {} could not be released: {error}", exceptions::quoted(key))
}

/// The exception goes on.
fn warn_beside_exception(message: &str) -> Stop {
    exceptions::warn(message).err().unwrap_or(Stop::Thrown)
}
