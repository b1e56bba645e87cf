//! How waiters hear that a key is free: who frees it says so on each node, on one channel for all who wait, and one of
//! the nodes is enough to hear it on.
//!
//! As on a single server, all waits of a thread share the connections, also those in a signal handler in the middle of
//! another, and no borrow is held while the host runs.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
    os::fd::RawFd,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use super::opener::Opener;
use crate::{
    lock::{
        keys::Key,
        options::{Limits, Poll},
        ports::{Call, Cause, Clock, Fault, Interrupt, Subscription, Woken},
        quorum::majority,
        time::Moment,
        token::Token,
    },
    redis::{
        channels::{Channels, Hearing},
        endpoint::Endpoint,
    },
    sys::{clock::SystemClock, poll},
};

/// Between connections to a node that are in vain.
const RETRIES: Poll = Poll { min: Duration::from_millis(250), max: Duration::from_secs(30) };
/// Events that are remembered, for each is heard of once by each node.
const MOST_SEEN: usize = 16;
const EAR: &str = "free";

pub fn channel(key: &Key) -> Vec<u8> {
    key.channel(EAR)
}

/// What is said when the lease of this token is ended. The token itself is a secret, and may have a lease again.
pub fn event(token: &Token, now: Moment) -> u64 {
    let mut hasher = DefaultHasher::new();
    (token.as_bytes(), now.as_nanos()).hash(&mut hasher);
    hasher.finish()
}

pub struct Ears(RefCell<Vec<Ear>>);

/// What is heard of one node.
struct Ear {
    opener: Opener,
    channels: Channels,
    /// Why nothing is heard.
    fault: Option<Fault>,
}

impl Ears {
    pub fn new(endpoints: &[Arc<Endpoint>]) -> Rc<Self> {
        let ear = |endpoint: &Arc<Endpoint>| Ear {
            opener: Opener::new(endpoint.clone(), RETRIES),
            channels: Channels::default(),
            fault: None,
        };
        Rc::new(Self(RefCell::new(endpoints.iter().map(ear).collect())))
    }

    pub fn listener(self: &Rc<Self>, key: &Key) -> Listener {
        let channel: Rc<[u8]> = channel(key).into();
        let mut seen = VecDeque::new();
        for ear in &mut *self.0.borrow_mut() {
            ear.channels.begin(channel.clone());
            seen.extend(ear.channels.said(&channel));
        }
        let limits = Limits { connect: RETRIES.min, command: RETRIES.min };
        Listener {
            ears: self.clone(),
            channel,
            wait: Cell::new(0),
            limits: Cell::new(limits),
            seen: RefCell::new(seen),
        }
    }
}

impl Ear {
    /// Whether this channel is heard; it is seen to that it will be.
    fn hears(&mut self, channel: &Rc<[u8]>, limits: Limits, now: Moment) -> Hearing {
        let was_connected = self.channels.is_connected();
        self.channels.exchange();
        if was_connected && !self.channels.is_connected() {
            self.opener.pause(now);
        }
        match self.opener.take(now) {
            None => {}
            Some(Ok(connection)) => self.channels.connect(connection),
            Some(Err(fault)) => self.fault = Some(fault),
        }
        let is_to_be_opened = !self.channels.is_connected() && !self.opener.is_opening();
        if is_to_be_opened && self.opener.is_due(now) && self.opener.open(false, limits).is_err() {
            self.opener.pause(now);
        }
        match self.channels.hearing(channel) {
            Hearing::No if self.channels.is_connected() => {
                self.channels.ask_for(channel);
                Hearing::AskedFor
            }
            Hearing::No if self.opener.is_opening() => Hearing::AskedFor,
            Hearing::Yes => {
                self.opener.is_of_use();
                Hearing::Yes
            }
            other => other,
        }
    }

    fn awaited(&mut self) -> Option<(RawFd, i16)> {
        match self.opener.fd() {
            Some(fd) => Some((fd, libc::POLLIN)),
            None => self.channels.awaited(),
        }
    }

    fn fault(&self, channel: &[u8]) -> Fault {
        match (self.channels.hearing(channel), &self.fault) {
            (Hearing::Refused(cause), _) => self.opener.fault(cause),
            (_, Some(fault)) => fault.clone(),
            _ => self.opener.fault(Cause::NoAnswer("it does not answer to a subscription".into())),
        }
    }
}

pub struct Listener {
    ears: Rc<Ears>,
    channel: Rc<[u8]>,
    wait: Cell<u64>,
    limits: Cell<Limits>,
    seen: RefCell<VecDeque<u64>>,
}

/// How it stands with all nodes.
#[derive(Default)]
struct Heard {
    yes: usize,
    asked: usize,
    awaited: Vec<(RawFd, i16)>,
}

impl Listener {
    fn look(&self, now: Moment) -> Heard {
        let mut heard = Heard::default();
        for ear in &mut *self.ears.0.borrow_mut() {
            match ear.hears(&self.channel, self.limits.get(), now) {
                Hearing::Yes => heard.yes += 1,
                Hearing::AskedFor => heard.asked += 1,
                Hearing::No | Hearing::Refused(_) => {}
            }
            heard.awaited.extend(ear.awaited());
        }
        heard
    }

    /// Whether something was said since this was asked last. What one node says, the others will say as well.
    fn is_told(&self) -> bool {
        let mut seen = self.seen.borrow_mut();
        let mut is_told = false;
        for ear in &*self.ears.0.borrow() {
            if let Some(event) = ear.channels.said(&self.channel).filter(|event| !seen.contains(event)) {
                is_told = true;
                seen.push_back(event);
            }
        }
        while seen.len() > MOST_SEEN {
            seen.pop_front();
        }
        is_told
    }
}

impl Subscription for Listener {
    fn ear(&self) -> &str {
        EAR
    }

    fn begin(&self) -> u64 {
        self.wait.set(self.wait.get() + 1);
        self.wait.get()
    }

    fn is_alive(&self) -> bool {
        self.look(SystemClock.now()).yes > 0
    }

    fn listen(&self, call: &Call) -> Result<(), Fault> {
        self.limits.set(call.limits);
        let (now, process) = (call.clock.now(), call.interrupt.process());
        let until = now.plus(call.limits.command).min(call.until);
        loop {
            let heard = self.look(call.clock.now());
            // Who is slow to answer is heard when it has.
            let is_enough = heard.yes >= majority(self.ears.0.borrow().len()) || heard.asked == 0;
            if is_enough || call.clock.now() >= until || call.interrupt.stopped() {
                if heard.yes > 0 {
                    return Ok(());
                }
                break;
            }
            if poll::slice(&heard.awaited, until, call.clock, call.interrupt) == poll::Waited::Ready {
                call.interrupt.pump();
            }
            if call.interrupt.process() != process {
                break;
            }
        }
        let ears = self.ears.0.borrow();
        let mut faults: Vec<_> = ears.iter().map(|ear| ear.fault(&self.channel)).collect();
        // One that refuses will not be asked again in this wait; who may be back will.
        faults.sort_by_key(|fault| matches!(fault.cause, Cause::Answered(_)));
        Err(faults.swap_remove(0))
    }

    fn sleep(&self, until: Moment, clock: &dyn Clock, interrupt: &dyn Interrupt) -> Woken {
        loop {
            let heard = self.look(clock.now());
            if self.is_told() {
                return Woken::Told;
            }
            if heard.yes == 0 {
                return Woken::Deaf;
            }
            if interrupt.stopped() || clock.now() >= until {
                return Woken::Untold;
            }
            if poll::slice(&heard.awaited, until, clock, interrupt) == poll::Waited::Ready {
                interrupt.pump();
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for ear in &mut *self.ears.0.borrow_mut() {
            ear.channels.end(&self.channel);
        }
    }
}
