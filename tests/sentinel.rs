//! Finding the primary: whom to believe, how long to wait for whom, and what is said where nobody leads there.
#![cfg(test)]

mod support;

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use redis_lock::{
    lock::{
        options::Limits,
        ports::{Cause, Fault, Store, Vote},
    },
    redis::Single,
};
use support::{
    LIMITS,
    host::Host,
    key, ms,
    redis_server::store,
    scripted::{Peer, Scripted},
    token, ttl,
};

const PRIMARY: &str = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
const REPLICA: &str = "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$9\r\nconnected\r\n:0\r\n";
const GRANTED: &str = "+OK\r\n";
const NOT_KNOWN: &str = "*-1\r\n";

/// One that has these connections, one after another, and gives these answers on each.
fn scripted<const N: usize>(connections: [&[&str]; N]) -> Scripted {
    let connections = connections.map(|answers| answers.iter().map(ToString::to_string).collect::<Vec<_>>());
    Scripted::serve(move |listener| {
        let mut peers = Vec::new();
        for answers in connections {
            let mut peer = listener.accept();
            for answer in answers {
                peer.request();
                peer.send(answer.as_bytes());
            }
            peers.push(peer);
        }
        peers.iter_mut().for_each(Peer::expect_end);
    })
}

/// What a Sentinel says of where the primary is.
fn at(primary: &Scripted) -> String {
    at_port(primary.port())
}

fn at_port(port: u16) -> String {
    format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.to_string().len())
}

/// A port on which nobody listens.
fn nobody() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn behind(sentinels: &[&Scripted], login: &str, query: &str) -> Single {
    let hosts: Vec<_> = sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
    store(&format!("redis+sentinel://{login}{}/main{query}", hosts.join(",")))
}

fn vote(store: &Single) -> Vote {
    vote_within(store, &Host::default(), LIMITS)
}

fn vote_within(store: &Single, host: &Host, limits: Limits) -> Vote {
    store.try_acquire(&key("key"), &token(1), ttl(1_000).into(), &host.call_within(limits))
}

fn fault(vote: Vote) -> Fault {
    match vote {
        Vote::Unknown(fault) => fault,
        other => panic!("{other:?}"),
    }
}

fn finish<const N: usize>(all: [Scripted; N]) {
    all.into_iter().for_each(Scripted::finish);
}

#[test]
fn who_names_a_replica_is_not_believed_and_who_knew_better_is_asked_first_from_then_on() {
    let primary = scripted([&[PRIMARY, "-READONLY not any more\r\n"], &[PRIMARY, GRANTED]]);
    let replica = scripted([&[REPLICA]]);
    let late = scripted([&[&at(&replica)]]);
    let knows = scripted([&[&at(&primary)], &[&at(&primary)]]);
    let store = behind(&[&late, &knows], "", "");
    assert!(matches!(vote(&store), Vote::Granted(_)));
    drop(store);
    finish([primary, replica, late, knows]);
}

#[test]
fn one_that_became_a_replica_leads_to_the_new_primary_within_a_request() {
    let new = scripted([&[PRIMARY, GRANTED]]);
    let old = scripted([&[PRIMARY, GRANTED, "-READONLY You can't write against a read only replica.\r\n"]]);
    let sentinel = scripted([&[&at(&old)], &[&at(&new)]]);
    let store = behind(&[&sentinel], "", "");
    assert!(matches!(vote(&store), Vote::Granted(_)));
    assert!(matches!(vote(&store), Vote::Granted(_)));
    drop(store);
    finish([new, old, sentinel]);
}

#[test]
fn after_an_error_that_may_pass_the_sentinels_are_asked_anew() {
    for error in ["LOADING Redis is loading the dataset in memory", "NOREPLICAS Not enough good replicas to write."] {
        let error_line = format!("-{error}\r\n");
        let new = scripted([&[PRIMARY, GRANTED]]);
        let old = scripted([&[PRIMARY, &error_line]]);
        let sentinel = scripted([&[&at(&old)], &[&at(&new)]]);
        let store = behind(&[&sentinel], "", "");
        assert_eq!(fault(vote(&store)).cause, Cause::NotNow(error.into()));
        assert!(matches!(vote(&store), Vote::Granted(_)));
        drop(store);
        finish([new, old, sentinel]);
    }
    // Any other error is the same server's to the next request.
    let primary = scripted([&[PRIMARY, "-OOM command not allowed\r\n", GRANTED]]);
    let sentinel = scripted([&[&at(&primary)]]);
    let store = behind(&[&sentinel], "", "");
    assert_eq!(fault(vote(&store)).cause, Cause::Answered("OOM command not allowed".into()));
    assert!(matches!(vote(&store), Vote::Granted(_)));
    drop(store);
    finish([primary, sentinel]);
}

#[test]
fn a_primary_that_cannot_be_reached_is_tried_once_for_all_that_name_it() {
    let port = nobody();
    let sentinels = [scripted([&[&at_port(port)]]), scripted([&[&at_port(port)]])];
    let ports = sentinels.each_ref().map(Scripted::port);
    let fault = fault(vote(&behind(&[&sentinels[0], &sentinels[1]], "", "")));
    assert_eq!(fault.server, format!("redis+sentinel://127.0.0.1:{},127.0.0.1:{}/main", ports[0], ports[1]));
    let why = format!(
        "no Sentinel leads to the primary: 127.0.0.1:{} names 127.0.0.1:{port}: connection refused; 127.0.0.1:{} names \
         127.0.0.1:{port}, too",
        ports[0], ports[1]
    );
    assert_eq!(fault.cause, Cause::Unreachable(why));
    finish(sentinels);
}

#[test]
fn what_may_pass_is_told_from_what_will_not() {
    let permanent = [
        (NOT_KNOWN, "it knows no primary of that name"),
        ("-NOAUTH Authentication required.\r\n", "NOAUTH Authentication required."),
        ("-NOPERM this user has no permissions\r\n", "NOPERM this user has no permissions"),
        ("-ERR unknown command 'SENTINEL', with args beginning with: 'x'\r\n", "ERR unknown command 'SENTINEL'"),
    ];
    let passing = [
        (GRANTED, "what came is no answer to the request"),
        ("*1\r\n$1\r\nh\r\n", "what came is no answer to the request"),
        ("*2\r\n$1\r\nh\r\n$5\r\n99999\r\n", "what came is no answer to the request"),
        ("HTTP/1.1 400 Bad Request\r\n", "what came is not Redis' protocol; is it a port for TLS?"),
        ("-ERR max number of clients reached\r\n", "ERR max number of clients reached"),
    ];
    for (answer, why) in permanent.into_iter().chain(passing) {
        let sentinel = scripted([&[answer]]);
        let cause = fault(vote(&behind(&[&sentinel], "", ""))).cause;
        let why = format!("no Sentinel leads to the primary: 127.0.0.1:{}: {why}", sentinel.port());
        let will_pass = passing.iter().any(|(passing, _)| *passing == answer);
        assert_eq!(cause, if will_pass { Cause::Unreachable(why) } else { Cause::TurnedAway(why) });
        sentinel.finish();
    }
    // One of whom there is hope is enough.
    let sentinels = [scripted([&[NOT_KNOWN]]), scripted([&[GRANTED]])];
    let cause = fault(vote(&behind(&[&sentinels[0], &sentinels[1]], "", ""))).cause;
    assert!(matches!(cause, Cause::Unreachable(_)), "{cause:?}");
    finish(sentinels);
}

#[test]
fn who_says_not_that_it_is_the_primary_is_not_taken_for_it() {
    for (answer, why, may_pass) in [
        (REPLICA, "that is a replica", true),
        ("*2\r\n$8\r\nsentinel\r\n*0\r\n", "what came is no answer to the request", true),
        (GRANTED, "what came is no answer to the request", true),
        ("-NOPERM no permissions\r\n", "it does not say its role: NOPERM no permissions", false),
        ("-LOADING not yet\r\n", "it does not say its role: LOADING not yet", true),
    ] {
        let server = scripted([&[answer]]);
        let sentinel = scripted([&[&at(&server)]]);
        let fault = fault(vote(&behind(&[&sentinel], "", "")));
        assert!(fault.to_string().ends_with(&format!(" names 127.0.0.1:{}: {why}", server.port())), "{fault}");
        assert_eq!((fault.may_pass(), fault.may_have_run()), (may_pass, false));
        finish([server, sentinel]);
    }
}

#[test]
fn no_secret_of_either_is_repeated() {
    let sentinel = scripted([&["-ERR I do not know AUTH user0 s3ntin3l\r\n"]]);
    let store = behind(&[&sentinel], "u:s3cret@", "?sentinel_user=user0&sentinel_password=s3ntin3l");
    let fault_of_sentinel = fault(vote(&store)).to_string();
    assert!(
        fault_of_sentinel.ends_with("authentication failed: ERR I do not know AUTH user0 ***"),
        "{fault_of_sentinel}"
    );
    sentinel.finish();

    let server = scripted([&["-ERR I do not know AUTH u s3cret\r\n"]]);
    let sentinel = scripted([&["+OK\r\n", &at(&server)]]);
    let store = behind(&[&sentinel], "u:s3cret@", "?sentinel_password=s3ntin3l");
    let fault = fault(vote(&store)).to_string();
    assert!(fault.ends_with("authentication failed: ERR I do not know AUTH u ***"), "{fault}");
    assert!(!fault.contains("s3ntin3l"));
    finish([server, sentinel]);
}

#[test]
fn silence_of_some_leaves_time_for_the_others_and_the_host_is_asked_meanwhile() {
    let limits = Limits { connect: ms(1_000), command: ms(1_000) };
    let silent = || Scripted::serve(|listener| listener.accept().expect_end_of_what_comes());
    // Two silent Sentinels: a fourth of the time for one, a third of the rest for the next.
    let primary = scripted([&[PRIMARY, GRANTED]]);
    let sentinels = [silent(), silent(), scripted([&[&at(&primary)]])];
    let store = behind(&sentinels.each_ref(), "", "");
    let (host, start) = (Host::default(), Instant::now());
    assert!(matches!(vote_within(&store, &host, limits), Vote::Granted(_)));
    let took = start.elapsed();
    assert!(took >= ms(495) && took < ms(900), "{took:?}");
    assert!(host.longest_silence(start) < ms(100) + SLACK, "{:?}", host.longest_silence(start));
    drop(store);
    finish(sentinels);
    primary.finish();

    // A silent primary: half of the time, as others may know better. All in all no longer than one connection may take.
    let primaries = [silent(), silent()];
    let sentinels = primaries.each_ref().map(|primary| scripted([&[&at(primary)]]));
    let (host, start) = (Host::default(), Instant::now());
    let fault = fault(vote_within(&behind(&sentinels.each_ref(), "", ""), &host, limits));
    let took = start.elapsed();
    assert!(took >= ms(990) && took < ms(1_000) + SLACK, "{took:?}");
    assert_eq!(fault.to_string().matches("no answer in time").count(), 2, "{fault}");
    finish(sentinels);
    finish(primaries);
}

/// What a busy machine may add.
const SLACK: Duration = ms(500);
