//! What nodes of a quorum can do that no real one can be made to do: answers that come late, in pieces, twice, or are none.
#![cfg(test)]

mod support;

use std::{
    sync::mpsc::{self, Receiver, Sender},
    time::{Duration, Instant},
};

use redis_lock::{
    lock::{
        options::{Limits, Terms},
        ports::{Cause, Fault, Freed, Renewal, Store, Vote},
    },
    redis::Quorum,
};
use support::{
    host::Host,
    key, ms,
    redis_server::server,
    scripted::{Listener, Peer, Scripted},
    token, ttl,
};

/// A node is silent for longer than this only where a test says so.
const LIMITS: Limits = Limits { connect: Duration::from_secs(2), command: Duration::from_secs(2) };
/// Where one is to be given up.
const SHORT: Limits = Limits { connect: ms(400), command: ms(200) };
/// What a busy machine may add.
const SLACK: Duration = ms(500);

const GRANTED: &[u8] = b"+OK\r\n";
const REFUSED: &[u8] = b"$-1\r\n";
const YES: &[u8] = b":1\r\n";
const NO: &[u8] = b":0\r\n";

fn quorum(nodes: &[&Scripted]) -> Quorum {
    Quorum::new(nodes.iter().map(|node| server(&node.address())).collect())
}

fn take(store: &Quorum, number: u64, limits: Limits) -> Vote {
    take_for(store, number, 60_000, limits)
}

fn take_for(store: &Quorum, number: u64, milliseconds: u64, limits: Limits) -> Vote {
    store.try_acquire(&key("key"), &token(number), ttl(milliseconds).into(), &Host::default().call_within(limits))
}

fn leave(store: &Quorum, number: u64, limits: Limits) -> Freed {
    store.leave(&key("key"), &token(number), None, &Host::default().call_within(limits))
}

fn is_granted(vote: &Vote) -> bool {
    matches!(vote, Vote::Granted(_))
}

fn reason(vote: Vote) -> String {
    match vote {
        Vote::Unknown(Fault { cause: Cause::NoQuorum(why), .. }) => why,
        other => panic!("{other:?}"),
    }
}

/// What a request is, and for whom: SET, the scripts by their first argument after the key.
fn is_set(request: &[Vec<u8>], number: u64) -> bool {
    request[0] == b"SET" && request[2] == token(number).as_bytes()
}

fn is_free(request: &[Vec<u8>], number: u64) -> bool {
    matches!(&request[0][..], b"EVAL" | b"EVALSHA") && request[4] == token(number).as_bytes()
}

/// One that grants, frees and refreshes whatever it is asked for, until its client goes.
fn willing() -> Scripted {
    Scripted::serve(|listener| serve(&mut listener.accept()))
}

fn serve(peer: &mut Peer) {
    while let Some(request) = peer.next_request() {
        peer.answer(if request[0] == b"SET" { GRANTED } else { YES });
    }
}

/// One that says no to all, and knows of no key to free.
fn unwilling() -> Scripted {
    Scripted::serve(|listener| {
        let mut peer = listener.accept();
        while let Some(request) = peer.next_request() {
            peer.answer(if request[0] == b"SET" { REFUSED } else { NO });
        }
    })
}

/// One that does as it is told, and says when it has.
fn told(
    script: impl FnOnce(&Listener, &Receiver<()>, &Sender<()>) + Send + 'static,
) -> (Scripted, Sender<()>, Receiver<()>) {
    let ((go, went), (done, is_done)) = (mpsc::channel(), mpsc::channel());
    (Scripted::serve(move |listener| script(listener, &went, &done)), go, is_done)
}

fn wait_for(signal: &Receiver<()>) {
    signal.recv_timeout(Scripted::PATIENCE).unwrap();
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Scripted::PATIENCE, "{what}");
        std::thread::sleep(ms(2));
    }
}

#[test]
fn what_comes_late_and_in_pieces_is_read_before_the_answer_to_the_next_question() {
    let (late, go, is_done) = told(|listener, go, done| {
        let mut peer = listener.accept();
        assert!(is_set(&peer.request(), 1));
        done.send(()).unwrap();
        assert!(is_free(&peer.request(), 1));
        wait_for(go);
        // A refusal of the first: taken for that of the second, it would leave that one without a majority.
        peer.send(b"$");
        done.send(()).unwrap();
        wait_for(go);
        peer.send_in_pieces([&b"-1\r"[..], b"\n:", b"0\r\n"]);
        assert!(is_set(&peer.request(), 2));
        peer.send_in_pieces([&b"+"[..], b"OK", b"\r\n"]);
        done.send(()).unwrap();
        serve(&mut peer);
    });
    let (fickle, willing) = (
        Scripted::serve(|listener| {
            let mut peer = listener.accept();
            for answer in [GRANTED, YES, REFUSED] {
                peer.request();
                peer.send(answer);
            }
            serve(&mut peer);
        }),
        willing(),
    );
    let store = quorum(&[&late, &fickle, &willing]);
    assert!(is_granted(&take(&store, 1, LIMITS)));
    wait_for(&is_done);
    assert!(matches!(leave(&store, 1, LIMITS), Freed::Freed));
    go.send(()).unwrap();
    wait_for(&is_done);
    go.send(()).unwrap();
    // The second node says no, so that it takes the late one's answer, which comes after two others.
    assert!(is_granted(&take(&store, 2, LIMITS)));
    wait_for(&is_done);
    assert!(matches!(leave(&store, 2, LIMITS), Freed::Freed));
    drop(store);
    [late, fickle, willing].into_iter().for_each(Scripted::finish);
}

#[test]
fn a_late_grant_of_a_try_in_vain_is_taken_back_on_the_same_connection() {
    let (late, go, is_done) = told(|listener, go, done| {
        let mut peer = listener.accept();
        assert!(is_set(&peer.request(), 1));
        wait_for(go);
        peer.send(GRANTED);
        assert!(is_free(&peer.request(), 1));
        peer.send(YES);
        done.send(()).unwrap();
        serve(&mut peer);
    });
    let (a, b) = (unwilling(), unwilling());
    let store = quorum(&[&late, &a, &b]);
    assert!(matches!(take(&store, 1, LIMITS), Vote::Refused(None)), "two of three say no");
    go.send(()).unwrap();
    wait_for(&is_done);
    drop(store);
    [late, a, b].into_iter().for_each(Scripted::finish);
}

#[test]
fn who_closes_between_question_and_answer_is_told_to_free_it_before_anything_else() {
    let (broken, _go, is_done) = told(|listener, _, done| {
        let mut peer = listener.accept();
        assert!(is_set(&peer.request(), 1));
        // It may have been carried out, or may yet be.
        drop(peer);
        let mut peer = listener.accept();
        assert_eq!(peer.request(), [b"PING"], "whether it is back");
        peer.send(b"+PONG\r\n");
        let request = peer.request();
        assert!(request[0] == b"EVAL" && is_free(&request, 1), "with its text: nobody waits for the answer");
        peer.send(YES);
        done.send(()).unwrap();
        while let Some(request) = peer.next_request() {
            peer.answer(match &request[0][..] {
                b"SET" if is_set(&request, 1) => REFUSED,
                b"SET" => GRANTED,
                _ => YES,
            });
        }
    });
    let (a, b) = (
        Scripted::serve(|listener| {
            let mut peer = listener.accept();
            while let Some(request) = peer.next_request() {
                let first = request[0] == b"SET" && is_set(&request, 1);
                peer.answer(if first {
                    REFUSED
                } else if request[0] == b"SET" {
                    GRANTED
                } else {
                    YES
                });
            }
        }),
        unwilling(),
    );
    let store = quorum(&[&broken, &a, &b]);
    assert!(matches!(take(&store, 1, LIMITS), Vote::Refused(None)));
    // As often as it takes until it is back.
    eventually("it is told to free it", || {
        assert!(matches!(take(&store, 1, LIMITS), Vote::Refused(None)));
        is_done.try_recv().is_ok()
    });
    assert!(matches!(take(&store, 1, LIMITS), Vote::Refused(None)));
    assert!(is_granted(&take(&store, 2, LIMITS)), "another token is");
    drop(store);
    [broken, a, b].into_iter().for_each(Scripted::finish);
}

#[test]
fn a_release_whose_connection_is_lost_is_repeated_and_its_token_not_granted_there_any_more() {
    let (broken, _go, is_done) = told(|listener, _, done| {
        let mut peer = listener.accept();
        assert!(is_set(&peer.request(), 1));
        peer.send(GRANTED);
        assert!(is_free(&peer.request(), 1));
        drop(peer);
        let mut peer = listener.accept();
        assert_eq!(peer.request(), [b"PING"]);
        peer.send(b"+PONG\r\n");
        assert!(is_free(&peer.request(), 1));
        peer.send(NO);
        done.send(()).unwrap();
        while let Some(request) = peer.next_request() {
            assert!(!is_set(&request, 1), "the first release may run late, and free this one");
            peer.answer(if request[0] == b"SET" { GRANTED } else { YES });
        }
    });
    let (a, b) = (willing(), unwilling());
    let store = quorum(&[&broken, &a, &b]);
    assert!(is_granted(&take(&store, 1, LIMITS)));
    let freed = leave(&store, 1, LIMITS);
    assert!(matches!(freed, Freed::Unknown(ref fault) if fault.may_have_run()), "{freed:?}");
    eventually("it is told again", || {
        let _ = take(&store, 2, LIMITS);
        is_done.try_recv().is_ok()
    });
    // It is not asked, so that this is one of two who have answered.
    assert!(matches!(take(&store, 1, LIMITS), Vote::Refused(None)));
    assert!(is_granted(&take(&store, 3, LIMITS)), "others are");
    drop(store);
    [broken, a, b].into_iter().for_each(Scripted::finish);
}

#[test]
fn one_that_is_silent_is_waited_for_once() {
    let silent = Scripted::serve(|listener| {
        let mut peers = Vec::new();
        // Later ones are only looked at by a thread.
        loop {
            let mut peer = listener.accept();
            let is_last = peer.request() == [b"PING"];
            peers.push(peer);
            if is_last {
                break;
            }
        }
        peers.into_iter().for_each(|mut peer| peer.expect_end_of_what_comes());
    });
    // So that each outcome would depend on the third.
    let (a, b) = (willing(), unwilling());
    let store = quorum(&[&silent, &a, &b]);
    let start = Instant::now();
    assert!(matches!(take(&store, 1, SHORT), Vote::Refused(None)), "a majority has answered");
    let first = start.elapsed();
    assert!(first >= SHORT.command && first < SHORT.connect + SHORT.command + SLACK, "{first:?}");
    let start = Instant::now();
    let mut tries = 0;
    while start.elapsed() < ms(300) {
        assert!(matches!(take(&store, 2, SHORT), Vote::Refused(None)));
        tries += 1;
    }
    assert!(tries > 20, "{tries}");
    drop(store);
    [silent, a, b].into_iter().for_each(Scripted::finish);
}

#[test]
fn silence_of_a_majority_ends_within_a_quarter_of_the_ttl() {
    let silent = || Scripted::serve(|listener| listener.accept().expect_end_of_what_comes());
    let nodes = [silent(), silent(), willing()];
    let store = quorum(&nodes.each_ref());
    let host = Host::default();
    let start = Instant::now();
    let vote = store.try_acquire(&key("key"), &token(1), ttl(800).into(), &host.call_within(LIMITS));
    let took = start.elapsed();
    assert!(took >= ms(200) && took < ms(400) + SLACK, "{took:?}");
    assert!(host.longest_silence(start) < ms(100) + SLACK);
    let why = reason(vote);
    assert_eq!(why.matches("nothing came within 0.2 s").count(), 2, "{why}");
    drop(store);
    nodes.into_iter().for_each(Scripted::finish);
}

#[test]
fn a_script_that_is_not_known_is_sent_with_its_text() {
    let forgetful = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        let mut texts = 0;
        while let Some(request) = peer.next_request() {
            match &request[0][..] {
                b"SET" => peer.answer(GRANTED),
                b"EVAL" => {
                    texts += 1;
                    peer.answer(YES);
                }
                _ => peer.answer(b"-NOSCRIPT No matching script. Please use EVAL.\r\n"),
            }
        }
        assert!(texts >= 3, "{texts}");
    });
    let (a, b) = (
        Scripted::serve(|listener| {
            let mut peer = listener.accept();
            while let Some(request) = peer.next_request() {
                peer.answer(if request[0] == b"SET" { GRANTED } else { YES });
            }
        }),
        unwilling(),
    );
    let store = quorum(&[&forgetful, &a, &b]);
    for number in 0..3 {
        assert!(is_granted(&take(&store, number, LIMITS)));
        let refreshed = store.refresh(&key("key"), &token(number), ttl(60_000), &Host::default().call_within(LIMITS));
        assert!(matches!(refreshed, Renewal::Renewed), "{refreshed:?}");
        assert!(matches!(leave(&store, number, LIMITS), Freed::Freed));
    }
    drop(store);
    [forgetful, a, b].into_iter().for_each(Scripted::finish);
}

#[test]
fn what_is_no_answer_is_believed_in_no_direction_and_the_connection_is_not_used_again() {
    let secret = String::from_utf8(token(1).as_bytes().to_vec()).unwrap();
    let repeated = format!("-ERR I do not know {secret}\r\n");
    for (garbage, why) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], ""),
        (b"$5\r\nhello\r\n", "what came is no answer to the request"),
        (b":7\r\n", "what came is no answer to the request"),
        (b"*0\r\n", "what came is no answer to the request"),
        (b"-ERR no\r\n", "ERR no"),
        (b"-MISCONF Redis is configured to save\r\n", "MISCONF"),
        (repeated.as_bytes(), "ERR I do not know ***"),
        (b"-ERR max number of clients reached\r\n", "max number of clients"),
        (b"-NOAUTH Authentication required.\r\n", "NOAUTH"),
    ] {
        let garbage = garbage.to_vec();
        let babbling = || {
            let garbage = garbage.clone();
            Scripted::serve(move |listener| {
                let mut peer = listener.accept();
                peer.request();
                peer.send(&garbage);
                peer.expect_end_of_what_comes();
            })
        };
        let nodes = [babbling(), babbling(), willing()];
        let store = quorum(&nodes.each_ref());
        let said = reason(take(&store, 1, LIMITS));
        assert!(said.contains(why) && !said.contains(&secret), "{said}");
        for node in &nodes[..2] {
            assert!(said.contains(&node.address()), "{said}");
        }
        drop(store);
        nodes.into_iter().for_each(Scripted::finish);
    }
}

#[test]
fn who_answers_more_than_it_was_asked_is_not_believed() {
    let eager = Scripted::serve(|listener| {
        let mut peer = listener.accept();
        assert!(is_set(&peer.request(), 1));
        // The second is not to be taken for the answer to the next question.
        peer.send(b"+OK\r\n+OK\r\n");
        assert_eq!(peer.next_request(), None);
    });
    let (a, b) = (willing(), unwilling());
    let store = quorum(&[&eager, &a, &b]);
    assert!(is_granted(&take(&store, 1, LIMITS)));
    let vote = take(&store, 2, LIMITS);
    assert!(matches!(vote, Vote::Refused(None)), "{vote:?}");
    drop(store);
    [eager, a, b].into_iter().for_each(Scripted::finish);
}

#[test]
fn one_that_is_loading_or_no_primary_is_left_alone_for_a_while() {
    for error in
        ["LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica."]
    {
        let line = format!("-{error}\r\n");
        let (unfit, go, is_done) = told(move |listener, go, done| {
            let mut connections = 0;
            while go.try_recv().is_err() {
                let Some(mut peer) = listener.accept_now() else { continue };
                connections += 1;
                while let Some(request) = peer.next_request() {
                    peer.answer(if request[0] == b"PING" { b"+PONG\r\n" } else { line.as_bytes() });
                }
            }
            assert!(connections < 12, "{connections} connections");
            done.send(()).unwrap();
        });
        let nodes = [willing(), willing()];
        let store = quorum(&[&unfit, &nodes[0], &nodes[1]]);
        let start = Instant::now();
        for number in 0.. {
            assert!(is_granted(&take(&store, number, LIMITS)));
            assert!(matches!(leave(&store, number, LIMITS), Freed::Freed));
            if start.elapsed() > ms(300) {
                break;
            }
        }
        drop(store);
        go.send(()).unwrap();
        wait_for(&is_done);
        unfit.finish();
        nodes.into_iter().for_each(Scripted::finish);

        // Where it is one of a majority that is unfit, that is said.
        let line = format!("-{error}\r\n");
        let unfit = || {
            let line = line.clone();
            Scripted::serve(move |listener| {
                let mut peer = listener.accept();
                peer.request();
                peer.send(line.as_bytes());
                peer.expect_end_of_what_comes();
            })
        };
        let nodes = [unfit(), unfit(), willing()];
        let store = quorum(&nodes.each_ref());
        let why = reason(take(&store, 1, LIMITS));
        assert_eq!(why.matches(error).count(), 2, "{why}");
        drop(store);
        nodes.into_iter().for_each(Scripted::finish);
    }
}

#[test]
fn the_greatest_fence_is_told_once_a_majority_remembers_it() {
    let fence = |number: u64| {
        move |listener: &Listener| {
            let mut peer = listener.accept();
            let request = peer.request();
            assert!(is_free(&request, 1) || request[0] == b"EVAL");
            peer.answer(format!(":{number}\r\n").as_bytes());
            // What is to be remembered: the greatest of the answers that settled it.
            let Some(request) = peer.next_request() else { return };
            let told: u64 = std::str::from_utf8(&request[4]).unwrap().parse().unwrap();
            assert!(told >= number.min(1_796_000_000_000_002), "{told}");
            peer.answer(format!(":{told}\r\n").as_bytes());
            serve(&mut peer);
        }
    };
    let numbers = [1_796_000_000_000_001, 1_796_000_000_000_003, 1_796_000_000_000_002];
    let nodes = numbers.map(|number| Scripted::serve(fence(number)));
    let store = quorum(&nodes.each_ref());
    let terms = Terms { fencing: true, ..ttl(60_000).into() };
    match store.try_acquire(&key("key"), &token(1), terms, &Host::default().call_within(LIMITS)) {
        Vote::Granted(Some(fence)) => assert!(fence.number() >= 1_796_000_000_000_002, "{fence:?}"),
        other => panic!("{other:?}"),
    }
    drop(store);
    nodes.into_iter().for_each(Scripted::finish);
}

#[test]
fn a_fence_that_no_majority_remembers_is_none() {
    let (refused, refuses) = (mpsc::channel(), |answer: &'static [u8], done: Sender<()>| {
        move |listener: &Listener| {
            let mut peer = listener.accept();
            peer.request();
            peer.send(b":1796000000000001\r\n");
            peer.request();
            peer.send(answer);
            assert!(is_free(&peer.request(), 1), "all is taken back");
            peer.send(YES);
            done.send(()).unwrap();
            serve(&mut peer);
        }
    });
    let (done, is_done) = refused;
    let nodes = [&b"-OOM command not allowed\r\n"[..], b"-OOM command not allowed\r\n", YES]
        .map(|answer| Scripted::serve(refuses(answer, done.clone())));
    let store = quorum(&nodes.each_ref());
    let terms = Terms { fencing: true, ..ttl(60_000).into() };
    let why = reason(store.try_acquire(&key("key"), &token(1), terms, &Host::default().call_within(LIMITS)));
    assert_eq!(why.matches("OOM").count(), 2, "{why}");
    (0..3).for_each(|_| wait_for(&is_done));
    drop(store);
    nodes.into_iter().for_each(Scripted::finish);
}
