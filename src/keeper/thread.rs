//! The keeper's thread: starts, looks, sleeps, and ends.

use std::{
    collections::HashMap,
    io,
    panic::{self, AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Once, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    Keeper, Running,
    group::Group,
    link::{Link, Opener},
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
            library::keep_loaded();
            say_nothing_of_panics();
            let stop = Arc::new(AtomicBool::new(false));
            let run = {
                let stop = stop.clone();
                move || self.run(&Opener { waker, stop })
            };
            let started = signals::blocked(|| thread::Builder::new().name(NAME.into()).spawn(run))?;
            *thread = Some(Running { thread: started, stop });
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

    fn run(&self, opener: &Opener) {
        while !opener.stop.load(SeqCst) {
            // What panics is caught where it concerns one server; this is for what is not foreseen.
            if catch_unwind(AssertUnwindSafe(|| self.look_until_stopped(opener))).is_err() {
                thread::sleep(Duration::from_millis(100));
                self.book().begin_anew(SystemClock.now());
            }
        }
    }

    fn look_until_stopped(&self, opener: &Opener) {
        let mut groups: HashMap<Arc<str>, Group> = HashMap::new();
        while !opener.stop.load(SeqCst) {
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
                if catch_unwind(AssertUnwindSafe(|| link.go_on(opener, &mut notes))).is_err() {
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
            let awaited = links().filter_map(Link::awaited);
            let called = opener.waker.fd();
            let awaited = std::iter::once((called, libc::POLLIN)).chain(awaited);
            if poll::any(awaited, until, &SystemClock).contains(&called) {
                opener.waker.clear();
            }
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
