//! The keeper's thread: starts, looks, sleeps, and ends.

use std::{
    collections::HashMap,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Keeper, Running, group::Group, link::Link, waker::Waker};
use crate::{
    lock::{ports::Clock, time::Moment},
    sys::{clock::SystemClock, poll, threads},
};

/// It ends within moments; a system that does not run it is not waited for for ever.
const LONGEST_END: Duration = Duration::from_secs(5);

impl Keeper {
    /// Unless it runs.
    pub fn start(&'static self) -> io::Result<()> {
        let waker = self.waker()?;
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let stop = Arc::new(AtomicBool::new(false));
            let run = {
                let stop = stop.clone();
                move || self.run(waker, &stop)
            };
            *thread = Some(Running { thread: threads::spawn(threads::NAME, run)?, stop });
        }
        Ok(())
    }

    pub fn end(&self) {
        let running = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(Running { thread, stop }), Some(waker)) = (running, self.waker.get()) {
            stop.store(true, SeqCst);
            waker.wake();
            let start = Instant::now();
            while !thread.is_finished() && start.elapsed() < LONGEST_END {
                thread::sleep(Duration::from_micros(200));
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }

    fn run(&self, waker: &Waker, stop: &AtomicBool) {
        while !stop.load(SeqCst) {
            // What panics is caught where it concerns one server; this is for what is not foreseen.
            if catch_unwind(AssertUnwindSafe(|| self.look_until_stopped(waker, stop))).is_err() {
                thread::sleep(Duration::from_millis(100));
                self.book().begin_anew(SystemClock.now());
            }
        }
    }

    fn look_until_stopped(&self, waker: &Waker, stop: &AtomicBool) {
        let mut groups: HashMap<Arc<str>, Group> = HashMap::new();
        while !stop.load(SeqCst) {
            let now = SystemClock.now();
            let mut book = self.book();
            // What is forgotten meanwhile is not renewed any more.
            groups.values_mut().flat_map(Group::links_mut).for_each(|link| link.keep_only(|id| book.has(id)));
            let due = book.look(now);
            drop(book);
            for due in due {
                let group = groups.entry(due.upkeep.address.clone());
                group.or_insert_with(|| Group::new(due.upkeep.server.clone())).add(due, now);
            }
            let mut notes = Vec::new();
            for link in groups.values_mut().flat_map(Group::links_mut) {
                if catch_unwind(AssertUnwindSafe(|| link.go_on(&mut notes))).is_err() {
                    link.panicked(&mut notes);
                }
            }
            let mut book = self.book();
            let now = SystemClock.now();
            for note in notes {
                book.note(note, now);
            }
            groups.retain(|_, group| group.keep_used(now));
            let links = || groups.values().flat_map(Group::links);
            let most = links().map(Link::until).min().unwrap_or(Moment::NEVER);
            let until = book.sleep(now, most);
            drop(book);
            let awaited = links().flat_map(Link::awaited);
            let called = waker.fd();
            let awaited = std::iter::once((called, libc::POLLIN)).chain(awaited);
            if poll::any(awaited, until, &SystemClock).contains(&called) {
                waker.clear();
            }
        }
    }
}
