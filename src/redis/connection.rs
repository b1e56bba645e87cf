//! One connection that is open: requests out, replies in. Whoever meets trouble on it drops it: after a time-out the
//! next reply would be that of an earlier request.

use std::{
    io::{self, Read},
    ops::Range,
    time::Duration,
};

use redis::{Parser, Value};

#[cfg(feature = "tls")]
use super::tls::Tls;
use super::{
    request,
    socket::{Attempt, Socket, Trouble},
};
use crate::{lock::time::Moment, sys::poll};

/// What bytes travel through.
pub enum Stream {
    Plain(Socket),
    #[cfg(feature = "tls")]
    Tls(Box<Tls>),
}

impl Stream {
    fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.socket(),
        }
    }

    fn read(&mut self, buffer: &mut [u8], attempt: &Attempt) -> Result<usize, Trouble> {
        match self {
            Self::Plain(socket) => socket.read(buffer, attempt),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.read(buffer, attempt),
        }
    }

    fn read_now(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Trouble> {
        match self {
            Self::Plain(socket) => socket.read_now(buffer),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.read_now(buffer),
        }
    }

    /// How much of it was taken.
    fn write_now(&mut self, bytes: &[u8]) -> Result<usize, Trouble> {
        match self {
            Self::Plain(socket) => socket.write_now(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.write_now(bytes),
        }
    }

    /// Whether all that was taken is sent.
    fn flush_now(&mut self) -> Result<bool, Trouble> {
        match self {
            Self::Plain(_) => Ok(true),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.flush_now(),
        }
    }
}

pub struct Connection {
    stream: Stream,
    parser: Parser,
    received: Received,
    /// How many bytes of a value the parser has that has not come to its end.
    parsed: usize,
    /// Kept between requests, so that they allocate nothing.
    packed: Vec<u8>,
    last_used: Moment,
    /// A reply will come that nobody waits for.
    pub is_spent: bool,
    /// When the server at its other end began to run, if it was asked.
    pub started: Option<Result<Moment, String>>,
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
            parsed: 0,
            packed: Vec::new(),
            last_used: now,
            is_spent: false,
            started: None,
        }
    }

    /// Whether a request can be sent on it. Not in a forked child; not when the server has closed it meanwhile, for the
    /// request would be lost, but not known to be so; and not when more came than was asked for, for it would be taken
    /// as the answer.
    pub fn is_usable(&self, now: Moment) -> bool {
        let Ok(fd) = self.fd() else { return false };
        !self.is_spent && !self.has_unread() && (now.since(self.last_used) < FRESH || !poll::has_news(fd))
    }

    /// Whether something that came was not looked at yet.
    pub fn has_unread(&self) -> bool {
        !self.received.unread.is_empty()
    }

    pub fn fd(&self) -> Result<i32, Trouble> {
        self.stream.socket().fd()
    }

    pub fn used(&mut self, now: Moment) {
        self.last_used = now;
    }

    /// One request, one reply. An error that the server answers is a value.
    pub fn request<'a>(
        &mut self,
        attempt: &Attempt,
        words: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Value, Trouble> {
        self.add(words);
        self.send(attempt)?;
        self.reply(attempt)
    }

    /// Adds a request to those that `send` sends.
    pub fn add<'a>(&mut self, words: impl Iterator<Item = &'a [u8]> + Clone) {
        request::pack(words, &mut self.packed);
    }

    /// The same for requests that are packed already.
    pub fn add_packed(&mut self, requests: &[u8]) {
        self.packed.extend_from_slice(requests);
    }

    pub fn send(&mut self, attempt: &Attempt) -> Result<(), Trouble> {
        let all = self.packed.len();
        loop {
            match self.send_now() {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    self.stream.socket().wait(libc::POLLOUT, attempt)?;
                    attempt.go_on()?;
                }
                Err(Trouble::Closed) if self.packed.len() == all => return Err(Trouble::Unsent),
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// False: something is left to be sent.
    pub fn send_now(&mut self) -> Result<bool, Trouble> {
        let taken = self.stream.write_now(&self.packed)?;
        if taken < self.packed.len() {
            self.packed.drain(..taken);
            return Ok(false);
        }
        self.packed.clear();
        if self.packed.capacity() > KEPT_CAPACITY {
            self.packed = Vec::new();
        }
        self.stream.flush_now()
    }

    pub fn reply(&mut self, attempt: &Attempt) -> Result<Value, Trouble> {
        loop {
            if let Some(value) = self.next_value()? {
                return Ok(value);
            }
            if self.parsed > 0 {
                attempt.go_on()?;
            }
            self.received.unread = 0..self.stream.read(&mut *self.received.bytes, attempt)?;
        }
    }

    /// The next value that has come; None: it has not, or not all of it. Values of more than `longest` bytes are none
    /// that are expected.
    pub fn value_now(&mut self, longest: usize) -> Result<Option<Value>, Trouble> {
        // So much in one go: a peer that never stops talking is not listened to until it does.
        for _ in 0..16 {
            if let Some(value) = self.next_value()? {
                return Ok(Some(value));
            }
            if self.parsed > longest {
                return Err(Trouble::TooLong);
            }
            match self.stream.read_now(&mut *self.received.bytes)? {
                Some(count) => self.received.unread = 0..count,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Of what was received; None: all of that is read.
    fn next_value(&mut self) -> Result<Option<Value>, Trouble> {
        if self.received.unread.is_empty() {
            return Ok(None);
        }
        if self.parsed == 0
            && let Some(value) = self.received.plain_value()
        {
            return Ok(Some(value));
        }
        let mut reader = Reader { received: &mut self.received, parsed: &mut self.parsed, has_read_all: false };
        let parsed = self.parser.parse_value(&mut reader);
        let has_read_all = reader.has_read_all;
        match parsed {
            Ok(value) => {
                self.parsed = 0;
                Ok(Some(value))
            }
            // The parser goes on where it was.
            Err(_) if has_read_all && self.parsed <= LONGEST_REPLY => Ok(None),
            Err(_) if has_read_all => Err(Trouble::TooLong),
            Err(_) => Err(Trouble::Other("what came is not Redis' protocol; is it a port for TLS?".into())),
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

    /// What a waiter sleeps for, and the replies of a lock that nobody contends, need no parser, which would cost more
    /// than all the rest. None: this is neither, or not all of it.
    fn plain_value(&mut self) -> Option<Value> {
        let rest = self.rest();
        // Also where others follow, as in the keeper's pipelines.
        if let Some(number) = [b":0\r\n", b":1\r\n"].iter().position(|number| rest.starts_with(*number)) {
            self.unread.start += 4;
            return Some(Value::Int(number as i64));
        }
        let value = match rest {
            b"+OK\r\n" => Value::Okay,
            b"$-1\r\n" => Value::Nil,
            rest => message(rest)?,
        };
        self.unread = 0..0;
        Some(value)
    }
}

/// `message` (`smessage` in a cluster), a channel and what is said on it, if there is nothing else.
fn message(bytes: &[u8]) -> Option<Value> {
    let (kind, rest) = byte_string(bytes.strip_prefix(b"*3\r\n")?)?;
    if !matches!(kind, b"message" | b"smessage") {
        return None;
    }
    let (channel, rest) = byte_string(rest)?;
    let (said, rest) = byte_string(rest)?;
    let parts = [kind, channel, said].map(|part| Value::BulkString(part.into()));
    rest.is_empty().then(|| Value::Array(parts.into()))
}

/// The first of them, and the rest.
fn byte_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let bytes = bytes.strip_prefix(b"$")?;
    let end = bytes.iter().position(|byte| *byte == b'\r')?;
    let (length, rest) = bytes.split_at_checked(end)?;
    let length = std::str::from_utf8(length).ok()?.parse().ok()?;
    let (string, rest) = rest.strip_prefix(b"\r\n")?.split_at_checked(length)?;
    Some((string, rest.strip_prefix(b"\r\n")?))
}

/// What the parser reads from.
struct Reader<'a> {
    received: &'a mut Received,
    /// How much of the value that is being read the parser has.
    parsed: &'a mut usize,
    has_read_all: bool,
}

/// No reply to a request of ours is longer, and what is read counts in no limit of PHP's.
const LONGEST_REPLY: usize = 64 * 1024 * 1024;

impl Read for Reader<'_> {
    /// A line at a time: the parser must take no byte of the next value into its own buffer.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.received.rest();
        if rest.is_empty() {
            self.has_read_all = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let line = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
        let count = line.min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest.iter().take(count)) {
            *to = *from;
        }
        self.received.unread.start += count;
        *self.parsed += count;
        Ok(count)
    }
}
