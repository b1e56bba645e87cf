//! One connection that is open: requests out, replies in. Whoever meets trouble on it drops it: after a time-out the
//! next reply would be that of an earlier request.

use std::{
    io::{self, Read},
    ops::Range,
    time::Duration,
};

use redis::{Cmd, Parser, Value};

use super::socket::{Attempt, Socket, Trouble};
#[cfg(feature = "tls")]
use super::tls::Tls;
use crate::{lock::time::Moment, sys::poll};

/// What bytes travel through.
pub enum Stream {
    Plain(Socket),
    #[cfg(feature = "tls")]
    Tls(Box<Tls>),
}

impl Stream {
    fn read(&mut self, buffer: &mut [u8], attempt: &Attempt) -> Result<usize, Trouble> {
        match self {
            Self::Plain(socket) => socket.read(buffer, attempt),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.read(buffer, attempt),
        }
    }

    fn fd(&self) -> Result<i32, Trouble> {
        match self {
            Self::Plain(socket) => socket.fd(),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.fd(),
        }
    }

    fn write_all(&mut self, bytes: &[u8], attempt: &Attempt) -> Result<(), Trouble> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes, attempt),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.write_all(bytes, attempt),
        }
    }
}

pub struct Connection {
    stream: Stream,
    parser: Parser,
    received: Received,
    /// Kept between requests, so that they allocate nothing.
    command: Cmd,
    packed: Vec<u8>,
    last_used: Moment,
}

/// A connection that was used so recently is not looked at before it is used again: requests that follow each other
/// cost nothing but themselves.
const FRESH: Duration = Duration::from_micros(100);

/// So much is kept for the next request; a key of a megabyte is not to stay for ever.
const KEPT_CAPACITY: usize = 64 * 1024;

impl Connection {
    pub fn new(stream: Stream, now: Moment) -> Self {
        Self {
            stream,
            parser: Parser::new(),
            received: Received::new(),
            command: Cmd::new(),
            packed: Vec::new(),
            last_used: now,
        }
    }

    /// Whether a request can be sent on it. Not in a forked child; not when the server has closed it meanwhile, for the
    /// request would be lost, but not known to be so; and not when more came than was asked for, for it would be taken
    /// as the answer.
    pub fn is_usable(&self, now: Moment) -> bool {
        let Ok(fd) = self.stream.fd() else { return false };
        self.received.unread.is_empty() && (now.since(self.last_used) < FRESH || !poll::has_news(fd))
    }

    pub fn used(&mut self, now: Moment) {
        self.last_used = now;
    }

    /// One request, one reply. An error that the server answers is a value.
    pub fn request(&mut self, attempt: &Attempt, write: impl FnOnce(&mut Cmd)) -> Result<Value, Trouble> {
        self.add(write);
        self.send(attempt)?;
        self.reply(attempt)
    }

    /// Adds a request to those that `send` sends.
    pub fn add(&mut self, write: impl FnOnce(&mut Cmd)) {
        self.command.clear();
        write(&mut self.command);
        self.command.write_packed_command(&mut self.packed);
    }

    pub fn send(&mut self, attempt: &Attempt) -> Result<(), Trouble> {
        let sent = self.stream.write_all(&self.packed, attempt);
        self.packed.clear();
        if self.packed.capacity() > KEPT_CAPACITY {
            self.packed = Vec::new();
            self.command = Cmd::new();
        }
        sent
    }

    pub fn reply(&mut self, attempt: &Attempt) -> Result<Value, Trouble> {
        let mut reader =
            Reader { stream: &mut self.stream, received: &mut self.received, attempt, length: 0, trouble: None };
        if let Some(value) = reader.plain_reply()? {
            return Ok(value);
        }
        let parsed = self.parser.parse_value(&mut reader);
        match (parsed, reader.trouble) {
            (_, Some(trouble)) => Err(trouble),
            (Ok(value), None) => Ok(value),
            (Err(_), None) => Err(Trouble::Other("what came is not Redis' protocol; is it a port for TLS?".into())),
        }
    }
}

/// Bytes that came and were not read yet.
struct Received {
    bytes: Box<[u8; 4096]>,
    unread: Range<usize>,
}

impl Received {
    fn new() -> Self {
        Self { bytes: Box::new([0; 4096]), unread: 0..0 }
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.unread.clone()).unwrap_or_default()
    }

    fn fill(&mut self, stream: &mut Stream, attempt: &Attempt) -> Result<(), Trouble> {
        if self.unread.is_empty() {
            self.unread = 0..stream.read(&mut *self.bytes, attempt)?;
        }
        Ok(())
    }
}

/// What the parser reads from. It knows I/O errors only, so that what really happened is kept beside.
struct Reader<'a, 'b> {
    stream: &'a mut Stream,
    received: &'a mut Received,
    attempt: &'a Attempt<'b>,
    length: usize,
    trouble: Option<Trouble>,
}

/// No reply to a request of ours is longer, and what is read counts in no limit of PHP's.
const LONGEST_REPLY: usize = 64 * 1024 * 1024;

impl Reader<'_, '_> {
    /// More of a reply that has begun. One that never ends, and never pauses, is not to be waited for either.
    fn go_on(&mut self) -> Result<(), Trouble> {
        if self.received.unread.is_empty() && self.length > 0 {
            self.attempt.interrupt.pump();
            if self.attempt.left().is_zero() {
                return Err(self.attempt.timed_out());
            }
        }
        if self.length > LONGEST_REPLY {
            return Err(Trouble::Other("the reply is too long".into()));
        }
        self.received.fill(self.stream, self.attempt)
    }

    /// The replies of a lock that nobody contends need no parser, which would cost more than all the rest.
    fn plain_reply(&mut self) -> Result<Option<Value>, Trouble> {
        self.received.fill(self.stream, self.attempt)?;
        let (length, value) = match self.received.rest() {
            b"+OK\r\n" => (5, Value::Okay),
            b":1\r\n" => (4, Value::Int(1)),
            b":0\r\n" => (4, Value::Int(0)),
            b"$-1\r\n" => (5, Value::Nil),
            _ => return Ok(None),
        };
        self.received.unread.start += length;
        Ok(Some(value))
    }
}

impl Read for Reader<'_, '_> {
    /// A line at a time: the parser must take no byte of the next reply into its own buffer.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Err(trouble) = self.go_on() {
            self.trouble = Some(trouble);
            return Err(io::ErrorKind::Other.into());
        }
        let rest = self.received.rest();
        let line = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
        let count = line.min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest.iter().take(count)) {
            *to = *from;
        }
        self.received.unread.start += count;
        self.length += count;
        Ok(count)
    }
}
