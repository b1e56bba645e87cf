//! Waiting, in slices, so that the host looks at what is pending at least every 100 ms, and at once when a signal
//! comes while we wait.

use std::{os::fd::RawFd, time::Duration};

use crate::lock::{
    ports::{Clock, Interrupt, WakeUp},
    time::Moment,
};

/// A signal that comes just before the wait begins does not end it; it is seen a slice later.
pub const SLICE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    Ready,
    TimedOut,
    /// Neither: a slice of the time has passed, or a signal came, or the host wants the call to end.
    Pending,
}

/// Waits until `fd` is ready for `events` (of poll(2)), or until `until`, or, if `unless_stopped`, until the host wants
/// the call to end.
pub fn until_ready(
    fd: RawFd,
    events: i16,
    until: Moment,
    unless_stopped: bool,
    clock: &dyn Clock,
    interrupt: &dyn Interrupt,
) -> Waited {
    loop {
        if unless_stopped && interrupt.stopped() {
            return Waited::Pending;
        }
        match slice(&[(fd, events)], until, clock, interrupt) {
            Waited::Pending => {}
            waited => return waited,
        }
    }
}

/// The same for one slice, after which the host has run what was pending, and until one of these is ready.
pub fn slice(awaited: &[(RawFd, i16)], until: Moment, clock: &dyn Clock, interrupt: &dyn Interrupt) -> Waited {
    slice_of(&mut polls(awaited.iter().copied()), until, clock, interrupt)
}

/// The same, and it is known afterwards which of them are ready.
pub fn slice_of(polls: &mut [libc::pollfd], until: Moment, clock: &dyn Clock, interrupt: &dyn Interrupt) -> Waited {
    let (left, process) = (until.since(clock.now()), interrupt.process());
    // After an error (EINTR) nothing is ready.
    if wait(polls, millis(left.min(SLICE))) > 0 {
        return Waited::Ready;
    }
    if left.is_zero() {
        return Waited::TimedOut;
    }
    interrupt.pump();
    // In a child, what was awaited is the number of nothing, or of another file.
    if interrupt.process() == process { Waited::Pending } else { Waited::TimedOut }
}

/// Waits until one of these is ready, or until `until`, on a thread that no host looks after. Gives those that are ready.
pub fn any(awaited: impl Iterator<Item = (RawFd, i16)>, until: Moment, clock: &dyn Clock) -> Vec<RawFd> {
    let mut polls = polls(awaited);
    wait(&mut polls, if until == Moment::NEVER { -1 } else { millis(until.since(clock.now())) });
    polls.iter().filter(|poll| poll.revents != 0).map(|poll| poll.fd).collect()
}

/// Whether something came, be it the end, while nobody waited.
pub fn has_news(fd: RawFd) -> bool {
    wait(&mut [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }], 0) > 0
}

pub fn polls(awaited: impl Iterator<Item = (RawFd, i16)>) -> Vec<libc::pollfd> {
    awaited.map(|(fd, events)| libc::pollfd { fd, events, revents: 0 }).collect()
}

/// How many are ready; less than none: a signal came.
fn wait(polls: &mut [libc::pollfd], milliseconds: i32) -> i32 {
    // SAFETY: that many valid entries.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, milliseconds) }
}

/// Sleeps, with nothing to listen to.
#[derive(Clone, Copy, Debug)]
pub struct Sleeper;

impl WakeUp for Sleeper {
    fn sleep(&self, until: Moment, clock: &dyn Clock, interrupt: &dyn Interrupt) {
        while !interrupt.stopped() && slice(&[], until, clock, interrupt) == Waited::Pending {}
    }
}

/// Rounded up: a wait must not spin through its last millisecond.
fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
}
