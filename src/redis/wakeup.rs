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
    /// The server does not want subscriptions, it said; until then it is not asked again.
    refused_until: Cell<Option<Moment>>,
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
    const REFUSAL: Duration = Duration::from_secs(60);

    pub fn new(endpoint: Arc<Endpoint>) -> Rc<Self> {
        Rc::new(Self { endpoint, state: RefCell::default(), refused_until: Cell::new(None) })
    }

    pub fn subscribe(self: &Rc<Self>, key: &Key, call: &Call) -> Result<Listener, Fault> {
        let now = call.clock.now();
        if self.refused_until.get().is_some_and(|until| now < until) {
            return Err(self.endpoint.fault(Cause::Answered("it has refused subscriptions".into())));
        }
        let ear = identity::draw_name().map_err(|error| self.endpoint.fault(Cause::Unreachable(error)))?;
        let channel: Rc<[u8]> = key.channel(&ear).into();
        self.state.borrow_mut().channels.insert(channel.clone(), Channel::default());
        let (wait, generation) = (Cell::new(0), Cell::new(None));
        let listener = Listener { subscriber: self.clone(), ear, channel, wait, generation };
        listener.renew(call)?;
        Ok(listener)
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
            match poll::slice(awaited, until, clock, interrupt) {
                Waited::TimedOut => return None,
                // It may have been of no use to us, again and again.
                Waited::Ready if clock.now() >= until => return None,
                Waited::Ready => interrupt.pump(),
                Waited::Pending => {}
            }
        }
    }

    fn refused(&self, error: String, now: Moment) -> Fault {
        // It is of no use, and what it may answer yet would be taken for the answer to something else.
        self.state.borrow_mut().disconnect();
        self.refused_until.set(Some(now.plus(Self::REFUSAL)));
        self.endpoint.fault(Cause::Answered(error))
    }
}

impl State {
    /// Sends what is to be sent and reads what has come. Trouble ends the connection, and those who wait see it.
    fn exchange(&mut self) {
        // So much in one go: also a server that never stops talking is looked at in slices.
        for _ in 0..100 {
            let Some(connection) = &mut self.connection else { return };
            let value = connection.send_now().and_then(|_| connection.value_now());
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
            && channel.heard == Hearing::No
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
    channel: Rc<[u8]>,
    wait: Cell<u64>,
    /// On which connection it was heard when its wait last asked for the key.
    generation: Cell<Option<u64>>,
}

impl Listener {
    fn is_heard(&self, state: &State) -> bool {
        self.generation.get() == Some(state.generation) && state.hears(&self.channel)
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

    fn renew(&self, call: &Call) -> Result<(), Fault> {
        let subscriber = &self.subscriber;
        let mut state = subscriber.state.borrow_mut();
        state.exchange();
        if self.is_heard(&state) {
            // It seems so, but whoever calls was told otherwise: the connection is dead, and does not know it.
            state.disconnect();
        }
        let is_connected = state.connection.is_some();
        drop(state);
        if !is_connected {
            subscriber.connect(call)?;
        }
        subscriber.state.borrow_mut().ask_for(&self.channel);
        let now = call.clock.now();
        let until = now.plus(call.limits.command).min(call.until);
        let heard = subscriber.wait(until, call.clock, call.interrupt, |state| {
            match state.channels.get(&self.channel).map(|channel| &channel.heard) {
                Some(Hearing::AskedFor) => None,
                Some(Hearing::Yes) => Some(Ok(state.generation)),
                Some(Hearing::Refused(error)) => Some(Err(Some(error.clone()))),
                Some(Hearing::No) | None => Some(Err(None)),
            }
        });
        match heard {
            Some(Ok(generation)) => {
                self.generation.set(Some(generation));
                Ok(())
            }
            Some(Err(Some(error))) => Err(subscriber.refused(error, now)),
            Some(Err(None)) => Err(subscriber.endpoint.fault(Cause::NoAnswer(Trouble::Closed.to_string()))),
            None => {
                if call.interrupt.stopped() {
                    return Err(subscriber.endpoint.fault(Cause::Unreachable(Trouble::Stopped.to_string())));
                }
                Err(subscriber.refused("it has not answered to SUBSCRIBE".into(), now))
            }
        }
    }

    fn sleep(&self, until: Moment, clock: &dyn Clock, interrupt: &dyn Interrupt) -> Woken {
        let woken = self.subscriber.wait(until, clock, interrupt, |state| {
            let channel = state.channels.get_mut(&self.channel);
            if channel.and_then(|channel| channel.told.take()) == Some(self.wait.get()) {
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
