//! Lets PHP run what is pending while we wait: signal handlers (`pcntl_async_signals`) and the time limit.
//!
//! A handler that throws, exits or fails ends the call; what it raised waits until our frames have cleaned up.

use std::{cell::Cell, panic::AssertUnwindSafe};

use ext_php_rs::zend::try_catch;

use super::{method::Stop, zend};
use crate::{lock::ports::Interrupt, sys::fork};

/// For calls from PHP code.
#[derive(Debug, Default)]
pub struct Pump {
    stop: Cell<Option<Stop>>,
}

impl Pump {
    /// Why the call is to end, if it is.
    pub fn stop(&self) -> Result<(), Stop> {
        self.stop.get().map_or(Ok(()), Err)
    }
}

impl Interrupt for Pump {
    fn pump(&self) {
        if self.stopped() || !zend::take_interrupt() {
            return;
        }
        let ran = try_catch(AssertUnwindSafe(|| {
            if zend::has_timed_out() {
                // SAFETY: raises the fatal error of the time limit, which leaves by bailing out to `try_catch`.
                unsafe { zend::zend_timeout() };
            }
            zend::run_interrupts();
        }));
        if ran.is_err() {
            self.stop.set(Some(Stop::Bailout));
        } else if zend::has_exception() {
            self.stop.set(Some(Stop::Thrown));
        }
    }

    fn stopped(&self) -> bool {
        self.stop.get().is_some()
    }

    fn process(&self) -> u64 {
        fork::process()
    }
}

/// For where no PHP code may run: destruction of an object, the end of a request, and while an exception is pending.
/// What is pending stays so, and runs right after.
#[derive(Clone, Copy, Debug)]
pub struct Quiet;

impl Interrupt for Quiet {
    fn pump(&self) {}

    fn stopped(&self) -> bool {
        false
    }

    fn process(&self) -> u64 {
        fork::process()
    }
}
