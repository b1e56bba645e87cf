//! What must not pass into a forked child: sockets, and the belief in its parent's leases.
//!
//! A child closes every inherited socket at once, in the fork itself, whether it will ever use a lock or not: a
//! request sent on a shared socket would mix two processes' answers, and a waiter's subscription must die with its
//! process. The handler runs in the child alone and only reads atomics and calls close(2), so that it cannot block.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering::SeqCst},
};

static FORKS: AtomicU64 = AtomicU64::new(0);
static WATCHING: AtomicBool = AtomicBool::new(false);
static SOCKETS: Table = Table::new();

/// Another number in each forked child.
pub fn process() -> u64 {
    FORKS.load(SeqCst)
}

/// Must have been called before anything is kept that a child must not believe in. Not at module start: a server may
/// load the module, unload it, and load it again.
pub fn watch() {
    if !WATCHING.swap(true, SeqCst) {
        // SAFETY: the handler is async-signal-safe, and lives as long as the library: libc forgets the handlers of
        // a library that is unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, SeqCst);
    SOCKETS.close_all();
}

/// A socket that a forked child closes at once.
#[derive(Debug)]
pub struct Guarded {
    fd: Option<OwnedFd>,
    slot: &'static AtomicI32,
    process: u64,
}

impl Guarded {
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        watch();
        let fd = above_standard(fd)?;
        let slot = SOCKETS.take(fd.as_raw_fd());
        Ok(Self { fd: Some(fd), slot, process: process() })
    }

    /// None in a child: the number may be that of another file by now.
    pub fn fd(&self) -> Option<RawFd> {
        self.fd.as_ref().filter(|_| self.process == process()).map(AsRawFd::as_raw_fd)
    }
}

/// A daemon has closed its standard streams, whose numbers then are the next ones given out. What it prints all the
/// same must not go into a socket.
fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(fd);
    }
    // SAFETY: the descriptor is open; the new one is nobody else's.
    let moved = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1) };
    if moved < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if self.process == process() {
            self.slot.store(FREE, SeqCst);
        } else if let Some(fd) = self.fd.take() {
            // Closed by the fork already.
            std::mem::forget(fd);
        }
    }
}

const FREE: i32 = -1;
const CHUNK: usize = 64;

/// File descriptors, in chunks that are never moved or freed, so that a child can walk them at any moment.
struct Table {
    slots: [AtomicI32; CHUNK],
    next: AtomicPtr<Table>,
}

impl Table {
    const fn new() -> Self {
        Self { slots: [const { AtomicI32::new(FREE) }; CHUNK], next: AtomicPtr::new(ptr::null_mut()) }
    }

    fn take(&'static self, fd: RawFd) -> &'static AtomicI32 {
        let mut chunk = self;
        loop {
            if let Some(slot) = chunk.slots.iter().find(|slot| slot.compare_exchange(FREE, fd, SeqCst, SeqCst).is_ok())
            {
                return slot;
            }
            chunk = chunk.next_or_new();
        }
    }

    fn next_or_new(&'static self) -> &'static Self {
        let mut next = self.next.load(SeqCst);
        if next.is_null() {
            let new = Box::into_raw(Box::new(Self::new()));
            next = match self.next.compare_exchange(ptr::null_mut(), new, SeqCst, SeqCst) {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: another thread was faster; `new` is ours alone and was never shared.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
        // SAFETY: not null, made by `Box::into_raw` above, and never freed once it is in the list.
        unsafe { &*next }
    }

    fn close_all(&'static self) {
        let mut chunk = Some(self);
        while let Some(Self { slots, next }) = chunk {
            for slot in slots {
                let fd = slot.swap(FREE, SeqCst);
                if fd != FREE {
                    // SAFETY: the number was of a socket of ours when the process forked, and nothing but other
                    // libraries' handlers of the fork can have run in this child since.
                    unsafe { libc::close(fd) };
                }
            }
            // SAFETY: null, or a chunk that is never freed.
            chunk = unsafe { next.load(SeqCst).as_ref() };
        }
    }
}

/// A value that each process makes for itself: a forked child starts with a new one and can never block on, or
/// believe in, what it inherited. The old one is left behind, for it may be in any state.
pub struct PerProcess<T>(AtomicPtr<(u64, T)>);

impl<T: Default + Sync + 'static> PerProcess<T> {
    #[expect(clippy::new_without_default, reason = "only ever a static")]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value of this process, if it has made one.
    pub fn existing(&self) -> Option<&'static T> {
        // SAFETY: null, or made by `Box::into_raw` below and never freed.
        let current = unsafe { self.0.load(SeqCst).as_ref() };
        current.filter(|(made_in, _)| *made_in == process()).map(|(_, value)| value)
    }

    pub fn get(&self) -> &'static T {
        watch();
        loop {
            let current = self.0.load(SeqCst);
            if let Some(value) = self.existing() {
                return value;
            }
            let new = Box::into_raw(Box::new((process(), T::default())));
            if self.0.compare_exchange(current, new, SeqCst, SeqCst).is_err() {
                // SAFETY: another thread was faster; `new` is ours alone and was never shared.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::net::UnixStream, sync::Mutex};

    use super::*;

    /// Runs `check` in a forked child; true if it returned true there.
    fn in_a_child(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child calls nothing that could need a lock of another thread: atomics and system calls.
        match unsafe { libc::fork() } {
            // SAFETY: ends the child at once, without running the parent's clean-up.
            0 => unsafe { libc::_exit(if check() { 0 } else { 1 }) },
            child => {
                let mut status = 0;
                // SAFETY: `status` is valid for writing, and `child` is ours to wait for.
                unsafe { libc::waitpid(child, &mut status, 0) };
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
            }
        }
    }

    #[test]
    fn a_child_has_closed_the_socket_and_the_parent_keeps_it() {
        let (ours, mut other) = UnixStream::pair().unwrap();
        let socket = Guarded::new(ours.into()).unwrap();
        let fd = socket.fd().unwrap();
        // SAFETY: F_GETFD only looks at the number.
        let is_open = || unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1;
        assert!(in_a_child(|| !is_open() && socket.fd().is_none() && process() == 1));
        assert!(is_open() && process() == 0);
        drop(socket);
        assert_eq!(other.read(&mut [0; 1]).unwrap(), 0, "closed");
    }

    #[test]
    fn many_sockets_are_guarded() {
        let pairs: Vec<_> = (0..150).map(|_| UnixStream::pair().unwrap()).collect();
        let sockets: Vec<_> = pairs.into_iter().map(|(a, b)| (Guarded::new(a.into()).unwrap(), b)).collect();
        let fds: Vec<_> = sockets.iter().map(|(socket, _)| socket.fd().unwrap()).collect();
        // SAFETY: F_GETFD only looks at the number.
        assert!(in_a_child(|| fds.iter().all(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } == -1)));
    }

    #[test]
    fn a_child_makes_its_own_value() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new();
        let mut inherited = VALUE.get().lock().unwrap();
        *inherited = 7;
        // The parent holds the mutex: a child that shared it would block for ever.
        assert!(in_a_child(|| *VALUE.get().lock().unwrap() == 0));
        drop(inherited);
        assert_eq!(*VALUE.get().lock().unwrap(), 7);
    }
}
