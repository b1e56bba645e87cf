//! Whether a step of a call is tried again after a fault, and when.
//!
//! A server that has its place for good is asked at most twice, the second time because the answer to the first was lost.
//! One that fails over is asked for as long as there is time: the next answer may be that of another server.

use std::time::Duration;

use super::{
    backoff::Backoff,
    engine::Engine,
    error::Error,
    options::Poll,
    ports::{Call, Fault},
    time::Moment,
};

/// Of one step.
pub struct Tries<'a> {
    engine: &'a Engine<'a>,
    until: Moment,
    process: u64,
    is_first: bool,
    outage: Option<(Moment, Backoff)>,
}

impl<'a> Tries<'a> {
    const PAUSES: Poll = Poll { min: Duration::from_millis(20), max: Duration::from_millis(250) };
    const LEAST_TIME: Duration = Duration::from_millis(50);
    /// Longer than a fail-over may take. A wait may have no limit, and whoever waits is to hear of an outage.
    const LONGEST_OUTAGE: Duration = Duration::from_secs(60);

    pub fn new(engine: &'a Engine<'a>, call: &Call) -> Self {
        Self { engine, until: call.until, process: engine.interrupt.process(), is_first: true, outage: None }
    }

    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// After a pause, if one is needed. False: it is not.
    pub fn again(&mut self, fault: &Fault) -> bool {
        let Engine { store, clock, interrupt, wake_up, .. } = *self.engine;
        let is_first = std::mem::replace(&mut self.is_first, false);
        let now = clock.now();
        if now >= self.until {
            return false;
        }
        if is_first && fault.may_have_run() {
            return true;
        }
        if !store.fails_over() || !fault.may_pass() {
            return false;
        }
        let begin = || (now, Backoff::new(Self::PAUSES, now.as_nanos()));
        let (began, backoff) = self.outage.get_or_insert_with(begin);
        let next = now.plus(backoff.pause());
        // One that had next to no time would only hide what was wrong.
        if next.plus(Self::LEAST_TIME) >= self.until.min(began.plus(Self::LONGEST_OUTAGE)) {
            return false;
        }
        wake_up.sleep(next, clock, interrupt);
        !interrupt.stopped() && interrupt.process() == self.process
    }

    /// Of a step that is not tried again.
    pub fn error(&self, fault: Fault) -> Error {
        if self.engine.interrupt.process() == self.process { Engine::error(fault) } else { Error::Forked }
    }
}
