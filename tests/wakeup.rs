//! What waiters hear by: one connection for all, whatever comes on it and whatever becomes of it.
#![cfg(test)]

mod support;

use std::{
    cell::Cell,
    io,
    rc::Rc,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use redis_lock::{
    lock::{
        options::Limits,
        ports::{Call, Cause, Clock, Store, Subscription, Woken},
        time::Moment,
    },
    redis::Single,
    sys::clock::SystemClock,
};
use support::{
    LIMITS,
    host::Host,
    key, ms,
    redis_server::{RedisServer, store},
    scripted::{Peer, Scripted},
};

/// Long for a machine, and short for a test.
const SOON: Duration = Duration::from_secs(10);

fn subscribe(store: &Single, name: &str) -> Box<dyn Subscription> {
    let subscription = store.subscription(&key(name)).unwrap();
    subscription.listen(&Host::default().call()).unwrap();
    subscription
}

fn sleep(subscription: &dyn Subscription, duration: Duration, host: &Host) -> Woken {
    subscription.sleep(SystemClock.now().plus(duration), &SystemClock, host)
}

fn listen(subscription: &dyn Subscription, duration: Duration) -> Woken {
    sleep(subscription, duration, &Host::default())
}

fn tell(server: &RedisServer, name: &str, subscription: &dyn Subscription, wait: u64) {
    let channel = key(name).channel(subscription.ear());
    server.query::<()>(&[b"PUBLISH", &*channel, wait.to_string().as_bytes()]);
}

fn channels(server: &RedisServer) -> usize {
    server.query::<Vec<Vec<u8>>>(&["PUBSUB", "CHANNELS"]).len()
}

/// Connections, without that of the test itself.
fn connections(server: &RedisServer) -> usize {
    let clients: String = server.query(&["CLIENT", "LIST"]);
    clients.lines().count() - 1
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < SOON, "not so: {what}");
        thread::sleep(ms(2));
    }
}

#[test]
fn each_hears_its_own_on_one_connection() {
    let server = RedisServer::start();
    let store = server.store();
    let (a, b) = (subscribe(&store, "a"), subscribe(&store, "b"));
    assert_eq!((connections(&server), channels(&server)), (1, 2));
    assert_ne!(a.ear(), b.ear());
    let (wait_a, wait_b) = (a.begin(), b.begin());
    tell(&server, "b", &*b, wait_b);
    tell(&server, "a", &*a, wait_a);
    // Whoever reads first reads for both.
    assert_eq!((listen(&*a, SOON), listen(&*b, SOON)), (Woken::Told, Woken::Told));
    // Once told is told once.
    assert_eq!((listen(&*a, ms(20)), listen(&*b, ms(20))), (Woken::Untold, Woken::Untold));
    drop(a);
    eventually("a channel ends with its subscription", || channels(&server) == 1);
    drop(b);
    eventually("no channel is left", || channels(&server) == 0);
    assert_eq!(connections(&server), 1, "the connection is kept");
    drop(subscribe(&store, "c"));
    assert_eq!(connections(&server), 1, "and used again");
}

#[test]
fn what_is_meant_for_another_wait_wakes_nobody() {
    let server = RedisServer::start();
    let subscription = subscribe(&server.store(), "key");
    let first = subscription.begin();
    tell(&server, "key", &*subscription, first);
    let second = subscription.begin();
    assert_eq!(listen(&*subscription, ms(50)), Woken::Untold);
    tell(&server, "key", &*subscription, second);
    assert_eq!(listen(&*subscription, SOON), Woken::Told);
    for nonsense in ["", "x", "-1", "99999999999999999999999"] {
        let channel = key("key").channel(subscription.ear());
        server.query::<()>(&[b"PUBLISH", &*channel, nonsense.as_bytes()]);
        assert_eq!(listen(&*subscription, ms(20)), Woken::Untold, "{nonsense}");
    }
}

#[test]
fn a_wait_in_a_signal_handler_in_a_wait_takes_nothing_from_it() {
    let server = Rc::new(RedisServer::start());
    let store = Rc::new(server.store());
    let outer = Rc::new(subscribe(&store, "outer"));
    let wait = outer.begin();
    let host = Host::that_once({
        let (server, store, outer) = (server.clone(), store.clone(), outer.clone());
        move || {
            // The outer's message comes first, and is read by the inner wait.
            tell(&server, "outer", &**outer, wait);
            let inner = subscribe(&store, "inner");
            let wait = inner.begin();
            tell(&server, "inner", &*inner, wait);
            assert_eq!(listen(&*inner, SOON), Woken::Told);
        }
    });
    assert_eq!(sleep(&**outer, SOON, &host), Woken::Told);
    assert_eq!(connections(&server), 1);
}

#[test]
fn a_connection_that_was_replaced_by_an_inner_wait_is_no_longer_the_outers() {
    let server = Rc::new(RedisServer::start());
    let store = Rc::new(server.store());
    let outer = Rc::new(subscribe(&store, "outer"));
    outer.begin();
    let host = Host::that_once({
        let (server, store) = (server.clone(), store.clone());
        move || {
            server.query::<()>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            drop(subscribe(&store, "inner"));
        }
    });
    assert_eq!(sleep(&**outer, SOON, &host), Woken::Deaf);
    outer.listen(&Host::default().call()).unwrap();
    assert_eq!(connections(&server), 1);
    let wait = outer.begin();
    tell(&server, "outer", &**outer, wait);
    assert_eq!(listen(&**outer, SOON), Woken::Told);
}

#[test]
fn a_connection_that_was_killed_is_replaced_and_hears_again() {
    let server = RedisServer::start();
    let store = server.store();
    let (a, b) = (subscribe(&store, "a"), subscribe(&store, "b"));
    let (ear, wait) = (a.ear().to_owned(), a.begin());
    server.query::<()>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(listen(&*a, SOON), Woken::Deaf);
    assert!(!a.is_alive() && !b.is_alive());
    a.listen(&Host::default().call()).unwrap();
    assert!(a.is_alive() && !b.is_alive());
    b.listen(&Host::default().call()).unwrap();
    assert_eq!((a.ear(), connections(&server), channels(&server)), (&*ear, 1, 2));
    tell(&server, "a", &*a, wait);
    assert_eq!(listen(&*a, SOON), Woken::Told);
}

#[test]
fn who_is_not_heard_on_a_living_connection_gets_a_new_one() {
    // As where something between drops what it has not seen used for long, and says nothing.
    let server = RedisServer::start();
    let store = server.store();
    let subscription = subscribe(&store, "key");
    let id: u64 = server.query(&["CLIENT", "ID"]);
    subscription.listen(&Host::default().call()).unwrap();
    let clients: String = server.query(&["CLIENT", "LIST", "TYPE", "pubsub"]);
    let newest = clients.split(['\n', ' ']).find_map(|field| field.strip_prefix("id=")).unwrap();
    assert!(newest.parse::<u64>().unwrap() > id + 1, "{clients}");
    assert!(subscription.is_alive() && connections(&server) == 1);
}

#[test]
fn a_host_is_asked_while_it_waits_and_may_end_it() {
    let server = RedisServer::start();
    let subscription = subscribe(&server.store(), "key");
    let (host, start) = (Host::default(), Instant::now());
    assert_eq!(sleep(&*subscription, ms(500), &host), Woken::Untold);
    assert!(host.longest_silence(start) < ms(1_000) && host.pumps.borrow().len() >= 5);
    let (host, start) = (Host::that_stops(), Instant::now());
    assert_eq!(sleep(&*subscription, SOON * 6, &host), Woken::Untold);
    assert!(start.elapsed() < SOON);
}

#[test]
fn no_forked_child_hears_or_ends_what_its_parent_hears() {
    let server = RedisServer::start();
    let subscription = subscribe(&server.store(), "key");
    let wait = subscription.begin();
    // SAFETY: the child does little, and ends without running what is its parent's.
    match unsafe { libc::fork() } {
        0 => {
            let is_deaf = !subscription.is_alive() && listen(&*subscription, ms(1)) == Woken::Deaf;
            drop(subscription);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_deaf)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is valid for writing.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0);
        }
    }
    tell(&server, "key", &*subscription, wait);
    assert_eq!(listen(&*subscription, SOON), Woken::Told);
}

/// Confirms a subscription, and gives the channel.
fn confirm(peer: &mut Peer) -> Vec<u8> {
    let request = peer.request();
    assert_eq!(request[0], b"SUBSCRIBE");
    let channel = request[1].clone();
    let length = channel.len();
    peer.send(&[format!("*3\r\n$9\r\nsubscribe\r\n${length}\r\n").as_bytes(), &channel, b"\r\n:1\r\n"].concat());
    channel
}

/// Confirms a subscription, and stays until the client goes.
fn confirm_and_stay(mut peer: Peer) {
    confirm(&mut peer);
    let _ = io::copy(&mut peer.0, &mut io::sink());
}

fn message(channel: &[u8], wait: u64) -> Vec<u8> {
    let wait = wait.to_string();
    let head = format!("*3\r\n$7\r\nmessage\r\n${}\r\n", channel.len());
    [head.as_bytes(), channel, format!("\r\n${}\r\n{wait}\r\n", wait.len()).as_bytes()].concat()
}

#[test]
fn a_message_may_come_in_pieces_and_several_at_once() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        let channel = confirm(&mut peer);
        for byte in message(&channel, 1) {
            peer.send(&[byte]);
            thread::sleep(ms(1));
        }
        let both = [message(&channel, 1), message(b"somebody else's", 2), message(&channel, 2)].concat();
        peer.send(&both);
        // Until it is closed.
        let _ = peer.0.set_read_timeout(Some(SOON));
        assert_eq!(peer.request()[0], b"UNSUBSCRIBE");
    });
    let store = store(&server.address());
    let subscription = subscribe(&store, "key");
    subscription.begin();
    assert_eq!(listen(&*subscription, SOON), Woken::Told);
    subscription.begin();
    assert_eq!(listen(&*subscription, SOON), Woken::Told);
    drop(subscription);
    server.finish();
}

#[test]
fn a_refusal_is_remembered() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        assert_eq!(peer.request()[0], b"SUBSCRIBE");
        peer.send(b"-NOPERM this user may not\r\n");
    });
    let store = store(&server.address());
    let refused = |call: &Call| store.subscription(&key("key")).unwrap().listen(call).unwrap_err().cause;
    let host = Host::default();
    assert_eq!(refused(&host.call()), Cause::Answered("NOPERM this user may not".into()));
    server.finish();
    assert!(matches!(refused(&host.call()), Cause::Answered(_)), "no new connection");
    // And not for ever.
    let later = Later(SystemClock.now().plus(Duration::from_secs(61)));
    let call = Call { clock: &later, until: Moment::NEVER, ..host.call() };
    assert!(matches!(refused(&call), Cause::Unreachable(_)));
}

struct Later(Moment);

impl Clock for Later {
    fn now(&self) -> Moment {
        self.0
    }
}

#[test]
fn a_server_that_says_nothing_to_a_subscription_is_waited_for_once() {
    let (done, is_done) = mpsc::channel::<()>();
    let server = Scripted::serve(move |listener| {
        let mut peer = listener.accept();
        assert_eq!(peer.request()[0], b"SUBSCRIBE");
        let _ = is_done.recv_timeout(SOON);
    });
    let store = store(&server.address());
    let host = Host::default();
    let limits = Limits { command: ms(100), ..LIMITS };
    let start = Instant::now();
    for _ in 0..50 {
        assert!(store.subscription(&key("key")).unwrap().listen(&host.call_within(limits)).is_err());
    }
    assert!(start.elapsed() < ms(2_500), "{:?}", start.elapsed());
    drop(done);
    server.finish();
}

#[test]
fn an_answer_that_came_while_the_process_was_stopped_is_an_answer() {
    let server = Scripted::serve(|listener| confirm_and_stay(listener.accept()));
    let store = store(&server.address());
    let subscription = store.subscription(&key("key")).unwrap();
    // It is stopped for longer than an answer may take.
    let host = Host::that_once(|| thread::sleep(ms(300)));
    let limits = Limits { command: ms(100), ..LIMITS };
    subscription.listen(&host.call_within(limits)).unwrap();
    drop((subscription, store));
    server.finish();
}

#[test]
fn a_child_that_is_forked_while_it_subscribes_does_so_on_its_own_account() {
    let server = Rc::new(RedisServer::start());
    let store = server.store();
    // Nothing is answered for a while, so that there is something to fork in.
    server.query::<()>(&["CLIENT", "PAUSE", "300"]);
    let subscription = store.subscription(&key("key")).unwrap();
    let child = Rc::new(Cell::new(-1));
    let host = Host::that_once({
        let child = child.clone();
        // SAFETY: the child goes on below, and ends there.
        move || child.set(unsafe { libc::fork() })
    });
    let outcome = subscription.listen(&host.call());
    if child.get() == 0 {
        let was_the_parents = matches!(&outcome, Err(fault) if fault.cause == Cause::Forked);
        let hears = store.subscription(&key("key")).is_ok_and(|own| own.listen(&Host::default().call()).is_ok());
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!(was_the_parents && hears))) }
    }
    let mut status = 0;
    // SAFETY: `status` is valid for writing.
    unsafe { libc::waitpid(child.get(), &mut status, 0) };
    assert_eq!((outcome, status), (Ok(()), 0));
}

#[test]
fn a_connection_that_nobody_answers_on_is_replaced() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        confirm(&mut peer);
        // From here on it is as if what is sent did not arrive.
        confirm_and_stay(listener.accept());
    });
    let store = store(&server.address());
    let _first = subscribe(&store, "first");
    let second = store.subscription(&key("second")).unwrap();
    let limits = Limits { command: ms(100), ..LIMITS };
    assert!(second.listen(&Host::default().call_within(limits)).is_err());
    second.listen(&Host::default().call()).unwrap();
    drop((second, _first, store));
    server.finish();
}

#[test]
fn a_refusal_of_one_channel_is_none_of_another() {
    let server = RedisServer::start();
    server.query::<()>(&["ACL", "SETUSER", "some", "on", ">password", "~*", "resetchannels", "&a*", "+@all"]);
    let store = store(&format!("{}?user=some&password=password", server.address()));
    let listen = |subscription: &dyn Subscription| subscription.listen(&Host::default().call());
    let (allowed, refused) = (store.subscription(&key("a")).unwrap(), store.subscription(&key("b")).unwrap());
    listen(&*allowed).unwrap();
    assert!(matches!(listen(&*refused).unwrap_err().cause, Cause::Answered(_)));
    assert!(allowed.is_alive() && !refused.is_alive());
    listen(&*store.subscription(&key("a2")).unwrap()).unwrap();
    assert_eq!(connections(&server), 1);
}

#[test]
fn too_many_clients_is_no_refusal() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        peer.send(b"-ERR max number of clients reached\r\n");
        drop(peer);
        confirm_and_stay(listener.accept());
    });
    let store = store(&server.address());
    assert!(store.subscription(&key("key")).unwrap().listen(&Host::default().call()).is_err());
    drop((subscribe(&store, "key"), store));
    server.finish();
}

#[test]
fn what_is_no_message_ends_the_connection() {
    for nonsense in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"+OK\r\n", b":1\r\n", b"*2\r\n:1\r\n:2\r\n", b"$-1\r\n"]
    {
        let (listens, is_listening) = mpsc::channel();
        let server = Scripted::serve(move |listener| {
            let mut peer = listener.accept();
            confirm(&mut peer);
            is_listening.recv_timeout(SOON).unwrap();
            peer.send(nonsense);
            confirm_and_stay(listener.accept());
        });
        let store = store(&server.address());
        let subscription = subscribe(&store, "key");
        subscription.begin();
        listens.send(()).unwrap();
        assert_eq!(listen(&*subscription, SOON), Woken::Deaf, "{}", nonsense.escape_ascii());
        subscription.listen(&Host::default().call()).unwrap();
        drop((subscription, store));
        server.finish();
    }
}

#[test]
fn who_may_not_unsubscribe_closes_the_connection() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        confirm(&mut peer);
        assert_eq!(peer.request()[0], b"UNSUBSCRIBE");
        peer.send(b"-NOPERM this user may not\r\n");
        confirm_and_stay(listener.accept());
    });
    let store = store(&server.address());
    drop(subscribe(&store, "key"));
    // Its answer is read when the connection is to be used again, or is on its way still: then it is too late for this.
    thread::sleep(ms(100));
    drop((subscribe(&store, "key"), store));
    server.finish();
}

#[test]
fn a_server_that_never_stops_talking_keeps_nobody_from_leaving() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        let flood = message(&confirm(&mut peer), 999).repeat(1_000);
        let start = Instant::now();
        while start.elapsed() < SOON && std::io::Write::write_all(&mut peer.0, &flood).is_ok() {}
        assert!(start.elapsed() < SOON, "it was listened to until the end");
    });
    let store = store(&server.address());
    let subscription = subscribe(&store, "key");
    subscription.begin();
    let (host, start) = (Host::default(), Instant::now());
    assert_eq!(sleep(&*subscription, ms(500), &host), Woken::Untold);
    assert!(start.elapsed() < ms(3_000), "{:?}", start.elapsed());
    assert!(host.longest_silence(start) < ms(1_000));
    drop((subscription, store));
    server.finish();
}
