//! Whom a cluster's store asks, and what, where nodes say that it is for others to answer.
#![cfg(test)]

mod support;

use std::net::TcpListener;

use redis_lock::{
    lock::{
        options::Terms,
        ports::{Cause, Fault, Freed, Renewal, Store, Vote},
        queue::Place,
        slot,
    },
    redis::{Cluster, servers::Servers},
};
use support::{
    host::Host,
    key, ms,
    scripted::{Peer, Scripted},
    token, ttl,
};

const GRANTED: &str = "+OK\r\n";
const APART: &str = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
const SET: &str = "SET key ";
const KEY_AND_QUEUE: &str = "EVALSHA sha 2 key key";
const KEY_ALONE: &str = "EVALSHA sha 1 key";
/// Before it is connected to again.
const CLOSED: &str = "";

/// Requests as they begin, and their answers, on one connection after another.
type Talk = Vec<(&'static str, String)>;

fn listeners<const N: usize>() -> [TcpListener; N] {
    [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap())
}

fn port(listener: &TcpListener) -> u16 {
    listener.local_addr().unwrap().port()
}

fn node(listener: TcpListener, talk: Talk) -> Scripted {
    Scripted::serve_at(listener, move |listener| {
        let mut peers = vec![listener.accept()];
        for (asked, answer) in talk {
            if asked == CLOSED {
                peers.push(listener.accept());
                continue;
            }
            let peer = peers.last_mut().unwrap();
            let words: Vec<_> = peer.request().iter().map(|word| plain(word)).collect();
            assert!(words.join(" ").starts_with(asked), "{words:?}, and not {asked}");
            peer.send(answer.as_bytes());
        }
        peers.iter_mut().for_each(Peer::expect_end);
    })
}

/// Scripts are all the same here.
fn plain(word: &[u8]) -> String {
    match word.len() {
        40 => "sha".into(),
        200.. => "text".into(),
        _ => word.escape_ascii().to_string(),
    }
}

/// That the node at this port serves everything.
fn slots(name: &str, port: u16) -> (&'static str, String) {
    let answer = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n${}\r\n{name}\r\n:{port}\r\n$1\r\na\r\n", name.len());
    ("CLUSTER SLOTS", answer)
}

fn sent_to(kind: &str, name: &str, port: u16) -> String {
    format!("-{kind} {} {name}:{port}\r\n", slot::of(b"key"))
}

fn answered(request: &'static str, answer: &str) -> (&'static str, String) {
    (request, answer.into())
}

fn cluster(port: u16) -> Cluster {
    match Servers::parse(&format!("redis+cluster://127.0.0.1:{port}")) {
        Ok(Servers::Cluster(seeds)) => Cluster::new(*seeds),
        other => panic!("{other:?}"),
    }
}

fn vote(cluster: &Cluster) -> Vote {
    cluster.try_acquire(&key("key"), &token(1), ttl(1_000).into(), &Host::default().call())
}

fn ask(cluster: &Cluster, fencing: bool) -> Vote {
    let place = Place { ear: "0123456789abcdef".into(), wait: 1, is_told: true, ttl: ttl(1_000), ticket: Some(7) };
    let terms = Terms { fencing, ..ttl(1_000).into() };
    cluster.ask(&key("key"), &token(1), terms, Some(&place), &Host::default().call())
}

fn finish<const N: usize>(cluster: Cluster, nodes: [Scripted; N]) {
    drop(cluster);
    nodes.into_iter().for_each(Scripted::finish);
}

#[test]
fn one_that_does_not_know_its_name_is_where_it_was_asked() {
    let [seed, first, second] = listeners();
    let [at_first, at_second] = [port(&first), port(&second)];
    let cluster = cluster(port(&seed));
    let nodes = [
        node(seed, vec![slots("", at_first)]),
        node(first, vec![(SET, sent_to("MOVED", "", at_second))]),
        // It is remembered.
        node(second, vec![answered(SET, GRANTED), answered(SET, "$-1\r\n")]),
    ];
    assert!(matches!(vote(&cluster), Vote::Granted(None)));
    assert!(matches!(vote(&cluster), Vote::Refused(None)));
    finish(cluster, nodes);
}

#[test]
fn one_that_is_to_be_asked_this_time_is_told_so_and_not_remembered() {
    let [source, target] = listeners();
    let ask = sent_to("ASK", "127.0.0.1", port(&target));
    let cluster = cluster(port(&source));
    let at_source = port(&source);
    let nodes = [
        node(
            source,
            vec![slots("127.0.0.1", at_source), (SET, ask.clone()), (KEY_ALONE, ask), answered(SET, "$-1\r\n")],
        ),
        node(
            target,
            vec![
                answered("ASKING", GRANTED),
                answered(SET, GRANTED),
                answered("ASKING", GRANTED),
                answered(KEY_ALONE, "-NOSCRIPT No matching script.\r\n"),
                answered("ASKING", GRANTED),
                answered("EVAL text 1 key ", ":1\r\n"),
            ],
        ),
    ];
    assert!(matches!(vote(&cluster), Vote::Granted(None)));
    let renewal = cluster.refresh(&key("key"), &token(1), ttl(1_000), &Host::default().call());
    assert!(matches!(renewal, Renewal::Renewed), "{renewal:?}");
    assert!(matches!(vote(&cluster), Vote::Refused(None)));
    finish(cluster, nodes);
}

#[test]
fn a_key_whose_queue_is_elsewhere_goes_alone() {
    let [source, target] = listeners();
    let (at_source, sent) = (port(&source), sent_to("ASK", "127.0.0.1", port(&target)));
    let cluster = cluster(at_source);
    let nodes = [
        node(
            source,
            vec![
                slots("127.0.0.1", at_source),
                // It is not followed: the queue may not have moved.
                (KEY_AND_QUEUE, sent.clone()),
                (KEY_ALONE, sent.clone()),
                // Who has the key leaves the queue.
                answered("ZREM key{", ":1\r\n"),
                answered(KEY_AND_QUEUE, APART),
                answered(KEY_ALONE, "*2\r\n$5\r\nother\r\n:900\r\n"),
                answered(KEY_AND_QUEUE, APART),
                answered(KEY_ALONE, ":1\r\n"),
            ],
        ),
        node(target, vec![answered("ASKING", GRANTED), answered(KEY_ALONE, ":1\r\n")]),
    ];
    assert!(matches!(ask(&cluster, false), Vote::Granted(None)));
    let Vote::Refused(Some(busy)) = ask(&cluster, false) else { panic!("it is busy") };
    assert_eq!((busy.holder.remaining, busy.queued), (Some(ms(900)), None));
    let freed = cluster.leave(&key("key"), &token(1), None, &Host::default().call());
    assert!(matches!(freed, Freed::Freed), "{freed:?}");
    finish(cluster, nodes);
}

#[test]
fn a_fence_is_not_to_be_had_where_its_key_is_apart() {
    let [source] = listeners();
    let at_source = port(&source);
    let cluster = cluster(at_source);
    let nodes = [node(
        source,
        vec![
            slots("127.0.0.1", at_source),
            answered("EVALSHA sha 3 key key", APART),
            answered(KEY_ALONE, "*2\r\n$5\r\nother\r\n:900\r\n"),
            answered("EVALSHA sha 3 key key", APART),
            answered(KEY_ALONE, "$-1\r\n"),
        ],
    )];
    assert!(matches!(ask(&cluster, true), Vote::Refused(Some(_))), "somebody else's");
    match ask(&cluster, true) {
        Vote::Unknown(Fault { cause: Cause::NotNow(text), .. }) => assert!(text.starts_with("TRYAGAIN"), "{text}"),
        other => panic!("{other:?}"),
    }
    finish(cluster, nodes);
}

#[test]
fn nodes_that_name_each_other_are_not_followed_for_ever() {
    let [one, other] = listeners();
    let [at_one, at_other] = [port(&one), port(&other)];
    let cluster = cluster(at_one);
    let [to_one, to_other] =
        [(SET, sent_to("MOVED", "127.0.0.1", at_one)), (SET, sent_to("MOVED", "127.0.0.1", at_other))];
    let nodes =
        [node(one, [vec![slots("127.0.0.1", at_one)], vec![to_other; 3]].concat()), node(other, vec![to_one; 3])];
    match vote(&cluster) {
        Vote::Unknown(fault @ Fault { cause: Cause::NotNow(_), .. }) => {
            assert_eq!(fault.server, format!("redis://127.0.0.1:{at_other}"));
        }
        other => panic!("{other:?}"),
    }
    finish(cluster, nodes);
}

#[test]
fn after_a_failure_the_others_are_asked_who_serves_what() {
    let [first, second] = listeners();
    let [at_first, at_second] = [port(&first), port(&second)];
    let cluster = cluster(at_first);
    let down = "-CLUSTERDOWN The cluster is down\r\n";
    let nodes = [
        node(
            first,
            vec![
                slots("127.0.0.1", at_second),
                answered(CLOSED, ""),
                slots("127.0.0.1", at_first),
                answered(SET, GRANTED),
            ],
        ),
        // The one that failed is asked last.
        node(second, vec![answered(SET, down)]),
    ];
    assert!(matches!(vote(&cluster), Vote::Unknown(Fault { cause: Cause::NotNow(_), .. })));
    assert!(matches!(vote(&cluster), Vote::Granted(None)));
    finish(cluster, nodes);
}
