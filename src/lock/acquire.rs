//! Acquire: try, and wait in the queue for what is busy.
//!
//! A wait subscribes before it asks, so that there is no gap between "busy" and being told. It has one way out: who
//! was in the queue and goes without the key leaves it, and what was offered to it in that moment is passed on.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use super::{
    engine::Engine,
    error::Error,
    lease::Lease,
    line::Line,
    options::{Poll, Terms},
    ports::{Busy, Call, Cause, Fault, Freed, Subscription, Vote, Woken},
    queue::Place,
    time::Moment,
    tries::Tries,
    waiting::Waiting,
};

/// How an acquire went.
#[derive(Debug)]
pub enum Acquired {
    Held,
    /// Someone else holds the key; who, if the last answer told.
    Busy {
        busy: Option<Busy>,
        waited: Duration,
    },
}

/// What an acquire is to do.
#[derive(Clone, Copy, Debug)]
pub struct Acquire {
    pub terms: Terms,
    /// When the wait began: a call may have had to do something else first, or to begin again after a fork.
    pub start: Moment,
    /// Zero: exactly one try. `Duration::MAX`: no limit.
    pub wait: Duration,
    pub poll: Poll,
    /// The first look may be a bare `SET NX`: the token was drawn for this acquire, so that the key cannot hold it yet,
    /// and who holds the key need not be told.
    pub bare: bool,
}

/// One acquire, under way.
struct Turn<'a> {
    lease: &'a Lease,
    what: &'a Acquire,
    call: Call<'a>,
    give_up: Moment,
    standing: Standing,
    /// Something was asked for that must not be left behind.
    to_be_undone: bool,
    /// The last sleep ended without a word.
    untold: bool,
}

/// What one look at the key found.
enum Look {
    Held,
    /// Who is in the way, if the answer told.
    Busy(Option<Busy>),
}

/// Where we stand while we wait.
enum Standing {
    NotTried,
    In(Line),
    /// We may not use it, and look for ourselves.
    Refused,
}

impl Turn<'_> {
    fn place(&self) -> Option<&Place> {
        match &self.standing {
            Standing::In(line) => Some(&line.place),
            Standing::NotTried | Standing::Refused => None,
        }
    }
}

impl Engine<'_> {
    /// Takes the key for `lease`, which nobody has asked for yet. `kept`: the subscription of an earlier wait for this
    /// key, and afterwards the one to keep for the next: who had to wait once goes straight into the queue.
    pub fn acquire(
        &self,
        lease: &Lease,
        what: &Acquire,
        kept: &mut Option<Box<dyn Subscription>>,
    ) -> Result<Acquired, Error> {
        let give_up = what.start.plus(what.wait);
        let call = self.call(give_up.plus(self.limits.grace()));
        let _prolonging = self.prolong(lease, &call)?;
        // What does not wait stands in no line, and leaves what is kept for what does.
        let subscription = if self.clock.now() < give_up { kept.take() } else { None };
        let standing = match subscription.filter(|subscription| subscription.is_alive()) {
            Some(subscription) => Standing::In(Line::new(subscription, what.terms.ttl, true)),
            None => Standing::NotTried,
        };
        let mut turn = Turn { lease, what, call, give_up, standing, to_be_undone: false, untold: false };
        let outcome = self.look_until_held(&mut turn);
        match outcome {
            // An ask that may yet run would put the dead entry of this wait beside what hears for the next.
            Ok(Acquired::Held) if lease.has_unknowns() => {}
            Ok(Acquired::Held) => {
                if let Standing::In(line) = turn.standing {
                    // Nor what has not told us, whatever the reason: the connection may be dead, and not know it.
                    *kept = Some(line.subscription).filter(|_| line.place.is_told && !turn.untold);
                }
            }
            Err(Error::Forked) => {}
            _ => self.go_without(&turn, &outcome)?,
        }
        outcome
    }

    /// Leaves the queue, and nothing else behind.
    fn go_without(&self, turn: &Turn, outcome: &Result<Acquired, Error>) -> Result<(), Error> {
        let lease = turn.lease;
        // A server that does not answer is not asked once more. What hears for us is dropped, and our place with it; one
        // that looked for itself may be offered the key once.
        let is_silent = outcome.as_ref().is_err_and(Error::is_silence);
        let is_queued = turn.place().is_some() && self.store.hands_over();
        if turn.to_be_undone || (is_queued && !is_silent) {
            self.withdraw(lease, turn.place(), &turn.call);
            self.same_process(lease)?;
        } else {
            Self::forget_unless_unknown(lease);
        }
        if outcome.is_ok() { self.go_on(lease) } else { Ok(()) }
    }

    fn look_until_held(&self, turn: &mut Turn) -> Result<Acquired, Error> {
        let Acquire { start, poll, .. } = *turn.what;
        let mut bare = turn.what.bare && turn.place().is_none();
        let mut waiting = None;
        loop {
            let Look::Busy(busy) = self.look(turn, bare)? else { return Ok(Acquired::Held) };
            let now = self.clock.now();
            if now < turn.give_up {
                let was_bare = std::mem::take(&mut bare);
                if self.prepare(turn, busy.as_ref())? || was_bare {
                    continue;
                }
            }
            let waiting = waiting.get_or_insert_with(|| Waiting::new(poll, turn.give_up, seed(turn.lease, now)));
            let is_told = turn.place().is_some_and(|place| place.is_told);
            // While the queue is out of reach, we hear, but nobody knows of us.
            let is_known = busy.as_ref().is_some_and(|busy| busy.queued.is_some()) || !self.store.hands_over();
            let Some(next_look) = waiting.next_look(now, busy.as_ref(), is_told && is_known) else {
                return Ok(Acquired::Busy { busy, waited: now.since(start) });
            };
            let woken = match &turn.standing {
                Standing::In(line) if is_told => line.subscription.sleep(next_look, self.clock, self.interrupt),
                _ => {
                    self.wake_up.sleep(next_look, self.clock, self.interrupt);
                    Woken::Untold
                }
            };
            turn.untold = woken != Woken::Told;
            if woken == Woken::Told && !self.store.hands_over() {
                // So are all others who wait.
                let pause = waiting.scattered();
                self.wake_up.sleep(self.clock.now().plus(pause).min(turn.give_up), self.clock, self.interrupt);
            }
            self.go_on(turn.lease)?;
            let now = self.clock.now();
            if now >= turn.call.until {
                // The machine or the process was stopped meanwhile: there is no time left to ask and to hear. But to leave.
                turn.call.until = now.plus(self.limits.command);
                return Ok(Acquired::Busy { busy, waited: now.since(start) });
            }
            if woken == Woken::Deaf {
                // Something may have been missed, whether we hear again or not: the next look is at once.
                self.listen(turn)?;
            }
        }
    }

    /// After "busy", and before we sleep. True: we are to ask once more, for what the queue knows of us has changed.
    fn prepare(&self, turn: &mut Turn, busy: Option<&Busy>) -> Result<bool, Error> {
        let line = match &mut turn.standing {
            Standing::Refused => return Ok(false),
            Standing::NotTried => {
                let subscription = self.store.subscription(turn.lease.key()).map_err(Self::error)?;
                turn.standing = Standing::In(Line::new(subscription, turn.what.terms.ttl, false));
                self.listen(turn)?;
                return Ok(true);
            }
            Standing::In(line) => line,
        };
        let heard = match busy.and_then(|busy| busy.queued) {
            Some(queued) => {
                line.place.ticket.get_or_insert(queued.ticket);
                queued.heard
            }
            // There is no queue: who hears that the key is free, tries for it.
            None if !self.store.hands_over() => Some(line.subscription.is_alive()),
            // Another server may be the one to ask by the next time, and have a queue for us.
            None if self.store.fails_over() => return Ok(false),
            None => {
                turn.standing = Standing::Refused;
                return Ok(false);
            }
        };
        if line.place.is_told && heard.is_none() {
            // Nobody who is refused that, as we are, could know that we listen.
            line.give_up();
            return Ok(true);
        }
        let hears = line.place.is_told && heard == Some(true);
        if hears || !(line.place.is_told || line.may_listen(self.clock.now())) {
            return Ok(false);
        }
        self.listen(turn)?;
        Ok(true)
    }

    fn listen(&self, turn: &mut Turn) -> Result<(), Error> {
        if let Standing::In(line) = &mut turn.standing {
            line.listen(&turn.call);
        }
        self.go_on(turn.lease)
    }

    /// One look at the key.
    ///
    /// Also where it was offered to us: an offer is nothing to believe in. The answer to this request is, and validity
    /// counts from before it was sent, while Redis counts the ttl from when it ran, which is later. So what we believe
    /// ends before what Redis keeps.
    fn look(&self, turn: &mut Turn, bare: bool) -> Result<Look, Error> {
        let Turn { lease, what: &Acquire { terms, .. }, call, .. } = *turn;
        let mut tries = Tries::new(self, &call);
        loop {
            let sent = self.clock.now();
            let vote = if bare && tries.is_first() {
                self.store.try_acquire(lease.key(), lease.token(), terms, &call)
            } else {
                self.store.ask(lease.key(), lease.token(), terms, turn.place(), &call)
            };
            // A child that a handler forked meanwhile must not touch what is its parent's.
            self.same_process(lease)?;
            let fault = match vote {
                Vote::Granted(fence) => {
                    lease.granted(sent, terms.ttl, fence);
                    let now = self.clock.now();
                    if lease.is_valid(now) && !self.interrupt.stopped() {
                        return Ok(Look::Held);
                    }
                    // Nothing of it is left, or nobody is there to have it.
                    turn.to_be_undone = true;
                    self.go_on(lease)?;
                    return Err(Error::UsedUp { server: self.store.name().into(), took: now.since(sent) });
                }
                Vote::Refused(busy) => {
                    // While we wait, there is nothing that somebody could release.
                    Self::forget_unless_unknown(lease);
                    self.go_on(lease)?;
                    return Ok(Look::Busy(busy));
                }
                Vote::Unknown(fault) => fault,
            };
            if fault.may_have_run() {
                lease.unknown(sent, terms.ttl);
            }
            if matches!(fault.cause, Cause::NoQuorum(_) | Cause::Tainted(_)) {
                // What some granted is being taken back, which may happen late.
                lease.taint();
            } else if matches!(fault.cause, Cause::Unconfirmed(_)) && self.store.fails_over() {
                // Freed before it is asked for again; our place in the queue is kept.
                self.withdraw(lease, None, &call);
                self.same_process(lease)?;
                if !lease.is_tainted() && !self.interrupt.stopped() && tries.again(&fault) {
                    continue;
                }
            } else if !self.interrupt.stopped() && tries.again(&fault) {
                continue;
            }
            turn.to_be_undone |= matches!(fault.cause, Cause::Unconfirmed(_) | Cause::Unconfirmable(_));
            turn.to_be_undone |= self.interrupt.stopped() && lease.has_unknowns();
            self.go_on(lease)?;
            return Err(Self::error(fault));
        }
    }

    /// Gives up an acquire that may have succeeded, and the place in the queue. Once: what cannot be freed now is left
    /// to the lease's owner.
    fn withdraw(&self, lease: &Lease, place: Option<&Place>, call: &Call) {
        match self.store.leave(lease.key(), lease.token(), place, call) {
            Freed::Freed | Freed::NotOurs => Self::forget_unless_unknown(lease),
            Freed::Unknown(Fault { cause: Cause::Forked, .. }) => {}
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
}

fn seed(lease: &Lease, now: Moment) -> u64 {
    let mut hasher = DefaultHasher::new();
    (lease.token().as_bytes(), now.as_nanos()).hash(&mut hasher);
    hasher.finish()
}
