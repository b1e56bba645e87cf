//! Replies that come in pieces, together, unasked, and as garbage.
#![cfg(test)]

mod support;

use std::{net::Shutdown, sync::mpsc, thread};

use redis_lock::lock::{
    options::Limits,
    ports::{Cause, Freed, Store, Vote},
};
use support::{LIMITS, host::Host, key, ms, redis_server::store, request::Request, scripted::Scripted, token, ttl};

fn try_it(store: &dyn Store, host: &Host) -> Vote {
    store.try_acquire(&key("key"), &token(1), ttl(1_000).into(), &host.call())
}

/// A request, its reply, and what is to be made of it.
fn replies() -> Vec<(Request, Vec<u8>, String)> {
    let (key, token, ttl) = (key("key"), token(1), ttl(1_000));
    let bare = Request::Try(key.clone(), token.clone(), ttl.into());
    let ask = Request::Ask(key.clone(), token.clone(), ttl.into(), None);
    let leave = Request::Leave(key.clone(), token.clone(), None);
    let refresh = Request::Refresh(key.clone(), token, ttl);
    let occupant = Request::Occupant(key);
    let error = |answer: &str| {
        format!("{answer}(Unknown(Fault {{ server: NAME, cause: Answered(\"OOM command not allowed\") }}))")
    };
    let holder = "Holder { identity: None, is_ours: false, remaining: Some(1.5s) }";
    let busy = format!("Vote(Refused(Some(Busy {{ holder: {holder}, queued: None }})))");
    let queued = busy.replace("queued: None", "queued: Some(Queued { ticket: 7, ahead: 2, heard: Some(true) })");
    let long = [&b"*2\r\n$10000\r\n"[..], &b"\r\n+OK\r\n:1\n".repeat(1_000), b"\r\n:1500\r\n"].concat();
    let cases: Vec<(&Request, &[u8], String)> = vec![
        (&bare, b"+OK\r\n", "Vote(Granted(None))".into()),
        (&bare, b"$-1\r\n", "Vote(Refused(None))".into()),
        (&bare, b"-OOM command not allowed\r\n", error("Vote")),
        (&ask, b":1\r\n", "Vote(Granted(None))".into()),
        (&ask, b"*2\r\n$5\r\na\r\nbc\r\n:1500\r\n", busy.clone()),
        (&ask, b"*5\r\n$5\r\na\r\nbc\r\n:1500\r\n:7\r\n:2\r\n:1\r\n", queued),
        (&ask, b"*2\r\n$0\r\n\r\n:-1\r\n", busy.replace("Some(1.5s)", "None")),
        (&leave, b":1\r\n", "Freed(Freed)".into()),
        (&leave, b":0\r\n", "Freed(NotOurs)".into()),
        (&leave, b"-OOM command not allowed\r\n", error("Freed")),
        (&refresh, b":1\r\n", "Renewal(Renewed)".into()),
        (&refresh, b":0\r\n", "Renewal(Lost)".into()),
        (&occupant, b"$-1\r\n", "Occupant(Ok(None))".into()),
        (&occupant, &long, format!("Occupant(Ok(Some(Occupant {{ token: Token(<redacted>), holder: {holder} }})))")),
    ];
    cases.into_iter().map(|(request, reply, answer)| (request.clone(), reply.to_vec(), answer)).collect()
}

/// The ways to cut a reply: a byte at a time, and in two anywhere. Of a long one, a choice of both.
fn cuts(reply: &[u8]) -> Vec<Vec<&[u8]>> {
    let step = reply.len().div_ceil(40);
    let halves = (0..reply.len()).step_by(step).map(|at| vec![&reply[..at], &reply[at..]]);
    halves.chain([reply.chunks(step).collect()]).collect()
}

#[test]
fn a_reply_may_come_in_any_pieces() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        for (_, reply, _) in replies() {
            for pieces in cuts(&reply) {
                peer.request();
                peer.send_in_pieces(pieces);
            }
        }
    });
    let (store, host) = (store(&server.address()), Host::default());
    for (request, reply, expected) in replies() {
        for pieces in cuts(&reply) {
            let answer = format!("{:?}", request.send(&store, &host.call()));
            assert_eq!(answer, expected.replace("NAME", &format!("{:?}", server.address())), "{}", pieces[0].len());
        }
    }
    server.finish();
}

#[test]
fn replies_may_come_together() {
    const REPLIES: &[u8] = b"+OK\r\n+OK\r\n";
    let server = Scripted::serve(|listener| {
        for at in 0..REPLIES.len() {
            let mut peer = listener.accept();
            assert_eq!(peer.request(), [&b"AUTH"[..], b"pass"]);
            assert_eq!(peer.request(), [&b"SELECT"[..], b"3"]);
            peer.send_in_pieces([&REPLIES[..at], &REPLIES[at..]]);
            assert_eq!(peer.request()[0], b"SET");
            peer.send(b"$-1\r\n");
        }
    });
    let address = format!("redis://:pass@127.0.0.1:{}/3", server.port());
    for _ in 0..REPLIES.len() {
        let vote = try_it(&store(&address), &Host::default());
        assert!(matches!(vote, Vote::Refused(None)), "{vote:?}");
    }
    server.finish();
}

#[test]
fn a_reply_that_nobody_asked_for_answers_no_later_request() {
    for together in [true, false] {
        let (sent, is_sent) = mpsc::channel();
        let server = Scripted::serve(move |listener| {
            let mut first = listener.accept();
            first.request();
            first.send(if together { b"+OK\r\n+OK\r\n" } else { b"+OK\r\n" });
            if !together {
                // In a packet of its own, after the client has taken the first.
                thread::sleep(ms(50));
                first.send(b"+OK\r\n");
            }
            sent.send(()).unwrap();
            let mut second = listener.accept();
            second.request();
            second.send(b"$-1\r\n");
        });
        let (store, host) = (store(&server.address()), Host::default());
        assert!(matches!(try_it(&store, &host), Vote::Granted(_)));
        is_sent.recv().unwrap();
        thread::sleep(ms(20));
        let vote = try_it(&store, &host);
        assert!(matches!(vote, Vote::Refused(_)), "together: {together}: {vote:?}");
        server.finish();
    }
}

#[test]
fn garbage_is_no_answer_and_ends_the_connection() {
    let deep = b"*1\r\n".repeat(100_000);
    let garbage: Vec<Vec<u8>> = [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH\r\n",
        b"\x15\x03\x01\x00\x02\x02\x50",
        b"\x00\xff\xfe\r\n",
        b"\r\n",
        b"+OK\n\r\n",
        b"+PONG\r\n",
        b":2\r\n",
        b":99999999999999999999\r\n",
        b"$2\r\nno\r\n",
        b"$3\r\nabcdef\r\n",
        b"$abc\r\n",
        b"$9000000000000000000\r\n",
        b"*0\r\n",
        b"*2147483647\r\n",
        b"*9000000000000000000\r\n:1\r\n",
        &deep,
    ]
    .map(<[u8]>::to_vec)
    .into();
    let count = garbage.len();
    let server = Scripted::serve(move |listener| {
        for bytes in garbage {
            let mut peer = listener.accept();
            peer.request();
            peer.send(&bytes);
            peer.expect_end();
            let mut peer = listener.accept();
            peer.request();
            peer.send(b"+OK\r\n");
            peer.0.shutdown(Shutdown::Both).unwrap();
        }
    });
    let host = Host::default();
    for number in 0..count {
        let store = store(&server.address());
        // Some of it may be the beginning of a reply.
        let limits = Limits { command: ms(300), ..LIMITS };
        let vote = store.try_acquire(&key("key"), &token(1), ttl(1_000).into(), &host.call_within(limits));
        assert!(
            matches!(&vote, Vote::Unknown(fault) if matches!(fault.cause, Cause::NoAnswer(_))),
            "{number}: {vote:?}"
        );
        let vote = try_it(&store, &host);
        assert!(matches!(vote, Vote::Granted(_)), "{number}: {vote:?}");
    }
    server.finish();
}

#[test]
fn a_server_that_forgot_the_scripts_is_given_them_on_the_same_connection() {
    let server = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        let by_hash = peer.request();
        assert_eq!((&by_hash[0][..], by_hash[1].len()), (&b"EVALSHA"[..], 40));
        peer.send(b"-NOSCRIPT No matching script. Please use EVAL.\r\n");
        let by_text = peer.request();
        assert!(by_text[0] == b"EVAL" && by_text[1].starts_with(b"--") && by_text[2..] == by_hash[2..]);
        peer.send(b":1\r\n");
        assert_eq!(peer.request(), by_hash);
        peer.send(b":0\r\n");
    });
    let (store, host) = (store(&server.address()), Host::default());
    assert!(matches!(store.leave(&key("key"), &token(1), None, &host.call()), Freed::Freed));
    assert!(matches!(store.leave(&key("key"), &token(1), None, &host.call()), Freed::NotOurs));
    server.finish();
}
