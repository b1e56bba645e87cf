//! Acquire, refresh, release and evict, over the ports.
//!
//! Each step is tried at most twice, the second time on a new connection, and every request may run twice or late:
//! - An acquire whose answer was lost is asked again with the same token; "already mine" is success.
//! - A release whose answer was lost is sent again; "not ours" then means that the first one ran.
//! - Only a definite answer settles a lease. Until then its token is kept, so that somebody can free it.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use super::{
    error::Error,
    keys::Key,
    lease::{Lease, State},
    options::{Limits, Poll},
    ports::{Call, Cause, Clock, Fault, Freed, Interrupt, Occupant, Renewal, Store, Vote, WakeUp},
    time::Moment,
    token::Holder,
    ttl::Ttl,
    waiting::Waiting,
};

pub struct Engine<'a> {
    pub store: &'a dyn Store,
    pub clock: &'a dyn Clock,
    pub interrupt: &'a dyn Interrupt,
    pub wake_up: &'a dyn WakeUp,
    pub limits: Limits,
}

/// How an acquire went.
#[derive(Debug)]
pub enum Acquired {
    Held,
    /// Someone else holds the key; who, if the last answer told.
    Busy {
        holder: Option<Holder>,
        waited: Duration,
    },
}

/// What an acquire is to do.
#[derive(Clone, Copy, Debug)]
pub struct Acquire {
    pub ttl: Ttl,
    /// When the wait began: a call may have had to do something else first, or to begin again after a fork.
    pub start: Moment,
    /// Zero: exactly one try. `Duration::MAX`: no limit.
    pub wait: Duration,
    pub poll: Poll,
    /// The first look may be a bare `SET NX`: the token was drawn for this acquire, so that the key cannot hold it yet,
    /// and who holds the key need not be told.
    pub bare: bool,
}

impl Engine<'_> {
    /// Takes the key for `lease`, which nobody has asked for yet.
    pub fn acquire(&self, lease: &Lease, what: &Acquire) -> Result<Acquired, Error> {
        let start = what.start;
        let give_up = start.plus(what.wait);
        let call = self.call(give_up.plus(self.limits.grace()));
        let mut waiting = None;
        let mut bare = what.bare;
        loop {
            let holder = match self.claim(lease, what.ttl, bare, &call)? {
                None => return Ok(Acquired::Held),
                Some(busy) => busy.holder,
            };
            let now = self.clock.now();
            if bare && now < give_up {
                // The bare try tells nothing of the holder: a wait begins with a look that does.
                bare = false;
                continue;
            }
            let waiting = waiting.get_or_insert_with(|| Waiting::new(what.poll, give_up, seed(lease, now)));
            let Some(next_look) = waiting.next_look(now, holder.as_ref()) else {
                return Ok(Acquired::Busy { holder, waited: now.since(start) });
            };
            self.wake_up.sleep(next_look, self.clock, self.interrupt);
            self.go_on(lease)?;
            let now = self.clock.now();
            if now >= call.until {
                // The machine or the process was stopped meanwhile: there is no time left to ask and to hear.
                return Ok(Acquired::Busy { holder, waited: now.since(start) });
            }
        }
    }

    /// One look at the key. None: it is ours.
    fn claim(&self, lease: &Lease, ttl: Ttl, bare: bool, call: &Call) -> Result<Option<Busy>, Error> {
        let mut first = true;
        loop {
            let sent = self.clock.now();
            let vote = if bare && first {
                self.store.try_acquire(lease.key(), lease.token(), ttl, call)
            } else {
                self.store.ask(lease.key(), lease.token(), ttl, call)
            };
            // A child that a handler forked meanwhile must not touch what is its parent's.
            self.same_process(lease)?;
            let fault = match vote {
                Vote::Granted => {
                    lease.granted(sent, ttl);
                    return self.keep_if_sound(lease, sent, call).map(|()| None);
                }
                Vote::Refused(holder) => {
                    Self::forget_unless_unknown(lease);
                    self.go_on(lease)?;
                    return Ok(Some(Busy { holder }));
                }
                Vote::Unknown(fault) => fault,
            };
            if fault.may_have_run() {
                lease.unknown(sent, ttl);
                if first && !self.interrupt.stopped() && self.clock.now() < call.until {
                    first = false;
                    continue;
                }
            }
            if self.interrupt.stopped() && lease.has_unknowns() {
                self.withdraw(lease, call);
            } else {
                Self::forget_unless_unknown(lease);
            }
            self.go_on(lease)?;
            return Err(Self::error(fault));
        }
    }

    /// A granted lease is reported only if something of it is left, and if somebody is there to have it.
    fn keep_if_sound(&self, lease: &Lease, sent: Moment, call: &Call) -> Result<(), Error> {
        let now = self.clock.now();
        let sound = lease.is_valid(now);
        if sound && !self.interrupt.stopped() {
            return Ok(());
        }
        self.withdraw(lease, call);
        self.go_on(lease)?;
        Err(Error::UsedUp { server: self.store.name().into(), took: now.since(sent) })
    }

    /// Gives up an acquire that may have succeeded. Once: what cannot be freed now is left to the lease's owner.
    fn withdraw(&self, lease: &Lease, call: &Call) {
        match self.store.leave(lease.key(), lease.token(), call) {
            Freed::Freed | Freed::NotOurs => Self::forget_unless_unknown(lease),
            Freed::Unknown(fault) => {
                if fault.may_have_run() {
                    lease.taint();
                }
                lease.withdrawn();
            }
        }
    }

    /// After an answer that says that the key is not ours. A request that may yet run could still make it so.
    fn forget_unless_unknown(lease: &Lease) {
        if lease.has_unknowns() { lease.withdrawn() } else { lease.settled() }
    }

    /// True: it was ours, and the key is free now. False: it was not ours any more.
    pub fn release(&self, lease: &Lease, until: Moment) -> Result<bool, Error> {
        let call = self.call(until);
        let mut first = true;
        loop {
            let state = lease.state();
            let was_valid = lease.is_valid(self.clock.now());
            let fault = match self.store.leave(lease.key(), lease.token(), &call) {
                Freed::Freed => {
                    lease.settled();
                    return Ok(true);
                }
                // It was ours when a release of unknown fate was sent: that release ran.
                Freed::NotOurs if state == State::Releasing => {
                    lease.settled();
                    return Ok(true);
                }
                Freed::NotOurs => {
                    Self::not_ours(lease);
                    return Ok(false);
                }
                Freed::Unknown(fault) => fault,
            };
            if fault.may_have_run() {
                lease.releasing(was_valid);
                if first && self.clock.now() < until {
                    first = false;
                    continue;
                }
            }
            return Err(Self::error(fault));
        }
    }

    /// True: it is ours, and its ttl starts anew. False: it is not ours any more.
    pub fn refresh(&self, lease: &Lease, ttl: Ttl) -> Result<bool, Error> {
        if !matches!(lease.state(), State::Held | State::Unsure) {
            return Ok(false);
        }
        let call = self.call(self.deadline());
        let mut first = true;
        loop {
            let sent = self.clock.now();
            let before = lease.sending(sent, ttl);
            let fault = match self.store.refresh(lease.key(), lease.token(), ttl, &call) {
                Renewal::Renewed => {
                    lease.granted(sent, ttl);
                    return Ok(true);
                }
                Renewal::Lost => {
                    Self::not_ours(lease);
                    return Ok(false);
                }
                Renewal::Unknown(fault) => fault,
            };
            if !fault.may_have_run() {
                lease.not_sent(before);
                return Err(Self::error(fault));
            }
            lease.unknown(sent, ttl);
            if !first || self.clock.now() >= call.until {
                return Err(Self::error(fault));
            }
            first = false;
        }
    }

    fn not_ours(lease: &Lease) {
        if lease.state() == State::Held { lease.lost() } else { lease.settled() }
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
        let mut first = true;
        loop {
            let fault = match self.store.leave(key, &token, &call) {
                // Not theirs any more: freed meanwhile, by them or by our request whose answer was lost.
                Freed::Freed | Freed::NotOurs => {
                    own.inspect(|own| own.settled());
                    return Ok(true);
                }
                Freed::Unknown(fault) => fault,
            };
            if fault.may_have_run() {
                own.inspect(|own| own.releasing(own.is_valid(self.clock.now())));
            }
            if !first || !fault.may_have_run() || self.clock.now() >= call.until {
                return Err(Self::error(fault));
            }
            first = false;
        }
    }

    fn occupant(&self, key: &Key, call: &Call) -> Result<Option<Occupant>, Error> {
        match self.store.occupant(key, call) {
            // Reading is free to be repeated.
            Err(fault) if fault.may_have_run() && self.clock.now() < call.until => self.store.occupant(key, call),
            answer => answer,
        }
        .map_err(Self::error)
    }

    /// The end of a call that does not wait, if it starts now.
    pub fn deadline(&self) -> Moment {
        self.limits.deadline(self.clock.now())
    }

    fn call(&self, until: Moment) -> Call<'_> {
        Call { until, limits: self.limits, clock: self.clock, interrupt: self.interrupt }
    }

    /// Whether an acquire may go on: the host has not stopped it, and this is still the process that began it.
    fn go_on(&self, lease: &Lease) -> Result<(), Error> {
        self.same_process(lease)?;
        if self.interrupt.stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn same_process(&self, lease: &Lease) -> Result<(), Error> {
        if self.interrupt.process() == lease.process() { Ok(()) } else { Err(Error::Forked) }
    }

    fn error(fault: Fault) -> Error {
        match fault.cause {
            Cause::Forked => Error::Forked,
            _ => Error::Store(fault),
        }
    }
}

struct Busy {
    holder: Option<Holder>,
}

fn seed(lease: &Lease, now: Moment) -> u64 {
    let mut hasher = DefaultHasher::new();
    (lease.token().as_bytes(), now.as_nanos()).hash(&mut hasher);
    hasher.finish()
}
