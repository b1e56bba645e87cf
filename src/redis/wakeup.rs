//! How waiters are told: one connection, opened by the first wait and kept, on which each lock that waits hears a
//! channel of its own.
//!
//! All waits of a thread share it, also those in a signal handler in the middle of another. So nobody owns what comes:
//! whoever reads puts each message to its channel, where the wait it is meant for finds it. No borrow is held while the
//! host runs, and what the others may have done to the connection meanwhile is looked at anew after each slice.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use redis::{ServerError, Value};

use super::{connection::Connection, endpoint::Endpoint, errors, socket::Trouble};
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
    state: RefCell<State>,
    /// The channels are in vain: until then no connection is made for them.
    quiet_until: Cell<Moment>,
    /// How often in a row they were, with no message in between.
    failures: Cell<u32>,
    /// Queues whose channels were refused, and until when they are not asked for again.
    refused: RefCell<HashMap<Box<[u8]>, Moment>>,
}

#[derive(Default)]
struct State {
    connection: Option<Box<Connection>>,
    /// How many connections there have been.
    generation: u64,
    channels: HashMap<Rc<[u8]>, Channel>,
    /// What is to be answered, in this order.
    expected: VecDeque<Expected>,
}

#[derive(Default)]
struct Channel {
    heard: Hearing,
    /// The wait that was told of an offer.
    told: Option<u64>,
}

#[derive(Clone, Default, PartialEq)]
enum Hearing {
    /// Not asked for on this connection, or there is none.
    #[default]
    No,
    AskedFor,
    Yes,
    Refused(String),
}

enum Expected {
    Subscribed(Rc<[u8]>),
    Unsubscribed,
}

impl Subscriber {
    /// A refusal may be mended while a process lives.
    const LONGEST_QUIET: Duration = Duration::from_secs(60);
    const MOST_REMEMBERED: usize = 64;

    pub fn new(endpoint: Arc<Endpoint>) -> Rc<Self> {
        Rc::new(Self {
            endpoint,
            state: RefCell::default(),
            quiet_until: Cell::new(Moment::from_nanos(0)),
            failures: Cell::new(0),
            refused: RefCell::default(),
        })
    }

    pub fn listener(self: &Rc<Self>, key: &Key) -> Result<Listener, Fault> {
        let ear = identity::draw_name().map_err(|error| self.endpoint.fault(Cause::Unreachable(error)))?;
        let channel: Rc<[u8]> = key.channel(&ear).into();
        self.state.borrow_mut().channels.insert(channel.clone(), Channel::default());
        let (wait, generation) = (Cell::new(0), Cell::new(None));
        let queue = key.queue().into();
        Ok(Listener { subscriber: self.clone(), ear, queue, channel, wait, generation })
    }

    fn connect(&self, call: &Call) -> Result<(), Fault> {
        let connection = self.endpoint.connect(call)?;
        let mut state = self.state.borrow_mut();
        // Not where another wait, in a signal handler, has opened one meanwhile.
        if state.connection.is_none() {
            state.connection = Some(connection);
            state.generation += 1;
        }
        Ok(())
    }

    /// Reads, until `found` finds something. None: the time is over, or the host wants the call to end.
    fn wait<R>(
        &self,
        until: Moment,
        clock: &dyn Clock,
        interrupt: &dyn Interrupt,
        found: impl Fn(&mut State) -> Option<R>,
    ) -> Option<R> {
        loop {
            let mut state = self.state.borrow_mut();
            state.exchange();
            if let Some(found) = found(&mut state) {
                return Some(found);
            }
            let awaited = state.awaited();
            drop(state);
            if interrupt.stopped() {
                return None;
            }
            if clock.now() >= until {
                return None;
            }
            // What comes while the process is stopped is looked at before it is said that nothing came.
            if poll::slice(awaited, until, clock, interrupt) == Waited::Ready {
                interrupt.pump();
            }
        }
    }

    /// The connection is dead, or what is said on it is not what our requests do. Once may be an accident.
    fn was_in_vain(&self, now: Moment) {
        // What it may answer yet would be taken for the answer to something else.
        self.state.borrow_mut().disconnect();
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

impl State {
    /// Sends what is to be sent and reads what has come. Trouble ends the connection, and those who wait see it.
    fn exchange(&mut self) {
        // No message has more than a channel and a number.
        let longest = self.channels.keys().map(|channel| channel.len()).max().unwrap_or(0) + 4 * 1024;
        // So much in one go: also a server that never stops talking is looked at in slices.
        for _ in 0..100 {
            let Some(connection) = &mut self.connection else { return };
            let value = connection.send_now().and_then(|_| connection.value_now(longest));
            let taken = match value {
                Ok(Some(value)) => self.take(value),
                Ok(None) => return,
                Err(_) => None,
            };
            if taken.is_none() {
                self.disconnect();
            }
        }
    }

    /// None: that is not what can come here.
    fn take(&mut self, value: Value) -> Option<()> {
        let parts = match value {
            Value::Array(parts) => parts,
            Value::ServerError(error) => return self.take_error(&error),
            _ => return None,
        };
        match parts.as_slice() {
            [Value::BulkString(kind), Value::BulkString(channel), Value::BulkString(wait)] if kind == b"message" => {
                // A message for who has gone is for nobody.
                if let Some(channel) = self.channels.get_mut(channel.as_slice()) {
                    channel.told = std::str::from_utf8(wait).ok().and_then(|wait| wait.parse().ok());
                }
                Some(())
            }
            [Value::BulkString(kind), Value::BulkString(name), Value::Int(_)] if kind == b"subscribe" => {
                self.expected.pop_front()?;
                if let Some(channel) = self.channels.get_mut(name.as_slice()) {
                    channel.heard = Hearing::Yes;
                }
                Some(())
            }
            [Value::BulkString(kind), _, Value::Int(_)] if kind == b"unsubscribe" => {
                self.expected.pop_front().map(|_| ())
            }
            _ => None,
        }
    }

    fn take_error(&mut self, error: &ServerError) -> Option<()> {
        // What a server says before it closes the connection is said to nobody in particular.
        if errors::is_refusal_to_talk(error) {
            return None;
        }
        match self.expected.pop_front()? {
            Expected::Subscribed(name) => {
                if let Some(channel) = self.channels.get_mut(&name) {
                    channel.heard = Hearing::Refused(errors::in_words(error));
                }
                Some(())
            }
            // Whoever may not unsubscribe has the connection closed instead.
            Expected::Unsubscribed => None,
        }
    }

    fn disconnect(&mut self) {
        self.connection = None;
        self.expected.clear();
        for channel in self.channels.values_mut() {
            // Why it was refused is worth to be known.
            if !matches!(channel.heard, Hearing::Refused(_)) {
                channel.heard = Hearing::No;
            }
        }
    }

    /// What to wait for.
    fn awaited(&mut self) -> Option<(i32, i16)> {
        let connection = self.connection.as_mut()?;
        let is_sent = connection.send_now().unwrap_or(true);
        let events = if is_sent { libc::POLLIN } else { libc::POLLIN | libc::POLLOUT };
        Some((connection.fd().ok()?, events))
    }

    fn ask_for(&mut self, name: &Rc<[u8]>) {
        if let (Some(connection), Some(channel)) = (&mut self.connection, self.channels.get_mut(name))
            && matches!(channel.heard, Hearing::No | Hearing::Refused(_))
        {
            connection.add(|command| {
                command.arg("SUBSCRIBE").arg(&**name);
            });
            self.expected.push_back(Expected::Subscribed(name.clone()));
            channel.heard = Hearing::AskedFor;
        }
    }

    fn hears(&self, name: &[u8]) -> bool {
        self.channels.get(name).is_some_and(|channel| channel.heard == Hearing::Yes)
    }

    fn end(&mut self, name: &[u8]) {
        let channel = self.channels.remove(name);
        if !channel.is_some_and(|channel| matches!(channel.heard, Hearing::AskedFor | Hearing::Yes)) {
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        connection.add(|command| {
            command.arg("UNSUBSCRIBE").arg(name);
        });
        self.expected.push_back(Expected::Unsubscribed);
        // Its answer is read by whoever waits next. It is gone from the server when it is sent, or the connection is.
        if !matches!(connection.send_now(), Ok(true)) {
            self.disconnect();
        }
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
    fn is_heard(&self, state: &State) -> bool {
        self.generation.get() == Some(state.generation) && state.hears(&self.channel)
    }

    /// The answer to SUBSCRIBE: on which connection it is heard, or why not. None: there is none.
    fn ask_for_it(&self, call: &Call) -> Result<Option<Result<u64, Cause>>, Fault> {
        let subscriber = &self.subscriber;
        if subscriber.state.borrow().connection.is_none() {
            subscriber.connect(call)?;
        }
        subscriber.state.borrow_mut().ask_for(&self.channel);
        let until = call.clock.now().plus(call.limits.command).min(call.until);
        Ok(subscriber.wait(until, call.clock, call.interrupt, |state| {
            match state.channels.get(&self.channel).map(|channel| &channel.heard) {
                Some(Hearing::AskedFor) => None,
                Some(Hearing::Yes) => Some(Ok(state.generation)),
                Some(Hearing::Refused(error)) => Some(Err(Cause::Answered(error.clone()))),
                Some(Hearing::No) | None => Some(Err(Cause::NoAnswer(Trouble::Closed.to_string()))),
            }
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
        let mut state = self.subscriber.state.borrow_mut();
        state.exchange();
        self.is_heard(&state)
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
        let woken = self.subscriber.wait(until, clock, interrupt, |state| {
            let channel = state.channels.get_mut(&self.channel);
            if channel.and_then(|channel| channel.told.take()) == Some(self.wait.get()) {
                self.subscriber.failures.set(0);
                return Some(Woken::Told);
            }
            (!self.is_heard(state)).then_some(Woken::Deaf)
        });
        woken.unwrap_or(Woken::Untold)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.subscriber.state.borrow_mut().end(&self.channel);
    }
}
