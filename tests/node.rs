//! One connection, and a server that is silent, ends it, or takes and gives without end.
#![cfg(test)]

mod support;

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use redis_lock::{
    lock::{
        options::Limits,
        ports::{Call, Cause, Clock, Fault, Store, Vote},
        time::Moment,
    },
    sys::clock::SystemClock,
};
use socket2::SockRef;
use support::{
    LIMITS,
    host::Host,
    key, ms,
    redis_server::store,
    scripted::{Peer, Scripted},
    token, ttl,
    world::World,
};

const SHORT: Limits = Limits { connect: LIMITS.connect, command: ms(300) };

fn try_it(store: &dyn Store, host: &Host) -> Vote {
    store.try_acquire(&key("key"), &token(1), ttl(1_000).into(), &host.call())
}

fn no_answer(vote: Vote) -> String {
    match vote {
        Vote::Unknown(Fault { cause: Cause::NoAnswer(why), .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn silence_ends_at_the_time_out_and_a_late_reply_is_not_taken_for_another() {
    let server = Scripted::serve(|listener| {
        let mut silent = listener.accept();
        silent.request();
        let mut second = listener.accept();
        // The client is gone, and the reply may not even be deliverable.
        let _ = std::io::Write::write_all(&mut silent.0, b"+OK\r\n");
        second.request();
        second.send(b"$-1\r\n");
    });
    let (store, host) = (store(&server.address()), Host::default());
    let start = Instant::now();
    let vote = store.try_acquire(&key("key"), &token(1), ttl(1_000).into(), &host.call_within(SHORT));
    assert_eq!(no_answer(vote), "nothing came within 0.3 s");
    let took = start.elapsed();
    assert!(took >= SHORT.command && took < SHORT.command + Duration::from_secs(3), "{took:?}");
    let vote = try_it(&store, &host);
    assert!(matches!(vote, Vote::Refused(None)), "{vote:?}");
    server.finish();
}

#[test]
fn a_call_ends_at_its_end_and_sends_nothing_after_it() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        peer.request();
        peer.expect_end();
    });
    let (store, host) = (store(&server.address()), Host::default());
    let until = SystemClock.now().plus(ms(300));
    let start = Instant::now();
    let call = Call { until, ..host.call() };
    no_answer(store.try_acquire(&key("key"), &token(1), ttl(1_000).into(), &call));
    assert!(SystemClock.now() >= until && start.elapsed() < LIMITS.command, "{:?}", start.elapsed());
    // Another one would wait for the next connection, which nobody accepts.
    let Vote::Unknown(fault) = store.try_acquire(&key("key"), &token(1), ttl(1_000).into(), &call) else { panic!() };
    assert!(!fault.may_have_run(), "{fault}");
    server.finish();
}

#[test]
fn a_connection_that_ends_after_a_request_leaves_its_fate_unknown() {
    let ends: [fn(&mut Peer); 4] = [
        |peer| drop(peer.request()),
        |peer| {
            peer.request();
            peer.send(b"+O");
        },
        // With a reset instead of a goodbye.
        |peer| {
            peer.request();
            SockRef::from(&peer.0).set_linger(Some(Duration::ZERO)).unwrap();
        },
        // Before it read the request.
        |peer| {
            peer.0.peek(&mut [0]).unwrap();
        },
    ];
    let server = Scripted::serve(move |listener| {
        for end in ends {
            end(&mut listener.accept());
            let mut peer = listener.accept();
            peer.request();
            peer.send(b"+OK\r\n");
            peer.expect_end();
        }
    });
    let host = Host::default();
    for number in 0..ends.len() {
        let store = store(&server.address());
        assert_eq!(no_answer(try_it(&store, &host)), "the server closed the connection", "{number}");
        let vote = try_it(&store, &host);
        assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
    }
    server.finish();
}

#[test]
fn a_connection_that_ended_while_idle_is_replaced_and_nothing_is_unknown() {
    let (closed, is_closed) = mpsc::channel();
    let server = Scripted::serve(move |listener| {
        for _ in 0..3 {
            let mut peer = listener.accept();
            peer.request();
            peer.send(b"+OK\r\n");
            drop(peer);
            closed.send(()).unwrap();
        }
    });
    let (store, host) = (store(&server.address()), Host::default());
    for _ in 0..3 {
        let vote = try_it(&store, &host);
        assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
        is_closed.recv().unwrap();
        // The end of the connection is on its way; and it is idle only after a while.
        thread::sleep(ms(20));
    }
    server.finish();
}

#[test]
fn a_request_that_the_connection_did_not_take_is_sent_on_another() {
    let (closed, is_closed) = mpsc::channel();
    let server = Scripted::serve(move |listener| {
        let mut peer = listener.accept();
        peer.request();
        peer.send(b"$-1\r\n");
        // A reset: the next byte is refused by our own side.
        SockRef::from(&peer.0).set_linger(Some(Duration::ZERO)).unwrap();
        drop(peer);
        closed.send(()).unwrap();
        let mut peer = listener.accept();
        peer.request();
        peer.send(b"+OK\r\n");
    });
    // For a clock that stands still the connection was used just now, and is not looked at before it is used again.
    let (store, world) = (store(&server.address()), World::new());
    let try_it = || store.try_acquire(&key("key"), &token(1), ttl(1_000).into(), &world.call(Moment::NEVER));
    let vote = try_it();
    assert!(matches!(vote, Vote::Refused(None)), "{vote:?}");
    is_closed.recv().unwrap();
    thread::sleep(ms(20));
    let vote = try_it();
    assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
    server.finish();
}

#[test]
fn a_key_of_eight_megabytes_is_sent_as_the_server_takes_it() {
    let name = "k".repeat(8 << 20);
    let expected = name.clone();
    let server = Scripted::serve(move |listener| {
        let mut peer = listener.accept();
        // Nothing is read until all buffers between us are full.
        thread::sleep(ms(300));
        assert!(peer.request()[1] == expected.as_bytes());
        peer.send(b"+OK\r\n");
        // And one that is never read.
        thread::sleep(ms(600));
    });
    let (store, host, key) = (store(&server.address()), Host::default(), key(&name));
    let vote = store.try_acquire(&key, &token(1), ttl(1_000).into(), &host.call());
    assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
    assert!(!host.pumps.borrow().is_empty(), "the host is asked while we send, too");
    let vote = store.try_acquire(&key, &token(1), ttl(1_000).into(), &host.call_within(SHORT));
    assert_eq!(no_answer(vote), "nothing came within 0.3 s");
    server.finish();
}

#[test]
fn a_reply_without_end_ends_at_the_time_out() {
    let server = Scripted::serve(|listener| {
        for begin in [&b"+"[..], b"$99999999999\r\n", b"*999999999\r\n", b"-ERR "] {
            let mut peer = listener.accept();
            peer.request();
            peer.send(begin);
            let more = if begin[0] == b'*' { b":1\r\n".repeat(64) } else { vec![b'a'; 256] };
            // Until the client has had enough.
            while std::io::Write::write_all(&mut peer.0, &more).is_ok() {}
        }
    });
    for _ in 0..4 {
        let (store, host) = (store(&server.address()), Host::default());
        let start = Instant::now();
        let limits = Limits { command: ms(1_000), ..LIMITS };
        let vote = store.try_acquire(&key("key"), &token(1), ttl(1_000).into(), &host.call_within(limits));
        // In time, or earlier where it was too much.
        no_answer(vote);
        assert!(start.elapsed() < limits.command * 4, "{:?}", start.elapsed());
        assert!(host.longest_silence(start) < limits.command / 2, "{:?}", host.longest_silence(start));
    }
    server.finish();
}

#[test]
fn a_primary_that_is_one_no_more_is_looked_for_anew() {
    let server = Scripted::serve(|listener| {
        let mut old = listener.accept();
        old.request();
        old.send(b"-READONLY You can't write against a read only replica.\r\n");
        let mut new = listener.accept();
        new.request();
        new.send(b"+OK\r\n");
        old.expect_end();
    });
    let host = Host::default();
    assert!(matches!(try_it(&store(&server.address()), &host), Vote::Granted(_)));
    server.finish();
}

#[test]
fn a_server_that_stays_read_only_says_so() {
    let server = Scripted::serve(|listener| {
        for _ in 0..2 {
            let mut peer = listener.accept();
            peer.request();
            peer.send(b"-READONLY You can't write against a read only replica.\r\n");
        }
    });
    let host = Host::default();
    let Vote::Unknown(fault) = try_it(&store(&server.address()), &host) else { panic!("neither granted nor refused") };
    assert!(!fault.may_have_run() && fault.to_string().contains("READONLY"), "{fault}");
    server.finish();
}
