//! How waiters are told: one connection, opened by the first wait and kept, on which each lock that waits hears a
//! channel of its own.
//!
//! All waits of a thread share it, also those in a signal handler in the middle of another. No borrow is held while the
//! host runs, and what the others may have done to the connection meanwhile is looked at anew after each slice.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use super::{
    channels::{Channels, Hearing},
    endpoint::Endpoint,
    socket::Trouble,
};
use crate::{
    lock::{
        keys::Key,
        ports::{Call, Cause, Clock, Fault, Interrupt, Subscription, Woken},
        time::Moment,
    },
    sys::{
        identity,
        poll::{self, Waited},
    },
};

pub struct Subscriber {
    endpoint: Arc<Endpoint>,
    channels: RefCell<Channels>,
    /// The channels are in vain: until then no connection is made for them.
    quiet_until: Cell<Moment>,
    /// How often in a row they were, with no message in between.
    failures: Cell<u32>,
    /// Queues whose channels were refused, and until when they are not asked for again.
    refused: RefCell<HashMap<Box<[u8]>, Moment>>,
}

impl Subscriber {
    /// A refusal may be mended while a process lives.
    const LONGEST_QUIET: Duration = Duration::from_secs(60);
    const MOST_REMEMBERED: usize = 64;

    pub fn new(endpoint: Arc<Endpoint>) -> Rc<Self> {
        Self::of(endpoint, Channels::default())
    }

    /// That of a node of a cluster.
    pub fn of_cluster(endpoint: Arc<Endpoint>) -> Rc<Self> {
        Self::of(endpoint, Channels::of_cluster())
    }

    fn of(endpoint: Arc<Endpoint>, channels: Channels) -> Rc<Self> {
        Rc::new(Self {
            endpoint,
            channels: RefCell::new(channels),
            quiet_until: Cell::new(Moment::from_nanos(0)),
            failures: Cell::new(0),
            refused: RefCell::default(),
        })
    }

    pub fn listener(self: &Rc<Self>, key: &Key) -> Result<Listener, Fault> {
        let ear = identity::draw_name().map_err(|error| self.endpoint.fault(Cause::Unreachable(error)))?;
        Ok(self.listener_by(key, ear))
    }

    pub fn listener_by(self: &Rc<Self>, key: &Key, ear: String) -> Listener {
        let channel: Rc<[u8]> = key.channel(&ear).into();
        self.channels.borrow_mut().begin(channel.clone());
        let (wait, generation) = (Cell::new(0), Cell::new(None));
        let queue = key.queue().into();
        Listener { subscriber: self.clone(), ear, queue, channel, wait, generation }
    }

    fn connect(&self, call: &Call) -> Result<(), Fault> {
        let connection = self.endpoint.connect(call)?;
        self.channels.borrow_mut().connect(connection);
        Ok(())
    }

    /// Reads, until `found` finds something. None: the time is over, or the host wants the call to end.
    fn wait<R>(
        &self,
        until: Moment,
        clock: &dyn Clock,
        interrupt: &dyn Interrupt,
        found: impl Fn(&mut Channels) -> Option<R>,
    ) -> Option<R> {
        loop {
            let mut channels = self.channels.borrow_mut();
            channels.exchange();
            if let Some(found) = found(&mut channels) {
                return Some(found);
            }
            let awaited = channels.awaited();
            drop(channels);
            if interrupt.stopped() || clock.now() >= until {
                return None;
            }
            // What comes while the process is stopped is looked at before it is said that nothing came.
            if poll::slice(awaited.as_slice(), until, clock, interrupt) == Waited::Ready {
                interrupt.pump();
            }
        }
    }

    /// The connection is dead, or what is said on it is not what our requests do. Once may be an accident.
    fn was_in_vain(&self, now: Moment) {
        // What it may answer yet would be taken for the answer to something else.
        self.channels.borrow_mut().disconnect();
        let before = self.failures.replace(self.failures.get().saturating_add(1));
        if before > 0 {
            let quiet = Duration::from_secs(1).saturating_mul(1 << before.min(6)).min(Self::LONGEST_QUIET);
            self.quiet_until.set(now.plus(quiet));
        }
    }

    fn refuses(&self, queue: &[u8], now: Moment) -> bool {
        self.refused.borrow().get(queue).is_some_and(|until| now < *until)
    }

    fn was_refused(&self, queue: &[u8], now: Moment) {
        let mut refused = self.refused.borrow_mut();
        refused.retain(|_, until| now < *until);
        if refused.len() >= Self::MOST_REMEMBERED {
            refused.clear();
        }
        refused.insert(queue.into(), now.plus(Self::LONGEST_QUIET));
    }
}

/// The subscription of one lock.
pub struct Listener {
    subscriber: Rc<Subscriber>,
    ear: String,
    queue: Box<[u8]>,
    channel: Rc<[u8]>,
    wait: Cell<u64>,
    /// On which connection it was heard when its wait last asked for the key.
    generation: Cell<Option<u64>>,
}

impl Listener {
    pub fn is_at(&self, subscriber: &Rc<Subscriber>) -> bool {
        Rc::ptr_eq(&self.subscriber, subscriber)
    }

    /// The same one on another server, where it does not listen yet.
    pub fn at(&self, subscriber: &Rc<Subscriber>) -> Self {
        let Self { subscriber: _, ear, queue, channel, wait, generation: _ } = self;
        subscriber.channels.borrow_mut().begin(channel.clone());
        let (queue, channel, wait) = (queue.clone(), channel.clone(), wait.clone());
        Self { subscriber: subscriber.clone(), ear: ear.clone(), queue, channel, wait, generation: Cell::new(None) }
    }

    fn is_heard(&self, channels: &Channels) -> bool {
        self.generation.get() == Some(channels.generation()) && channels.hearing(&self.channel) == Hearing::Yes
    }

    /// The answer to SUBSCRIBE: on which connection it is heard, or why not. None: there is none.
    fn ask_for_it(&self, call: &Call) -> Result<Option<Result<u64, Cause>>, Fault> {
        let subscriber = &self.subscriber;
        if !subscriber.channels.borrow().is_connected() {
            subscriber.connect(call)?;
        }
        subscriber.channels.borrow_mut().ask_for(&self.channel);
        let until = call.clock.now().plus(call.limits.command).min(call.until);
        Ok(subscriber.wait(until, call.clock, call.interrupt, |channels| match channels.hearing(&self.channel) {
            Hearing::AskedFor => None,
            Hearing::Yes => Some(Ok(channels.generation())),
            Hearing::Refused(cause) => Some(Err(cause)),
            Hearing::No => Some(Err(Cause::NoAnswer(Trouble::Closed.to_string()))),
        }))
    }
}

impl Subscription for Listener {
    fn ear(&self) -> &str {
        &self.ear
    }

    fn begin(&self) -> u64 {
        self.wait.set(self.wait.get() + 1);
        self.wait.get()
    }

    fn is_alive(&self) -> bool {
        let mut channels = self.subscriber.channels.borrow_mut();
        channels.exchange();
        self.is_heard(&channels)
    }

    fn listen(&self, call: &Call) -> Result<(), Fault> {
        let subscriber = &self.subscriber;
        let fault = |cause| Err(subscriber.endpoint.fault(cause));
        let process = call.interrupt.process();
        if self.is_alive() {
            // It seems so, but whoever calls was told otherwise.
            subscriber.was_in_vain(call.clock.now());
        }
        let now = call.clock.now();
        if subscriber.refuses(&self.queue, now) {
            return fault(Cause::Answered("it has refused this subscription".into()));
        }
        if now < subscriber.quiet_until.get() {
            return fault(Cause::Unreachable("subscriptions to it were in vain".into()));
        }
        let heard = self.ask_for_it(call)?;
        if call.interrupt.process() != process {
            return fault(Cause::Forked);
        }
        match heard {
            Some(Ok(generation)) => {
                self.generation.set(Some(generation));
                Ok(())
            }
            Some(Err(cause @ Cause::Answered(_))) => {
                subscriber.was_refused(&self.queue, call.clock.now());
                fault(cause)
            }
            Some(Err(cause)) => fault(cause),
            None if call.interrupt.stopped() => fault(Cause::Unreachable(Trouble::Stopped.to_string())),
            None => {
                subscriber.was_in_vain(call.clock.now());
                fault(Cause::NoAnswer(Trouble::TimedOut(call.limits.command).to_string()))
            }
        }
    }

    fn sleep(&self, until: Moment, clock: &dyn Clock, interrupt: &dyn Interrupt) -> Woken {
        let woken = self.subscriber.wait(until, clock, interrupt, |channels| {
            if channels.take_told(&self.channel) == Some(self.wait.get()) {
                self.subscriber.failures.set(0);
                return Some(Woken::Told);
            }
            (!self.is_heard(channels)).then_some(Woken::Deaf)
        });
        woken.unwrap_or(Woken::Untold)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.subscriber.channels.borrow_mut().end(&self.channel);
    }
}
