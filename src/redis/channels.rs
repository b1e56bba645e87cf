//! A connection that only listens, and the channels that are heard on it.
//!
//! Nobody owns what comes: whoever reads puts each message to its channel, where the wait it is meant for finds it.

use std::{
    collections::{HashMap, VecDeque},
    rc::Rc,
};

use redis::{ServerError, Value};

use super::{connection::Connection, errors};
use crate::lock::ports::Cause;

#[derive(Default)]
pub struct Channels {
    connection: Option<Box<Connection>>,
    /// How many connections there have been.
    generation: u64,
    channels: HashMap<Rc<[u8]>, Channel>,
    /// The length of the longest name that there has been.
    longest: usize,
    /// What is to be answered, in this order.
    expected: VecDeque<Expected>,
    /// Of a node of a cluster, whose channels are in slots like its keys.
    is_sharded: bool,
    /// It has refused such channels, or knows none (Redis 6.2): on this connection there are plain ones.
    is_plain: bool,
}

#[derive(Default)]
struct Channel {
    heard: Hearing,
    /// How many listen to it.
    listeners: usize,
    is_sharded: bool,
    /// The wait that was told of an offer.
    told: Option<u64>,
    /// What was said last, to all who listen.
    said: Option<u64>,
}

#[derive(Clone, Default, PartialEq)]
pub enum Hearing {
    /// Not asked for on this connection, or there is none.
    #[default]
    No,
    AskedFor,
    Yes,
    Refused(Cause),
}

enum Expected {
    Subscribed(Rc<[u8]>),
    Unsubscribed,
}

impl Channels {
    pub fn of_cluster() -> Self {
        Self { is_sharded: true, ..Self::default() }
    }

    /// Opened by whoever needed it. Not where another wait, in a signal handler, has opened one meanwhile.
    pub fn connect(&mut self, connection: Box<Connection>) {
        if self.connection.is_none() {
            self.connection = Some(connection);
            self.generation += 1;
            self.is_plain = false;
        }
    }

    pub fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn begin(&mut self, name: Rc<[u8]>) {
        self.longest = self.longest.max(name.len());
        self.channels.entry(name).or_default().listeners += 1;
    }

    pub fn hearing(&self, name: &[u8]) -> Hearing {
        self.channels.get(name).map_or(Hearing::No, |channel| channel.heard.clone())
    }

    /// The wait that was told of an offer since this was asked last.
    pub fn take_told(&mut self, name: &[u8]) -> Option<u64> {
        self.channels.get_mut(name)?.told.take()
    }

    /// What was said on it last.
    pub fn said(&self, name: &[u8]) -> Option<u64> {
        self.channels.get(name)?.said
    }

    /// Sends what is to be sent and reads what has come. Trouble ends the connection, and those who wait see it.
    pub fn exchange(&mut self) {
        // No message has more than a channel and a number.
        let longest = self.longest + 4 * 1024;
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
            [Value::BulkString(kind), Value::BulkString(channel), Value::BulkString(wait)]
                if matches!(kind.as_slice(), b"message" | b"smessage") =>
            {
                // A message for who has gone is for nobody.
                if let Some(channel) = self.channels.get_mut(channel.as_slice()) {
                    channel.told = std::str::from_utf8(wait).ok().and_then(|wait| wait.parse().ok());
                    channel.said = channel.told;
                }
                Some(())
            }
            [Value::BulkString(kind), Value::BulkString(name), Value::Int(_)]
                if matches!(kind.as_slice(), b"subscribe" | b"ssubscribe") =>
            {
                self.expected.pop_front()?;
                if let Some(channel) = self.channels.get_mut(name.as_slice()) {
                    channel.heard = Hearing::Yes;
                }
                Some(())
            }
            [Value::BulkString(kind), _, Value::Int(_)] if kind == b"unsubscribe" => {
                self.expected.pop_front().map(|_| ())
            }
            [Value::BulkString(kind), Value::BulkString(name), Value::Int(_)] if kind == b"sunsubscribe" => {
                match self.channels.get_mut(name.as_slice()) {
                    // Its slot is another node's now.
                    Some(channel) => channel.heard = Hearing::No,
                    None if matches!(self.expected.front(), Some(Expected::Unsubscribed)) => {
                        self.expected.pop_front();
                    }
                    None => {}
                }
                Some(())
            }
            _ => None,
        }
    }

    fn take_error(&mut self, error: &ServerError) -> Option<()> {
        // What a server says before it closes the connection is said to nobody in particular.
        if errors::is_refusal_to_talk(error) {
            return None;
        }
        let cause = errors::cause(error);
        match self.expected.pop_front()? {
            Expected::Subscribed(name) => {
                let Some(channel) = self.channels.get_mut(&name) else { return Some(()) };
                let is_to_be_plain = channel.is_sharded && matches!(cause, Cause::Answered(_));
                channel.heard = if is_to_be_plain { Hearing::No } else { Hearing::Refused(cause) };
                if is_to_be_plain {
                    self.is_plain = true;
                    self.ask_for(&name);
                }
                Some(())
            }
            // Its slot is another node's now.
            Expected::Unsubscribed if self.is_sharded && matches!(cause, Cause::NotNow(_)) => Some(()),
            // Whoever may not unsubscribe has the connection closed instead.
            Expected::Unsubscribed => None,
        }
    }

    pub fn disconnect(&mut self) {
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
    pub fn awaited(&mut self) -> Option<(i32, i16)> {
        let connection = self.connection.as_mut()?;
        let is_sent = connection.send_now().unwrap_or(true);
        let events = if is_sent { libc::POLLIN } else { libc::POLLIN | libc::POLLOUT };
        Some((connection.fd().ok()?, events))
    }

    pub fn ask_for(&mut self, name: &Rc<[u8]>) {
        if let (Some(connection), Some(channel)) = (&mut self.connection, self.channels.get_mut(name))
            && matches!(channel.heard, Hearing::No | Hearing::Refused(_))
        {
            channel.is_sharded = self.is_sharded && !self.is_plain;
            let subscribe = if channel.is_sharded { &b"SSUBSCRIBE"[..] } else { b"SUBSCRIBE" };
            connection.add([subscribe, &**name].into_iter());
            self.expected.push_back(Expected::Subscribed(name.clone()));
            channel.heard = Hearing::AskedFor;
        }
    }

    pub fn end(&mut self, name: &[u8]) {
        if let Some(channel) = self.channels.get_mut(name).filter(|channel| channel.listeners > 1) {
            channel.listeners -= 1;
            return;
        }
        let Some(channel) = self.channels.remove(name) else { return };
        if !matches!(channel.heard, Hearing::AskedFor | Hearing::Yes) {
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        let unsubscribe = if channel.is_sharded { &b"SUNSUBSCRIBE"[..] } else { b"UNSUBSCRIBE" };
        connection.add([unsubscribe, name].into_iter());
        self.expected.push_back(Expected::Unsubscribed);
        // Its answer is read by whoever waits next. It is gone from the server when it is sent, or the connection is.
        if !matches!(connection.send_now(), Ok(true)) {
            self.disconnect();
        }
    }
}
