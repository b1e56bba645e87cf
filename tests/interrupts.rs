//! Signals and forks in the middle of requests, on real sockets.
#![cfg(test)]

mod support;

use std::{
    cell::Cell,
    ptr,
    rc::Rc,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
    time::Instant,
};

use redis_lock::{
    lock::{
        options::Limits,
        ports::{Cause, Clock, Freed, Interrupt, Store, Vote, WakeUp},
    },
    sys::{clock::SystemClock, fork, poll::Sleeper},
};
use support::{
    LIMITS,
    host::Host,
    key, ms,
    redis_server::{RedisServer, store},
    scripted::Scripted,
    token, ttl,
};

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_a_signal(_: i32) {
    SIGNALS.fetch_add(1, SeqCst);
}

/// Runs `act` while signals rain on this thread, each of which ends a system call.
fn in_a_storm(act: impl FnOnce()) {
    // SAFETY: the action is valid, and its handler only adds to an atomic. Without SA_RESTART.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count_a_signal as extern "C" fn(i32) as usize;
        assert_eq!(libc::sigaction(libc::SIGALRM, &action, ptr::null_mut()), 0);
    }
    /// Also where `act` panics: the storm must end before the thread does.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let is_over = AtomicBool::new(false);
    // SAFETY: names this thread, which outlives the scope.
    let target = unsafe { libc::pthread_self() };
    thread::scope(|scope| {
        let _end = End(&is_over);
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                // SAFETY: the thread waits for this one to end.
                unsafe { libc::pthread_kill(target, libc::SIGALRM) };
                thread::sleep(std::time::Duration::from_micros(20));
            }
        });
        act();
    });
}

#[test]
fn a_storm_of_signals_fails_no_command_and_repeats_none() {
    let server = RedisServer::start();
    let (store, host) = (server.store(), Host::default());
    let key = key("key");
    // The script is known from here on.
    assert!(matches!(store.leave(&key, &token(1), None, &host.call()), Freed::NotOurs));
    let count = || (server.calls("set"), server.calls("evalsha"), server.calls("eval"));
    let (before, signals) = (count(), SIGNALS.load(SeqCst));
    in_a_storm(|| {
        for number in 0..1_000 {
            if number % 100 == 0 {
                // Some answers take their time. Asked for by a thread on which no signals rain.
                thread::scope(|scope| drop(scope.spawn(|| server.query::<()>(&["CLIENT", "PAUSE", "30", "ALL"]))));
            }
            let vote = store.try_acquire(&key, &token(number), ttl(60_000).into(), &host.call());
            assert!(matches!(vote, Vote::Granted(_)), "{number}: {vote:?}");
            let freed = store.leave(&key, &token(number), None, &host.call());
            assert!(matches!(freed, Freed::Freed), "{number}: {freed:?}");
        }
    });
    let signals = SIGNALS.load(SeqCst) - signals;
    assert!(signals > 500 && host.pumps.borrow().len() > 100, "no storm: {signals} signals");
    assert_eq!(count(), (before.0 + 1_000, before.1 + 1_000, before.2));
}

#[test]
fn a_storm_of_signals_fails_no_connection() {
    let server = Scripted::serve(|listener| {
        for _ in 0..200 {
            let mut peer = listener.accept();
            peer.request();
            peer.send(b"+OK\r\n");
        }
    });
    let host = Host::default();
    in_a_storm(|| {
        for number in 0..200 {
            // By number and by name.
            let name = if number % 4 == 0 { "localhost" } else { "127.0.0.1" };
            let store = store(&format!("redis://{name}:{}", server.port()));
            let vote = store.try_acquire(&key("key"), &token(1), ttl(1_000).into(), &host.call());
            assert!(matches!(vote, Vote::Granted(_)), "{number}: {vote:?}");
        }
    });
    server.finish();
}

#[test]
fn a_storm_of_signals_shortens_no_sleep() {
    let host = Host::default();
    in_a_storm(|| {
        let until = SystemClock.now().plus(ms(300));
        Sleeper.sleep(until, &SystemClock, &host);
        assert!(SystemClock.now() >= until);
    });
    assert!(host.pumps.borrow().len() > 100, "a signal is looked after at once");
}

#[test]
fn the_host_is_asked_every_100_ms_while_a_reply_does_not_come() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        peer.request();
        peer.send(b"+O");
        peer.expect_end();
    });
    let host = Host::default();
    let limits = Limits { command: ms(1_000), ..LIMITS };
    let start = Instant::now();
    let vote =
        store(&server.address()).try_acquire(&key("key"), &token(1), ttl(1_000).into(), &host.call_within(limits));
    assert!(matches!(vote, Vote::Unknown(_)), "{vote:?}");
    asked_often_enough(&host, start);
    server.finish();
}

#[test]
fn the_host_is_asked_every_100_ms_while_a_waiter_sleeps() {
    let host = Host::default();
    let start = Instant::now();
    Sleeper.sleep(SystemClock.now().plus(ms(1_000)), &SystemClock, &host);
    asked_often_enough(&host, start);
}

fn asked_often_enough(host: &Host, start: Instant) {
    let (times, silence) = (host.pumps.borrow().len(), host.longest_silence(start));
    assert!(times >= 10, "{times} times in a second");
    // What is more than 100 ms is the machine's; but nothing waits for half a second by itself.
    assert!(silence < ms(500), "{silence:?}");
}

#[test]
fn a_stop_in_the_middle_of_a_reply_waits_for_the_rest_of_it() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        peer.request();
        peer.send(b"+O");
        // Some time after the host was asked.
        thread::sleep(ms(300));
        peer.send(b"K\r\n");
    });
    let host = Host::that_stops();
    let vote = store(&server.address()).try_acquire(&key("key"), &token(1), ttl(1_000).into(), &host.call());
    assert!(
        host.stopped() && matches!(vote, Vote::Granted(_)),
        "what was granted must be known, to be undone: {vote:?}"
    );
    server.finish();
}

/// What a child answers for, in its exit code.
fn child_succeeded(child: i32) -> bool {
    let mut status = 0;
    // SAFETY: `status` is valid for writing, and the child is ours to wait for.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn a_fork_in_the_middle_of_a_reply_leaves_the_reply_to_the_parent() {
    let server = Scripted::serve(|listener| {
        let mut parent = listener.accept();
        parent.request();
        parent.send(b"+O");
        let mut child = listener.accept();
        assert_eq!(child.request()[2], token(2).as_bytes());
        child.send(b"$-1\r\n");
        child.expect_end();
        parent.send(b"K\r\n");
        // On the same connection, of which the child has used nothing and closed nothing.
        parent.request();
        parent.send(b":1\r\n");
    });
    let forked = Rc::new(Cell::new(-1));
    let host = Host::that_once({
        let forked = forked.clone();
        // SAFETY: the child runs on in this thread alone, prints nothing and ends by `_exit`.
        move || forked.set(unsafe { libc::fork() })
    });
    let before = fork::process();
    let store = store(&server.address());
    let vote = store.try_acquire(&key("key"), &token(1), ttl(60_000).into(), &host.call());
    if fork::process() != before {
        let is_told = matches!(&vote, Vote::Unknown(fault) if fault.cause == Cause::Forked);
        // A request of its own goes through a connection of its own.
        let own = store.try_acquire(&key("key"), &token(2), ttl(60_000).into(), &Host::default().call());
        let is_right = is_told && matches!(own, Vote::Refused(None));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
    assert!(matches!(store.leave(&key("key"), &token(1), None, &host.call()), Freed::Freed));
    assert!(child_succeeded(forked.get()));
    server.finish();
}
