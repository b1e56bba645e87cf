//! What the keeper's thread is woken by.

use std::{
    io,
    os::{fd::RawFd, unix::net::UnixStream},
};

use crate::sys::fork::Guarded;

#[derive(Debug)]
pub struct Waker {
    ours: Guarded,
    theirs: Guarded,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        Ok(Self { ours: Guarded::new(ours.into())?, theirs: Guarded::new(theirs.into())? })
    }

    pub fn wake(&self) {
        if let Some(fd) = self.theirs.fd() {
            // SAFETY: one valid byte. Where there is no room for it, there is enough to wake by.
            unsafe { libc::send(fd, [1_u8].as_ptr().cast(), 1, libc::MSG_NOSIGNAL) };
        }
    }

    /// What is readable once it is to wake up.
    pub fn fd(&self) -> RawFd {
        self.ours.fd().unwrap_or(-1)
    }

    pub fn clear(&self) {
        let mut bytes = [0_u8; 64];
        // SAFETY: the buffer is valid for its length; the socket does not block.
        while unsafe { libc::recv(self.fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) } == 64 {}
    }
}
