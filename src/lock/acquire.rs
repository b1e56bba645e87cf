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
    options::Poll,
    ports::{Busy, Call, Cause, Fault, Freed, Subscription, Vote, Woken},
    queue::Place,
    time::Moment,
    ttl::Ttl,
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

/// One acquire, under way.
struct Turn<'a> {
    lease: &'a Lease,
    what: &'a Acquire,
    call: Call<'a>,
    give_up: Moment,
    push: Push,
    /// Something was asked for that must not be left behind.
    to_be_undone: bool,
}

/// Whether we are told when the key is ours.
enum Push {
    NotTried,
    Told(Line),
    /// We look for ourselves: one try is enough for one wait. Who was in the queue keeps its place, so that those before
    /// it come first still, though nobody can offer it the key.
    Untold(Option<Place>),
}

/// A place in the queue, and what we hear by.
struct Line {
    subscription: Box<dyn Subscription>,
    place: Place,
    renewed: Option<Moment>,
}

impl Line {
    /// A subscription that ends again so soon is not worth to be renewed: the server, or what stands before it, does not
    /// want it, or is not where our requests go.
    const SOON: Duration = Duration::from_secs(1);

    fn new(subscription: Box<dyn Subscription>, ttl: Ttl) -> Self {
        let place = Place { ear: subscription.ear().into(), wait: subscription.begin(), ttl, ticket: None };
        Self { subscription, place, renewed: None }
    }
}

impl Turn<'_> {
    fn place(&self) -> Option<&Place> {
        match &self.push {
            Push::Told(line) => Some(&line.place),
            Push::Untold(place) => place.as_ref(),
            Push::NotTried => None,
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
        let waits = self.clock.now() < give_up;
        let subscription = if waits { kept.take() } else { None };
        let push = match subscription.filter(|subscription| subscription.is_alive()) {
            Some(subscription) => Push::Told(Line::new(subscription, what.ttl)),
            None => Push::NotTried,
        };
        let mut turn = Turn { lease, what, call, give_up, push, to_be_undone: false };
        let outcome = self.look_until_held(&mut turn);
        match outcome {
            // An ask that may yet run would put the dead entry of this wait beside what hears for the next.
            Ok(Acquired::Held) if lease.has_unknowns() => {}
            Ok(Acquired::Held) => {
                if let Push::Told(line) = turn.push {
                    *kept = Some(line.subscription);
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
        // A server that does not answer is not asked once more: no offer reaches us without a subscription.
        let is_silent = outcome.as_ref().is_err_and(Error::is_silence);
        if turn.to_be_undone || (turn.place().is_some() && !is_silent) {
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
            let Some(busy) = self.claim(turn, bare)? else { return Ok(Acquired::Held) };
            let now = self.clock.now();
            if now < turn.give_up {
                let asks_at_once = bare | self.prepare(turn, busy.as_ref())?;
                bare = false;
                if asks_at_once {
                    continue;
                }
            }
            let waiting = waiting.get_or_insert_with(|| Waiting::new(poll, turn.give_up, seed(turn.lease, now)));
            let is_told = matches!(turn.push, Push::Told(_));
            let Some(next_look) = waiting.next_look(now, busy.as_ref(), is_told) else {
                return Ok(Acquired::Busy { busy, waited: now.since(start) });
            };
            let woken = match &turn.push {
                Push::Told(line) => line.subscription.sleep(next_look, self.clock, self.interrupt),
                Push::NotTried | Push::Untold(_) => {
                    self.wake_up.sleep(next_look, self.clock, self.interrupt);
                    Woken::Untold
                }
            };
            self.go_on(turn.lease)?;
            let now = self.clock.now();
            if now >= turn.call.until {
                // The machine or the process was stopped meanwhile: there is no time left to ask and to hear. But to leave.
                turn.call.until = now.plus(self.limits.command);
                return Ok(Acquired::Busy { busy, waited: now.since(start) });
            }
            if woken == Woken::Deaf {
                self.renew(turn)?;
            }
        }
    }

    /// After "busy", and before we sleep. True: we are to ask once more, for now we can be told.
    fn prepare(&self, turn: &mut Turn, busy: Option<&Busy>) -> Result<bool, Error> {
        let line = match &mut turn.push {
            Push::Untold(_) => return Ok(false),
            Push::NotTried => {
                let subscribed = self.store.subscribe(turn.lease.key(), &turn.call);
                self.go_on(turn.lease)?;
                turn.push = match subscribed {
                    Ok(subscription) => Push::Told(Line::new(subscription, turn.what.ttl)),
                    // Whether the server is there at all, the next look says.
                    Err(_) => Push::Untold(None),
                };
                return Ok(turn.place().is_some());
            }
            Push::Told(line) => line,
        };
        match busy.and_then(|busy| busy.queued) {
            None => {
                // We may not use the queue.
                turn.push = Push::Untold(None);
                Ok(false)
            }
            Some(queued) => {
                line.place.ticket.get_or_insert(queued.ticket);
                if queued.heard {
                    return Ok(false);
                }
                self.renew(turn)?;
                Ok(true)
            }
        }
    }

    /// Hears again, or looks for itself from now on. Either way something may have been missed: who calls looks.
    fn renew(&self, turn: &mut Turn) -> Result<(), Error> {
        let Push::Told(line) = &mut turn.push else { return Ok(()) };
        let now = self.clock.now();
        let is_in_vain = line.renewed.replace(now).is_some_and(|before| now.since(before) < Line::SOON);
        let hears = !is_in_vain && line.subscription.renew(&turn.call).is_ok();
        self.go_on(turn.lease)?;
        if !hears {
            turn.push = Push::Untold(Some(line.place.clone()));
        }
        Ok(())
    }

    /// One look at the key. None: it is ours.
    ///
    /// Also where it was offered to us: an offer is nothing to believe in. The answer to this request is, and validity
    /// counts from before it was sent, while Redis counts the ttl from when it ran, which is later. So what we believe
    /// ends before what Redis keeps.
    fn claim(&self, turn: &mut Turn, bare: bool) -> Result<Option<Option<Busy>>, Error> {
        let Turn { lease, what: &Acquire { ttl, .. }, call, .. } = *turn;
        let mut first = true;
        loop {
            let sent = self.clock.now();
            let vote = if bare && first {
                self.store.try_acquire(lease.key(), lease.token(), ttl, &call)
            } else {
                self.store.ask(lease.key(), lease.token(), ttl, turn.place(), &call)
            };
            // A child that a handler forked meanwhile must not touch what is its parent's.
            self.same_process(lease)?;
            let fault = match vote {
                Vote::Granted => {
                    lease.granted(sent, ttl);
                    let now = self.clock.now();
                    if lease.is_valid(now) && !self.interrupt.stopped() {
                        return Ok(None);
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
                    return Ok(Some(busy));
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
