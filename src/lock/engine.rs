//! Refresh, release and evict, over the ports; `acquire.rs` has the rest.
//!
//! Each step may be tried again (`tries.rs`), on a new connection, and every request may run twice or late:
//! - An acquire whose answer was lost is asked again with the same token; "already mine" is success.
//! - A release whose answer was lost is sent again; "not ours" then means that the first one ran.
//! - Only a definite answer settles a lease. Until then its token is kept, so that somebody can free it.

use std::time::Duration;

use super::{
    error::Error,
    keys::Key,
    lease::{Lease, Prolonging, State},
    options::Limits,
    ports::{Call, Cause, Clock, Fault, Freed, Interrupt, Occupant, Renewal, Store, WakeUp},
    time::Moment,
    token::Holder,
    tries::Tries,
    ttl::Ttl,
};

pub struct Engine<'a> {
    pub store: &'a dyn Store,
    pub clock: &'a dyn Clock,
    pub interrupt: &'a dyn Interrupt,
    pub wake_up: &'a dyn WakeUp,
    pub limits: Limits,
}

impl Engine<'_> {
    /// True: it was ours, and the key is free now. False: it was not ours any more.
    pub fn release(&self, lease: &Lease, until: Moment) -> Result<bool, Error> {
        let call = self.call(until);
        let _leaving = lease.leaving();
        let mut tries = Tries::new(self, &call);
        loop {
            let state = lease.state();
            let was_valid = lease.is_valid(self.clock.now());
            let fault = match self.store.leave(lease.key(), lease.token(), None, &call) {
                Freed::Freed => {
                    lease.freed();
                    // Its holder was told that it is over.
                    return Ok(state != State::Overdue);
                }
                // It was ours when a release of unknown fate was sent: that release ran.
                Freed::NotOurs if state == State::Releasing => {
                    lease.settled();
                    return Ok(true);
                }
                Freed::NotOurs => {
                    lease.not_ours();
                    return Ok(false);
                }
                Freed::Unknown(fault) => fault,
            };
            if fault.may_have_run() {
                lease.releasing(was_valid);
            }
            if !tries.again(&fault) {
                return Err(tries.error(fault));
            }
        }
    }

    /// True: it is ours, and its ttl starts anew. False: it is not ours any more.
    pub fn refresh(&self, lease: &Lease, ttl: Ttl) -> Result<bool, Error> {
        if !matches!(lease.state(), State::Held | State::Unsure) {
            return Ok(false);
        }
        let call = self.call(self.deadline());
        let _prolonging = self.prolong(lease, &call)?;
        if !matches!(lease.state(), State::Held | State::Unsure) {
            // What was waited for may have been refused.
            return Ok(false);
        }
        let mut tries = Tries::new(self, &call);
        loop {
            let sent = self.clock.now();
            let before = lease.sending(sent, ttl);
            let fault = match self.store.refresh(lease.key(), lease.token(), ttl, &call) {
                Renewal::Renewed => return Ok(lease.refreshed(sent, ttl)),
                Renewal::Lost => {
                    lease.not_ours();
                    return Ok(false);
                }
                Renewal::Unknown(fault) => fault,
            };
            if fault.may_have_run() {
                lease.unknown(sent, ttl);
            } else {
                lease.not_sent(before);
            }
            if !tries.again(&fault) {
                return Err(tries.error(fault));
            }
        }
    }

    /// Waits for the answer to a renewal of the keeper's, if one is under way.
    pub(super) fn prolong<'a>(&self, lease: &'a Lease, call: &Call) -> Result<Prolonging<&'a Lease>, Error> {
        const PAUSE: Duration = Duration::from_millis(1);
        loop {
            if let Some(prolonging) = Lease::prolong(lease) {
                return Ok(prolonging);
            }
            let now = self.clock.now();
            if now >= call.until {
                let (server, cause) = (self.store.name().into(), Cause::NoAnswer("a renewal is under way".into()));
                return Err(Self::error(Fault { server, cause }));
            }
            self.wake_up.sleep(now.plus(PAUSE).min(call.until), self.clock, self.interrupt);
            self.go_on(lease)?;
        }
    }

    /// Who holds the key.
    pub fn holder(&self, key: &Key) -> Result<Option<Holder>, Error> {
        Ok(self.occupant(key, &self.call(self.deadline()))?.map(|occupant| occupant.holder))
    }

    /// Ends the lease of whoever holds the key. True: someone held it. `own`: the caller's own lease, which may be that
    /// one.
    ///
    /// By looking first and then freeing just that holder: a bare delete that runs twice or late would free the next.
    pub fn evict(&self, key: &Key, own: Option<&Lease>) -> Result<bool, Error> {
        let call = self.call(self.deadline());
        let Some(Occupant { token, .. }) = self.occupant(key, &call)? else { return Ok(false) };
        let own = own.filter(|own| *own.token() == token);
        let _leaving = own.map(Lease::leaving);
        let mut tries = Tries::new(self, &call);
        loop {
            let fault = match self.store.leave(key, &token, None, &call) {
                // Not theirs any more: freed meanwhile, by them or by our request whose answer was lost.
                Freed::Freed | Freed::NotOurs => {
                    own.inspect(|own| own.freed());
                    return Ok(true);
                }
                Freed::Unknown(fault) => fault,
            };
            if fault.may_have_run() {
                own.inspect(|own| own.releasing(own.is_valid(self.clock.now())));
            }
            if !tries.again(&fault) {
                return Err(tries.error(fault));
            }
        }
    }

    fn occupant(&self, key: &Key, call: &Call) -> Result<Option<Occupant>, Error> {
        let mut tries = Tries::new(self, call);
        loop {
            match self.store.occupant(key, call) {
                // Reading is free to be repeated.
                Err(fault) if tries.again(&fault) => {}
                answer => return answer.map_err(|fault| tries.error(fault)),
            }
        }
    }

    /// The end of a call that does not wait, if it starts now.
    pub fn deadline(&self) -> Moment {
        self.limits.deadline(self.clock.now())
    }

    pub(super) fn call(&self, until: Moment) -> Call<'_> {
        Call { until, limits: self.limits, clock: self.clock, interrupt: self.interrupt }
    }

    /// Whether an acquire may go on: the host has not stopped it, and this is still the process that began it.
    pub(super) fn go_on(&self, lease: &Lease) -> Result<(), Error> {
        self.same_process(lease)?;
        if self.interrupt.stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }

    pub(super) fn same_process(&self, lease: &Lease) -> Result<(), Error> {
        if self.interrupt.process() == lease.process() { Ok(()) } else { Err(Error::Forked) }
    }

    pub(super) fn error(fault: Fault) -> Error {
        match fault.cause {
            Cause::Forked => Error::Forked,
            _ => Error::Store(fault),
        }
    }
}
