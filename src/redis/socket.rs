//! A connected socket, read and written in slices, so that the host is asked at least every 100 ms whether something
//! is pending, and a signal neither fails nor repeats a request.
//!
//! The socket blocks, with a time-out of one slice that is set once: a request costs one write and one read. Only the
//! last slice before a deadline, which would be too long, is measured with poll(2).

use std::{io, os::fd::OwnedFd, time::Duration};

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

const SLICE: Duration = Duration::from_millis(50);

/// One step of a call: a connection, or a request and its reply.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    pub deadline: Moment,
    pub limit: Duration,
    pub clock: &'a dyn Clock,
    pub interrupt: &'a dyn Interrupt,
}

impl<'a> Attempt<'a> {
    pub fn new(call: &Call<'a>, limit: Duration) -> Self {
        let deadline = call.clock.now().plus(limit).min(call.until);
        Self { deadline, limit, clock: call.clock, interrupt: call.interrupt }
    }

    pub fn left(&self) -> Duration {
        self.deadline.since(self.clock.now())
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
    #[error("{0}")]
    Other(String),
    #[error("the process forked")]
    Forked,
}

/// The system's message without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(message, _)| message.to_lowercase())
}

#[derive(Debug)]
pub struct Socket(Guarded);

impl Socket {
    /// Of a socket that is connected, or is to be.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self(Guarded::new(fd)?))
    }

    pub fn fd(&self) -> Result<i32, Trouble> {
        self.0.fd().ok_or(Trouble::Forked)
    }

    /// Once it is connected.
    pub fn set_slices(&self) -> Result<(), Trouble> {
        let fd = self.fd()?;
        // SAFETY: the descriptor is open for as long as `self` lives in this process.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        let socket = socket2::SockRef::from(&fd);
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(SLICE))?;
        socket.set_write_timeout(Some(SLICE))?;
        Ok(())
    }

    /// At least one byte.
    pub fn read(&self, buffer: &mut [u8], attempt: &Attempt) -> Result<usize, Trouble> {
        // SAFETY: the buffer is valid for its length.
        self.transfer(attempt, libc::POLLIN, |fd, flags| unsafe {
            libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), flags)
        })
    }

    pub fn write_all(&self, mut bytes: &[u8], attempt: &Attempt) -> Result<(), Trouble> {
        while !bytes.is_empty() {
            // SAFETY: the bytes are valid for their length.
            let sent = self.transfer(attempt, libc::POLLOUT, |fd, flags| unsafe {
                libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags)
            })?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    fn transfer(
        &self,
        attempt: &Attempt,
        events: i16,
        mut system_call: impl FnMut(i32, i32) -> isize,
    ) -> Result<usize, Trouble> {
        loop {
            let fd = self.fd()?;
            if attempt.left() < SLICE
                && poll::until_ready(fd, events, attempt.deadline, attempt.clock, attempt.interrupt) == Waited::TimedOut
            {
                self.fd()?;
                return Err(attempt.timed_out());
            }
            match system_call(fd, libc::MSG_NOSIGNAL) {
                0 => return Err(Trouble::Closed),
                count if count > 0 => return Ok(count.unsigned_abs()),
                _ => {}
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => attempt.interrupt.pump(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => return Err(Trouble::Closed),
                _ => return Err(error.into()),
            }
        }
    }
}
