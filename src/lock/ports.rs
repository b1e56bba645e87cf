//! What the engine needs of the world: servers, a clock, a way to sleep, and a host that may interrupt.
//!
//! A store makes one bounded attempt; whether to try again, and what may be concluded, is the engine's to decide.
//! Its answers are never a bool: an answer that did not come is unknown, and unknown is not "no".

use std::{os::fd::RawFd, sync::Arc};

use super::{
    fence::Fence,
    keys::Key,
    lease::Lease,
    options::{Limits, Terms},
    queue::{Place, Queued},
    time::Moment,
    token::{Holder, Token},
    ttl::Ttl,
};

pub trait Clock {
    /// Monotonic, and counting the time that the machine was suspended, where the system has such a clock.
    fn now(&self) -> Moment;
}

/// The program around the lock. It runs what is pending (signal handlers, time limits) when it is asked to, at least
/// every 100 ms, and may then want the call to end.
pub trait Interrupt {
    /// Runs what is pending. No borrow and no lock may be held: it may use locks itself, or fork.
    fn pump(&self);
    /// Whether the call is to end. It stays so once it is, and nothing more is run.
    fn stopped(&self) -> bool;
    /// Which process this is: another number in a child that what `pump` ran has forked.
    fn process(&self) -> u64;
}

/// How a waiter sleeps that nobody tells when it is worth to look again.
pub trait WakeUp {
    /// Returns at `until`, or earlier when the host wants the call to end.
    fn sleep(&self, until: Moment, clock: &dyn Clock, interrupt: &dyn Interrupt);
}

/// The bounds of one attempt.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The end of the whole call; an attempt ends within this and within its limits.
    pub until: Moment,
    pub limits: Limits,
    pub clock: &'a dyn Clock,
    pub interrupt: &'a dyn Interrupt,
}

/// A server that holds keys.
pub trait Store {
    /// Its address as messages say it: no user, no password.
    fn name(&self) -> &str;
    /// Whether another server takes its place when it fails, so that it is worth to try again for as long as there is
    /// time.
    fn fails_over(&self) -> bool {
        false
    }
    /// Which of its servers has the key, as a number: that one is silent says nothing of the others.
    fn part(&self, _key: &Key) -> u64 {
        0
    }
    /// Sets the key if it is free. A token that holds it already may be refused, or be granted it as by `ask`.
    fn try_acquire(&self, key: &Key, token: &Token, terms: Terms, call: &Call) -> Vote;
    /// Takes the key if it is free. If the token holds it already, that is success, and its ttl starts anew. With a
    /// place, those before it come first, and who does not get the key is in the queue afterwards.
    fn ask(&self, key: &Key, token: &Token, terms: Terms, place: Option<&Place>, call: &Call) -> Vote;
    /// Takes the place out of the queue. Frees the key if the token holds it: the first waiter that can be told has it.
    fn leave(&self, key: &Key, token: &Token, place: Option<&Place>, call: &Call) -> Freed;
    /// Starts the ttl anew if the token holds the key.
    fn refresh(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Renewal;
    /// Who holds the key, and by what value. A key that is no string is an error, for it is no lock.
    fn occupant(&self, key: &Key, call: &Call) -> Result<Option<Occupant>, Fault>;
    /// Whether a key that is freed goes to the first in the queue. Otherwise all who wait are told, and whoever is first to
    /// try has it.
    fn hands_over(&self) -> bool {
        true
    }
    /// What offers of this key can be heard by, once it listens.
    fn subscription(&self, key: &Key) -> Result<Box<dyn Subscription>, Fault>;
}

/// A server, as the keeper knows it.
pub trait RenewalServer: Send + Sync {
    fn name(&self) -> &str;
    /// Which of its nodes has this key now, as far as it knows; it is reached by itself. None: there are no nodes.
    fn node(&self, _key: &Key) -> Option<Arc<dyn RenewalServer>> {
        None
    }
    /// Opens a connection for renewals, within the bounds of the call.
    fn open(&self, call: &Call) -> Result<Box<dyn Renewer>, Fault>;
}

/// A connection on which leases are renewed, many in one go and one go at a time. Nothing of it ever waits.
pub trait Renewer: Send {
    /// Whether the next go can begin, as far as can be known without asking the server.
    fn is_alive(&self) -> bool;
    /// Begins to start the ttls of these anew, where the tokens hold the keys.
    fn begin(&mut self, leases: &[(&Arc<Lease>, Ttl)]);
    /// Goes on. When all answers have come, gives them, in the order of the leases. After a fault it is of no use.
    fn go_on(&mut self) -> Result<Option<Vec<Renewal>>, Fault>;
    /// What it waits for, as for poll(2): it can go on once one of them is ready.
    fn awaited(&self) -> Vec<(RawFd, i16)>;
}

/// Who is to be told of a loss at once.
pub trait Alarm: Send + Sync {
    /// Called by the keeper's thread, again and again until the lease is forgotten.
    fn ring(&self);
}

/// What a waiter hears offers by, for one wait after another. It ends when it is dropped.
pub trait Subscription {
    /// By which name the queue knows it.
    fn ear(&self) -> &str;
    /// Begins a wait, and says its number.
    fn begin(&self) -> u64;
    /// Whether it hears, as far as can be known without asking the server.
    fn is_alive(&self) -> bool;
    /// Makes it hear, for the first time or again.
    fn listen(&self, call: &Call) -> Result<(), Fault>;
    /// Sleeps until an offer to the wait that began last is heard of; until `until`; or until the host wants the call
    /// to end.
    fn sleep(&self, until: Moment, clock: &dyn Clock, interrupt: &dyn Interrupt) -> Woken;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    Told,
    Untold,
    /// It hears nothing any more, and may have missed something.
    Deaf,
}

#[derive(Debug)]
pub enum Vote {
    /// With a fence, if one was asked for.
    Granted(Option<Fence>),
    /// Someone else holds the key; who, if the answer told.
    Refused(Option<Busy>),
    Unknown(Fault),
}

/// Who is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    pub holder: Holder,
    /// Our place in the queue; None: we have none.
    pub queued: Option<Queued>,
}

#[derive(Debug)]
pub enum Freed {
    Freed,
    NotOurs,
    Unknown(Fault),
}

#[derive(Debug)]
pub enum Renewal {
    Renewed,
    Lost,
    Unknown(Fault),
}

#[derive(Clone, Debug)]
pub struct Occupant {
    pub token: Token,
    pub holder: Holder,
}

/// Why a server gave no answer to build on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub server: String,
    pub cause: Cause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The request was not sent.
    Unreachable(String),
    /// The same, and it will not be a moment later: we are refused.
    TurnedAway(String),
    /// The same, for its answer would not have been believed.
    Unasked(String),
    /// The request may have been carried out, or may yet be.
    NoAnswer(String),
    /// The server answered with an error; the request was not carried out.
    Answered(String),
    /// The same, and the error says that it may be otherwise a moment later, or on another server.
    NotNow(String),
    /// It was carried out, but too few replicas have confirmed it: it is to be undone.
    Unconfirmed(String),
    /// The same, and it will not be otherwise a moment later.
    Unconfirmable(String),
    /// Of several servers too few gave an answer to build on. Each of the others may carry the request out yet, and may
    /// then be told to take it back: a token that was asked for so is not to be used again.
    NoQuorum(String),
    /// The same, and some were not asked because of what may happen late to this token: with another one there may be a
    /// quorum.
    Tainted(String),
    /// The request was the parent's; this is a child that a signal handler forked.
    Forked,
}

impl Fault {
    /// Whether the request may have been carried out, or may yet be.
    pub fn may_have_run(&self) -> bool {
        matches!(self.cause, Cause::NoAnswer(_) | Cause::NoQuorum(_) | Cause::Tainted(_))
    }

    /// Whether it may pass by itself, as what comes with a fail-over does.
    pub fn may_pass(&self) -> bool {
        matches!(self.cause, Cause::Unreachable(_) | Cause::NoAnswer(_) | Cause::NotNow(_) | Cause::Unconfirmed(_))
    }
}

impl std::error::Error for Fault {}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let server = &self.server;
        match &self.cause {
            Cause::Unreachable(why) | Cause::TurnedAway(why) => write!(f, "cannot connect to {server}: {why}"),
            Cause::NoAnswer(why) => write!(f, "no answer from {server}: {why}"),
            Cause::Answered(error) | Cause::NotNow(error) => write!(f, "{server} answered with an error: {error}"),
            Cause::Unasked(why) => write!(f, "{server} was not asked: {why}"),
            Cause::Unconfirmed(why) | Cause::Unconfirmable(why) => {
                write!(f, "{server} gave the key, but it was not kept: {why}")
            }
            Cause::NoQuorum(why) | Cause::Tainted(why) => write!(f, "no quorum of {server}: {why}"),
            Cause::Forked => write!(f, "the process forked during a request to {server}"),
        }
    }
}
