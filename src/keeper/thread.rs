//! The keeper's thread: starts, looks, sleeps, and ends.

use std::{
    collections::HashMap,
    io,
    panic::{self, AssertUnwindSafe, catch_unwind},
    sync::{Arc, Once, PoisonError, atomic::Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use super::{
    Keeper,
    line::{Line, Opener},
    waker::Waker,
};
use crate::{
    lock::{ports::Clock, time::Moment},
    sys::{clock::SystemClock, library, poll, signals},
};

/// As `/proc` shows it.
const NAME: &str = "redis_lock";
/// It ends within moments; a system that does not run it is not waited for for ever.
const LONGEST_END: Duration = Duration::from_secs(5);

impl Keeper {
    /// Unless it runs.
    pub fn start(&'static self) -> io::Result<()> {
        let waker = self.waker()?;
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            self.stop.store(false, SeqCst);
            library::keep_loaded();
            say_nothing_of_panics();
            *thread = Some(signals::blocked(|| thread::Builder::new().name(NAME.into()).spawn(|| self.run(waker)))?);
        }
        Ok(())
    }

    pub fn end(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(thread), Some(waker)) = (thread, self.waker.get()) {
            self.stop.store(true, SeqCst);
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

    fn run(&self, waker: &'static Waker) {
        while !self.stop.load(SeqCst) {
            // What panics is caught where it concerns one server; this is for what is not foreseen.
            if catch_unwind(AssertUnwindSafe(|| self.look_until_stopped(waker))).is_err() {
                thread::sleep(Duration::from_millis(100));
            }
        }
    }

    fn look_until_stopped(&self, waker: &'static Waker) {
        let opener = Opener { waker, stop: &self.stop };
        let mut lines: HashMap<Arc<str>, Line> = HashMap::new();
        while !self.stop.load(SeqCst) {
            for due in self.book().look(SystemClock.now()) {
                let line = lines.entry(due.upkeep.address.clone());
                line.or_insert_with(|| Line::new(due.upkeep.server.clone())).add(due);
            }
            let mut notes = Vec::new();
            for line in lines.values_mut() {
                if catch_unwind(AssertUnwindSafe(|| line.go_on(&opener, &mut notes))).is_err() {
                    line.panicked(&mut notes);
                }
            }
            let mut book = self.book();
            let now = SystemClock.now();
            for note in notes {
                book.note(note, now);
            }
            lines.retain(|_, line| !line.is_unused());
            let most = lines.values().map(Line::until).min().unwrap_or(Moment::NEVER);
            let until = book.sleep(now, most);
            drop(book);
            let awaited = lines.values().filter_map(Line::awaited);
            poll::any(std::iter::once((waker.fd(), libc::POLLIN)).chain(awaited), until, &SystemClock);
            waker.clear();
        }
    }
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
