//! A socket that never blocks: what it is waited for is waited for in slices, so that the host is asked at least every
//! 100 ms whether something is pending, and a signal neither fails nor repeats a request.
//!
//! A reply of a server that is near is looked for a few times before we fall asleep: measured over a Unix socket on an
//! idle machine, 0.72 of phpredis's time against 0.99 (`bin/bench`). A read that blocks is slower than poll(2) and a
//! read: 1.08 against 0.94.

use std::{cell::Cell, io, os::fd::OwnedFd, time::Duration};

use crate::{
    lock::{
        ports::{Call, Clock, Interrupt},
        time::Moment,
    },
    sys::{
        fork::Guarded,
        poll::{self, Waited},
    },
};

/// A server that is near and has a processor to itself answers within this: to fall asleep and be woken again would
/// take longer than to look again and again. One that took longer the last time is waited for asleep.
const NEAR: Duration = Duration::from_micros(40);

/// One step of a call: a connection, or a request and its reply.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    pub deadline: Moment,
    pub limit: Duration,
    /// Ends when the host wants the call to end; otherwise it goes on, for its answer tells what is to be undone.
    pub unless_stopped: bool,
    pub clock: &'a dyn Clock,
    pub interrupt: &'a dyn Interrupt,
}

impl<'a> Attempt<'a> {
    pub fn new(call: &Call<'a>, limit: Duration) -> Self {
        let deadline = call.clock.now().plus(limit).min(call.until);
        Self { deadline, limit, unless_stopped: false, clock: call.clock, interrupt: call.interrupt }
    }

    /// One that leaves nothing to be undone. Within the clean-up after a stop it goes on.
    pub fn unless_stopped(call: &Call<'a>, limit: Duration) -> Self {
        Self { unless_stopped: !call.interrupt.stopped(), ..Self::new(call, limit) }
    }

    /// A part of it, for which it has an equal share of the time that is left.
    pub fn share(&self, parts: usize) -> Self {
        let limit = self.left() / u32::try_from(parts).unwrap_or(u32::MAX);
        Self { deadline: self.clock.now().plus(limit).min(self.deadline), limit, ..*self }
    }

    pub fn left(&self) -> Duration {
        self.deadline.since(self.clock.now())
    }

    /// In the middle of bytes that come or go without a pause, which nothing else would ever end.
    pub fn go_on(&self) -> Result<(), Trouble> {
        self.interrupt.pump();
        if self.left().is_zero() { Err(self.timed_out()) } else { Ok(()) }
    }

    /// The error of a step that did not end in time.
    pub fn timed_out(&self) -> Trouble {
        Trouble::TimedOut(self.limit)
    }
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("nothing came within {}", crate::lock::error::seconds(*.0))]
    TimedOut(Duration),
    #[error("the server closed the connection")]
    Closed,
    #[error("{}", plain(.0))]
    Io(#[from] io::Error),
    /// The server had closed the connection before it took a byte of the request.
    #[error("the server closed the connection")]
    Unsent,
    #[error("the reply is too long")]
    TooLong,
    #[error("{0}")]
    Other(String),
    /// It does not want us, and will not a moment later.
    #[error("{0}")]
    Refused(String),
    #[error("interrupted before anything was sent")]
    Stopped,
    #[error("the process forked")]
    Forked,
}

/// The system's message without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(message, _)| message.to_lowercase())
}

#[derive(Debug)]
pub struct Socket {
    fd: Guarded,
    /// How long the last answer took.
    took: Cell<Duration>,
}

impl Socket {
    /// Of a socket that does not block.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { fd: Guarded::new(fd)?, took: Cell::new(Duration::MAX) })
    }

    pub fn fd(&self) -> Result<i32, Trouble> {
        self.fd.fd().ok_or(Trouble::Forked)
    }

    /// At least one byte.
    pub fn read(&self, buffer: &mut [u8], attempt: &Attempt) -> Result<usize, Trouble> {
        let start = attempt.clock.now();
        loop {
            if let Some(count) = self.read_now(buffer)? {
                self.answered(start, attempt);
                return Ok(count);
            }
            self.await_answer(start, attempt)?;
        }
    }

    /// None: nothing is there.
    pub fn read_now(&self, buffer: &mut [u8]) -> Result<Option<usize>, Trouble> {
        loop {
            // SAFETY: the buffer is valid for its length.
            let count = unsafe { libc::recv(self.fd()?, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            match count {
                0 => return Err(Trouble::Closed),
                count if count > 0 => return Ok(Some(count.unsigned_abs())),
                _ if passing(io::Error::last_os_error())? => {}
                _ => return Ok(None),
            }
        }
    }

    /// How much of it could be sent. Trouble that comes after a part of it is told by the next call.
    pub fn write_now(&self, bytes: &[u8]) -> Result<usize, Trouble> {
        let mut sent = 0;
        while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
            // SAFETY: the bytes are valid for their length.
            let count = unsafe { libc::send(self.fd()?, rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL) };
            if count >= 0 {
                sent += count.unsigned_abs();
                continue;
            }
            match passing(io::Error::last_os_error()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) if sent > 0 => break,
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(sent)
    }

    /// Waits for an answer of which nothing has come since `start`.
    pub fn await_answer(&self, start: Moment, attempt: &Attempt) -> Result<(), Trouble> {
        if self.took.get() < NEAR && attempt.clock.now().since(start) < NEAR {
            // SAFETY: lets another process have the processor, if one wants it: the server, as it may be.
            unsafe { libc::sched_yield() };
            return Ok(());
        }
        self.wait(libc::POLLIN, attempt)
    }

    pub fn answered(&self, start: Moment, attempt: &Attempt) {
        self.took.set(attempt.clock.now().since(start));
    }

    pub fn wait(&self, events: i16, attempt: &Attempt) -> Result<(), Trouble> {
        self.wait_until(events, attempt.deadline, attempt)
    }

    pub fn wait_until(&self, events: i16, until: Moment, attempt: &Attempt) -> Result<(), Trouble> {
        let fd = self.fd()?;
        let waited = poll::until_ready(fd, events, until, attempt.unless_stopped, attempt.clock, attempt.interrupt);
        // In a child that a handler forked, the descriptor is none any more.
        self.fd()?;
        match waited {
            Waited::Ready => Ok(()),
            Waited::TimedOut => Err(attempt.timed_out()),
            Waited::Pending => Err(Trouble::Stopped),
        }
    }
}

/// Whether it is to be tried again at once, for a signal came in between; false: not now.
fn passing(error: io::Error) -> Result<bool, Trouble> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(true),
        io::ErrorKind::WouldBlock => Ok(false),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Err(Trouble::Closed),
        _ => Err(error.into()),
    }
}
