//! Connecting: in bounded time, with the host asked meanwhile, and with errors that say what is wrong and hold no
//! password.
#![cfg(test)]

mod support;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    time::{Duration, Instant},
};

use redis_lock::lock::{
    options::Limits,
    ports::{Cause, Fault, Store, Vote},
};
use socket2::{SockAddr, Socket, Type};
use support::{
    LIMITS,
    host::Host,
    key, ms,
    redis_server::{RedisServer, store},
    scripted::Scripted,
    token, ttl,
};

const SECOND: Limits = Limits { connect: ms(1_000), command: LIMITS.command };

fn vote(address: &str, host: &Host, limits: Limits) -> Vote {
    store(address).try_acquire(&key("key"), &token(1), ttl(1_000).into(), &host.call_within(limits))
}

/// What is said where the request was not sent.
fn unreachable(vote: Vote) -> String {
    match vote {
        Vote::Unknown(fault @ Fault { cause: Cause::Unreachable(_) | Cause::TurnedAway(_), .. }) => fault.to_string(),
        other => panic!("{other:?}"),
    }
}

/// A connection to `address` fails at the end of a second, in which the host was asked at least every 100 ms.
fn fails_after_a_second(address: &str) -> String {
    let host = Host::default();
    let start = Instant::now();
    let error = unreachable(vote(address, &host, SECOND));
    let took = start.elapsed();
    assert!(took >= SECOND.connect && took < SECOND.connect * 4, "{took:?}");
    assert!(host.pumps.borrow().len() >= 10, "{} times in {took:?}", host.pumps.borrow().len());
    error
}

/// A listener that has no room for one connection more, and the connections that fill it.
fn full(address: &SockAddr) -> (Socket, Vec<Socket>) {
    let listener = Socket::new(address.domain(), Type::STREAM, None).unwrap();
    listener.bind(address).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let fillers = (0..4)
        .map(|_| {
            let filler = Socket::new(address.domain(), Type::STREAM, None).unwrap();
            filler.set_nonblocking(true).unwrap();
            // Under way, made, or refused for want of room: all of it is what we want.
            let _ = filler.connect(&address);
            filler
        })
        .collect();
    (listener, fillers)
}

#[test]
fn a_server_that_swallows_connections() {
    let (listener, _fillers) = full(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into());
    let address = format!("redis://{}", listener.local_addr().unwrap().as_socket().unwrap());
    assert_eq!(fails_after_a_second(&address), format!("cannot connect to {address}: nothing came within 1 s"));
}

#[test]
fn a_unix_socket_whose_backlog_is_full() {
    let path = std::env::temp_dir().join(format!("redis_lock-test-full-{}", std::process::id()));
    let (_listener, _fillers) = full(&SockAddr::unix(&path).unwrap());
    let address = format!("unix://{}", path.display());
    let error = std::panic::catch_unwind(|| fails_after_a_second(&address));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(error.unwrap(), format!("cannot connect to {address}: nothing came within 1 s"));
}

#[test]
fn a_stop_ends_what_has_sent_nothing_yet() {
    let (listener, _fillers) = full(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into());
    let address = format!("redis://{}", listener.local_addr().unwrap().as_socket().unwrap());
    let start = Instant::now();
    let error = unreachable(vote(&address, &Host::that_stops(), LIMITS));
    assert_eq!(error, format!("cannot connect to {address}: interrupted before anything was sent"));
    assert!(start.elapsed() < LIMITS.connect / 2, "{:?}", start.elapsed());
}

#[test]
fn a_server_that_says_nothing_to_our_introduction() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        peer.request();
        // Just half of the answers.
        peer.send(b"+OK\r\n");
        peer.request();
        peer.expect_end();
    });
    let address = format!("redis://user:secret@127.0.0.1:{}/3", server.port());
    let error = fails_after_a_second(&address);
    assert_eq!(error, format!("cannot connect to redis://127.0.0.1:{}/3: nothing came within 1 s", server.port()));
    server.finish();
}

#[test]
#[cfg(feature = "tls")]
fn a_server_that_says_nothing_to_a_tls_greeting() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        std::io::Read::read_to_end(&mut peer.0, &mut Vec::new()).unwrap();
    });
    // An authority of our own: whether the system has any is its affair.
    let authority = std::env::temp_dir().join(format!("redis_lock_authority.{}.pem", std::process::id()));
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            "/CN=test",
        ])
        .args(["-keyout", "/dev/null", "-out"])
        .arg(&authority)
        .output()
        .expect("openssl is needed (Debian's package openssl)");
    assert!(made.status.success(), "{made:?}");
    let error = fails_after_a_second(&format!("rediss://127.0.0.1:{}?cafile={}", server.port(), authority.display()));
    std::fs::remove_file(authority).unwrap();
    assert!(error.ends_with(": nothing came within 1 s"), "{error}");
    server.finish();
}

#[test]
fn nobody_listens() {
    let unused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let address = format!("redis://{unused}");
    let error = unreachable(vote(&address, &Host::default(), LIMITS));
    assert_eq!(error, format!("cannot connect to {address}: connection refused"));

    assert!(!Path::new("/nonexistent").exists());
    let error = unreachable(vote("unix:///nonexistent/socket", &Host::default(), LIMITS));
    assert_eq!(error, "cannot connect to unix:///nonexistent/socket: no such file or directory");
}

#[test]
fn a_name_is_resolved() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        peer.request();
        peer.send(b"+OK\r\n");
    });
    let vote = vote(&format!("redis://localhost:{}", server.port()), &Host::default(), LIMITS);
    assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
    server.finish();
}

#[test]
fn a_name_that_does_not_exist() {
    let limits = Limits { connect: ms(400), ..LIMITS };
    let start = Instant::now();
    let error = unreachable(vote("redis://nobody.invalid", &Host::default(), limits));
    // A resolver that says no at once, or none that answers in time.
    let expected = "cannot connect to redis://nobody.invalid:6379: the name nobody.invalid ";
    let reason = error.strip_prefix(expected).unwrap_or_else(|| panic!("{error}"));
    assert!(reason.starts_with("cannot be resolved: ") || reason == "was not resolved within 0.4 s", "{error}");
    assert!(start.elapsed() < limits.connect + Duration::from_secs(3), "{:?}", start.elapsed());
}

#[test]
fn what_the_server_has_against_us_is_said_without_a_password() {
    let server = RedisServer::start();
    server.query::<()>(&["ACL", "SETUSER", "alice", "on", ">alic3", "~*", "+@all"]);
    server.query::<()>(&["CONFIG", "SET", "requirepass", "s3cret"]);
    let socket = server.address();
    let errors = [
        ("", "NOAUTH Authentication required."),
        ("?password=wr0ng", "authentication failed: WRONGPASS invalid username-password pair or user is disabled."),
        (
            "?user=alice&password=s3cret",
            "authentication failed: WRONGPASS invalid username-password pair or user is disabled.",
        ),
        ("?user=alice&password=alic3&db=16", "the database cannot be selected: ERR DB index is out of range"),
    ];
    for (query, expected) in errors {
        let error = unreachable(vote(&format!("{socket}{query}"), &Host::default(), LIMITS));
        let (server, why) = error.strip_prefix("cannot connect to ").unwrap().split_once(": ").unwrap();
        assert_eq!(why, expected);
        assert_eq!(server, if query.ends_with("db=16") { format!("{socket}?db=16") } else { socket.clone() });
        assert!(!["s3cret", "wr0ng", "alic3", "alice"].iter().any(|secret| error.contains(secret)), "{error}");
    }
    for query in ["?password=s3cret", "?user=alice&password=alic3&db=15"] {
        let vote = vote(&format!("{socket}{query}"), &Host::default(), LIMITS);
        assert!(matches!(vote, Vote::Granted(_)), "{query}: {vote:?}");
    }
}

#[test]
fn an_empty_password_hides_nothing() {
    let error = unreachable(vote("unix:///nonexistent/socket?password=", &Host::default(), LIMITS));
    assert_eq!(error, "cannot connect to unix:///nonexistent/socket: no such file or directory");
}

#[test]
fn what_the_server_says_unasked_is_no_answer_to_what_was_sent() {
    const UNASKED: [&str; 2] = [
        "ERR max number of clients reached",
        "DENIED Redis is running in protected mode because protected mode is on.",
    ];
    let server = Scripted::serve(|listener| {
        for words in UNASKED {
            for requests in 0..3 {
                let mut peer = listener.accept();
                peer.send(format!("-{words}\r\n").as_bytes());
                for _ in 0..requests.max(1) {
                    peer.request();
                }
            }
        }
    });
    let (port, host) = (server.port(), Host::default());
    for words in UNASKED {
        for (credentials, database) in [("", ""), (":s3cret@", ""), (":s3cret@", "/3")] {
            let error = unreachable(vote(&format!("redis://{credentials}127.0.0.1:{port}{database}"), &host, LIMITS));
            assert_eq!(error, format!("cannot connect to redis://127.0.0.1:{port}{database}: {words}"));
        }
    }
    server.finish();
}

#[test]
fn a_server_that_repeats_the_request_in_its_error_is_not_quoted() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        peer.request();
        peer.send(b"-ERR unknown command `AUTH`, with args beginning with: `s3cret`, \r\n");
        let mut peer = listener.accept();
        peer.request();
        peer.send(b"-ERR unknown command 'SET', with args beginning with: 'key' '000001:host:1' \r\n");
    });
    let error = unreachable(vote(&format!("redis://:s3cret@127.0.0.1:{}", server.port()), &Host::default(), LIMITS));
    assert!(error.ends_with(": authentication failed: ERR unknown command `AUTH`"), "{error}");
    let Vote::Unknown(fault) = vote(&server.address(), &Host::default(), LIMITS) else { panic!("no error") };
    assert_eq!(
        fault.cause,
        Cause::Answered("ERR unknown command 'SET' (if it is a Sentinel, the address is redis+sentinel://…)".into())
    );
    server.finish();
}

#[test]
fn a_proxy_that_repeats_the_request_in_its_own_words_is_not_quoted_either() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        peer.request();
        peer.send(b"-ERR I do not know AUTH s3cret\r\n");
        let mut peer = listener.accept();
        peer.request();
        peer.send(
            format!("-ERR I do not know SET key {}\r\n", String::from_utf8_lossy(token(1).as_bytes())).as_bytes(),
        );
    });
    let host = Host::default();
    let error = unreachable(vote(&format!("redis://:s3cret@127.0.0.1:{}", server.port()), &host, LIMITS));
    assert!(error.ends_with("ERR I do not know AUTH ***"), "{error}");
    let Vote::Unknown(fault) = vote(&server.address(), &host, LIMITS) else { panic!("neither granted nor refused") };
    assert!(fault.to_string().ends_with("ERR I do not know SET key ***"), "{fault}");
    server.finish();
}
