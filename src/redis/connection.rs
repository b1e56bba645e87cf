//! One connection that is open: requests out, replies in. Whoever meets trouble on it drops it: after a time-out the
//! next reply would be that of an earlier request.

use std::io::{self, Read};

use redis::{Cmd, Parser, Value};

use super::socket::{Attempt, Socket, Trouble};
#[cfg(feature = "tls")]
use super::tls::Tls;

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
    /// Kept between requests, so that they allocate nothing.
    command: Cmd,
    packed: Vec<u8>,
}

/// So much is kept for the next request; a key of a megabyte is not to stay for ever.
const KEPT_CAPACITY: usize = 64 * 1024;

impl Connection {
    pub fn new(stream: Stream) -> Self {
        Self { stream, parser: Parser::new(), command: Cmd::new(), packed: Vec::new() }
    }

    /// A forked child has closed its parent's connections.
    pub fn is_of_this_process(&self) -> bool {
        match &self.stream {
            Stream::Plain(socket) => socket.fd().is_ok(),
            #[cfg(feature = "tls")]
            Stream::Tls(tls) => tls.is_of_this_process(),
        }
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
        let mut reader = Reader { stream: &mut self.stream, attempt, trouble: None };
        let parsed = self.parser.parse_value(&mut reader);
        match (parsed, reader.trouble) {
            (_, Some(trouble)) => Err(trouble),
            (Ok(value), None) => Ok(value),
            (Err(_), None) => Err(Trouble::Other("what came is not Redis' protocol; is it a port for TLS?".into())),
        }
    }
}

/// What the parser reads from. It knows I/O errors only, so that what really happened is kept beside.
struct Reader<'a, 'b> {
    stream: &'a mut Stream,
    attempt: &'a Attempt<'b>,
    trouble: Option<Trouble>,
}

impl Read for Reader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer, self.attempt).map_err(|trouble| {
            self.trouble = Some(trouble);
            io::ErrorKind::Other.into()
        })
    }
}
