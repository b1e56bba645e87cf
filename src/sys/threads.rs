//! Threads of ours beside those of the host.

use std::{
    io,
    mem::ManuallyDrop,
    os::{fd::RawFd, unix::net::UnixStream},
    panic::{self, AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Once, Weak,
        mpsc::{self, Receiver, TryRecvError},
    },
    thread::{self, JoinHandle},
};

use super::{
    fork::{self, Guarded},
    library, signals,
};
use crate::lock::ports::Interrupt;

/// What their names begin with, as `/proc` shows them.
pub const NAME: &str = "redis_lock";

/// Starts a thread that takes none of the host's signals and prints nothing. Its code stays in memory as long as it runs.
pub fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    library::keep_loaded();
    say_nothing_of_panics();
    signals::blocked(|| thread::Builder::new().name(name.into()).spawn(work))
}

/// Of ours: they are caught, and what is printed in a thread may end up in a response. Others are reported as before.
fn say_nothing_of_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !thread::current().name().is_some_and(|name| name.starts_with(NAME)) {
                report(info);
            }
        }));
    });
}

/// Something that a thread of its own does meanwhile. Who drops it wants it no more, and the thread is told so.
pub struct Task<T> {
    /// Not dropped in a forked child, where its thread may have had a part of it locked.
    answer: ManuallyDrop<Receiver<T>>,
    process: u64,
    /// Its other end is the thread's, and is closed when that ends.
    end: Guarded,
    _wanted: Arc<()>,
}

impl<T: Send + 'static> Task<T> {
    pub fn start(work: impl FnOnce(&dyn Interrupt) -> T + Send + 'static) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let (end, theirs) = (Guarded::new(ours.into())?, Guarded::new(theirs.into())?);
        let (answer, receiver) = mpsc::sync_channel(1);
        let wanted = Arc::new(());
        let interrupt = Unwanted(Arc::downgrade(&wanted));
        spawn("redis_lock-task", move || {
            if let Ok(done) = catch_unwind(AssertUnwindSafe(|| work(&interrupt))) {
                // Nobody may want it any more.
                let _ = answer.try_send(done);
            }
            drop(answer);
            drop(theirs);
        })?;
        Ok(Self { answer: ManuallyDrop::new(receiver), process: fork::process(), end, _wanted: wanted })
    }

    /// What came of it. The error: it is under way still, or it came to nothing.
    pub fn take(&self) -> Result<T, TryRecvError> {
        // In a forked child there is no thread that would ever answer.
        if self.process == fork::process() { self.answer.try_recv() } else { Err(TryRecvError::Disconnected) }
    }

    /// What is readable once it has ended.
    pub fn fd(&self) -> RawFd {
        self.end.fd().unwrap_or(-1)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if self.process == fork::process() {
            // SAFETY: nothing uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.answer) };
        }
    }
}

/// Stops what nobody wants any more.
struct Unwanted(Weak<()>);

impl Interrupt for Unwanted {
    fn pump(&self) {}

    fn stopped(&self) -> bool {
        self.0.strong_count() == 0
    }

    fn process(&self) -> u64 {
        fork::process()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::sys::poll;

    #[test]
    fn a_task_is_done_meanwhile_and_says_when() {
        let task = Task::start(|_| 7).unwrap();
        let start = Instant::now();
        while !poll::has_news(task.fd()) {
            assert!(start.elapsed() < Duration::from_secs(20));
        }
        assert_eq!(task.take(), Ok(7));
        assert_eq!(task.take(), Err(TryRecvError::Disconnected));
    }

    #[test]
    fn one_that_panics_comes_to_nothing() {
        let task = Task::<u8>::start(|_| panic!("said to nobody")).unwrap();
        let start = Instant::now();
        while task.take() == Err(TryRecvError::Empty) {
            assert!(start.elapsed() < Duration::from_secs(20));
        }
        assert_eq!(task.take(), Err(TryRecvError::Disconnected));
    }

    #[test]
    fn what_nobody_wants_is_told_so() {
        let (told, is_told) = mpsc::channel();
        let task = Task::start(move |interrupt| {
            while !interrupt.stopped() {
                thread::sleep(Duration::from_millis(1));
            }
            told.send(()).unwrap();
        });
        drop(task);
        assert_eq!(is_told.recv_timeout(Duration::from_secs(20)), Ok(()));
    }
}
