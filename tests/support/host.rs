//! The program around a real store: it counts how often it is asked, and may do something then.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use redis_lock::{
    lock::{
        options::Limits,
        ports::{Call, Clock, Interrupt},
    },
    sys::{clock::SystemClock, fork},
};

use super::LIMITS;

#[derive(Default)]
pub struct Host {
    /// When it was asked to run what is pending.
    pub pumps: RefCell<Vec<Instant>>,
    at_first_pump: Cell<Option<Box<dyn FnOnce()>>>,
    stops: bool,
    stopped: Cell<bool>,
}

impl Host {
    pub fn that_once(act: impl FnOnce() + 'static) -> Self {
        Self { at_first_pump: Cell::new(Some(Box::new(act))), ..Self::default() }
    }

    /// As soon as it is asked it wants the call to end.
    pub fn that_stops() -> Self {
        Self { stops: true, ..Self::default() }
    }

    pub fn call(&self) -> Call<'_> {
        self.call_within(LIMITS)
    }

    pub fn call_within(&self, limits: Limits) -> Call<'_> {
        Call { until: SystemClock.now().plus(limits.grace()), limits, clock: &SystemClock, interrupt: self }
    }

    /// The longest time for which it was not asked, from `start` until now.
    pub fn longest_silence(&self, start: Instant) -> Duration {
        let pumps = self.pumps.borrow();
        let ends = pumps.iter().copied().chain([Instant::now()]);
        let starts = [start].into_iter().chain(pumps.iter().copied());
        starts.zip(ends).map(|(start, end)| end.saturating_duration_since(start)).max().unwrap()
    }
}

impl Interrupt for Host {
    fn pump(&self) {
        self.pumps.borrow_mut().push(Instant::now());
        self.stopped.set(self.stops);
        if let Some(act) = self.at_first_pump.take() {
            act();
        }
    }

    fn stopped(&self) -> bool {
        self.stopped.get()
    }

    fn process(&self) -> u64 {
        fork::process()
    }
}
