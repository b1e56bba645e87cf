//! The keeper: a thread that renews leases while their holders work, and tells who wants to be told when one ends.
//!
//! One a process, started by the first lease that needs it. What it knows of the process is leases, which it shares
//! with their holders, servers, on connections of its own, and alarms. A forked child has no keeper and starts its own.

mod book;
mod group;
mod link;
mod thread;
mod waker;

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicBool},
    thread::JoinHandle,
};

use book::Book;
pub use book::{Loss, Upkeep, Watched};
use waker::Waker;

use crate::{
    lock::ports::{Alarm, Clock},
    sys::{
        clock::SystemClock,
        fork::{self, PerProcess},
    },
};

#[derive(Default)]
struct Keeper {
    /// Held for moments, never while somebody waits.
    book: Mutex<Book>,
    waker: OnceLock<Waker>,
    thread: Mutex<Option<Running>>,
}

struct Running {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

static KEEPER: PerProcess<Keeper> = PerProcess::new();

/// A lease that is looked after. Not in a forked child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    process: u64,
    id: u64,
}

/// From now on the lease is looked after.
///
/// # Errors
///
/// The system gives no thread, or nothing to wake it by.
pub fn keep(watched: Watched) -> io::Result<Kept> {
    let keeper = KEEPER.get();
    keeper.start()?;
    let mut book = keeper.book();
    let id = book.add(watched, SystemClock.now());
    keeper.wake_for(&mut book);
    Ok(Kept { process: fork::process(), id })
}

/// Whom to tell when this lease ends; None: nobody any more.
pub fn set_alarm(kept: Kept, alarm: Option<Arc<dyn Alarm>>) {
    if let Some(keeper) = Keeper::of(kept) {
        let mut book = keeper.book();
        book.set_alarm(kept.id, alarm, SystemClock.now());
        keeper.wake_for(&mut book);
    }
}

/// Its validity may have become another one.
pub fn look_again(kept: Kept) {
    if let Some(keeper) = Keeper::of(kept) {
        let mut book = keeper.book();
        book.reschedule(kept.id, SystemClock.now());
        keeper.wake_for(&mut book);
    }
}

/// Why it ended, if the keeper saw that.
pub fn loss(kept: Kept) -> Option<Loss> {
    Keeper::of(kept)?.book().loss(kept.id)
}

/// The lease is not looked after any more.
pub fn forget(kept: Kept) {
    if let Some(keeper) = Keeper::of(kept) {
        keeper.book().remove(kept.id);
    }
}

/// How many leases are looked after that have not ended.
pub fn count() -> usize {
    KEEPER.existing().map_or(0, |keeper| keeper.book().count())
}

/// Ends the thread, and waits until it has ended. The next lease that needs it starts it again.
pub fn stop() {
    if let Some(keeper) = KEEPER.existing() {
        keeper.end();
    }
}

impl Keeper {
    fn of(kept: Kept) -> Option<&'static Self> {
        if kept.process == fork::process() { KEEPER.existing() } else { None }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If the thread would look too late otherwise.
    fn wake_for(&self, book: &mut Book) {
        if book.is_to_wake(SystemClock.now())
            && let Some(waker) = self.waker.get()
        {
            waker.wake();
        }
    }

    fn waker(&self) -> io::Result<&Waker> {
        if let Some(waker) = self.waker.get() {
            return Ok(waker);
        }
        let waker = Waker::new()?;
        Ok(self.waker.get_or_init(|| waker))
    }
}
