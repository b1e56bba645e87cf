//! The store in memory and the store in Redis give the same answers to the same requests, so that what is proven of
//! the one holds for the other.
#![cfg(test)]

mod queue;
#[path = "../support/mod.rs"]
mod support;

use std::{
    thread,
    time::{Duration, Instant},
};

use redis_lock::{
    lock::{
        keys::Key,
        options::Terms,
        ports::{Busy, Cause, Freed, Renewal, Store, Vote},
        token::{Holder, Token},
        ttl::Ttl,
    },
    memory::Memory,
    redis::Single,
};
use support::{
    Random,
    host::Host,
    key, ms,
    redis_server::RedisServer,
    request::{Answer, Request},
    token, ttl,
};

/// Of two equal answers, one is a moment older. The long ttls are further apart, so that they cannot be mistaken.
const TOLERANCE: Duration = ms(250_000);

fn long(random: &mut Random) -> Ttl {
    ttl(random.one_of(&[1_000_000, 2_000_000, 4_000_000]))
}

/// Binary, and of one test alone: the store in memory belongs to the whole process.
fn keys(name: &str) -> [Key; 3] {
    [&b"plain"[..], b" \r\n$1", b"\0\xff{x}"].map(|end| Key::new(name.as_bytes(), end).unwrap())
}

/// One that names its holder, one that hides it, one of another library, and one that has no byte at all.
fn tokens() -> [Token; 4] {
    let hidden = format!("{:032x}:", 7);
    [token(1), Token::from_bytes(hidden.as_bytes()), Token::from_bytes(b"\xff foreign\r\n"), Token::from_bytes(b"")]
}

fn any_request(random: &mut Random, keys: &[Key], ttl: impl Fn(&mut Random) -> Ttl) -> Request {
    let key = keys[random.below(keys.len() as u64) as usize].clone();
    let token = tokens()[random.below(4) as usize].clone();
    let any_terms = |random: &mut Random| Terms { fencing: random.below(2) == 0, ..ttl(random).into() };
    match random.below(7) {
        0 | 1 => Request::Try(key, token, any_terms(random)),
        2 | 3 => Request::Ask(key, token, any_terms(random), None),
        4 => Request::Leave(key, token, None),
        5 => Request::Refresh(key, token, ttl(random)),
        _ => Request::Occupant(key),
    }
}

fn is_same_holder(a: &Holder, b: &Holder) -> bool {
    let is_as_long = match (a.remaining, b.remaining) {
        (Some(a), Some(b)) => a.abs_diff(b) < TOLERANCE,
        (a, b) => a == b,
    };
    a.identity == b.identity && a.is_ours == b.is_ours && is_as_long
}

fn is_same(request: &Request, a: &Answer, b: &Answer) -> bool {
    match (a, b) {
        (Answer::Vote(Vote::Granted(a)), Answer::Vote(Vote::Granted(b))) => a.is_some() == b.is_some(),
        (Answer::Freed(Freed::Freed), Answer::Freed(Freed::Freed))
        | (Answer::Freed(Freed::NotOurs), Answer::Freed(Freed::NotOurs))
        | (Answer::Renewal(Renewal::Renewed), Answer::Renewal(Renewal::Renewed))
        | (Answer::Renewal(Renewal::Lost), Answer::Renewal(Renewal::Lost))
        | (Answer::Occupant(Ok(None)), Answer::Occupant(Ok(None))) => true,
        (Answer::Vote(Vote::Refused(Some(a))), Answer::Vote(Vote::Refused(Some(b)))) => {
            a.queued == b.queued && is_same_holder(&a.holder, &b.holder)
        }
        // The bare `SET` does not tell.
        (Answer::Vote(Vote::Refused(_)), Answer::Vote(Vote::Refused(None))) => matches!(request, Request::Try(..)),
        (Answer::Occupant(Ok(Some(a))), Answer::Occupant(Ok(Some(b)))) => {
            a.token == b.token && is_same_holder(&a.holder, &b.holder)
        }
        _ => false,
    }
}

/// Both stores, and what was asked of them.
struct Pair {
    redis: Single,
    host: Host,
    trace: Vec<Request>,
}

impl Pair {
    fn new(server: &RedisServer) -> Self {
        Self { redis: server.store(), host: Host::default(), trace: Vec::new() }
    }

    /// The error is what differs.
    fn ask(&mut self, request: Request) -> Result<(), String> {
        let memory = request.send(&Memory, &self.host.call());
        let redis = request.send(&self.redis, &self.host.call());
        self.trace.push(request);
        let request = self.trace.last().unwrap();
        if is_same(request, &memory, &redis) {
            return Ok(());
        }
        Err(format!("{:#?}\nmemory: {memory:?}\nredis: {redis:?}", self.trace))
    }

    /// Somebody deletes the key, which is what an expiry looks like.
    fn delete(&mut self, server: &RedisServer, key: &Key) {
        server.query::<()>(&[b"DEL", key.as_bytes()]);
        if let Ok(Some(occupant)) = Memory.occupant(key, &self.host.call()) {
            Memory.leave(key, &occupant.token, None, &self.host.call());
        }
        self.trace.clear();
    }
}

#[test]
fn random_requests_have_the_same_answers() {
    let server = RedisServer::start();
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let mut pair = Pair::new(&server);
        let keys = keys(&format!("random-{seed}"));
        for _ in 0..80 {
            match random.below(20) {
                0 => pair.delete(&server, &keys[random.below(3) as usize]),
                // Scripts may be forgotten between any two requests.
                1 => server.query(&["SCRIPT", "FLUSH"]),
                _ => {
                    let request = any_request(&mut random, &keys, long);
                    pair.ask(request).unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
                }
            }
        }
    }
}

#[test]
fn what_expires_is_free_in_both() {
    const SHORT: u64 = 900;
    const QUICK: Duration = ms(SHORT / 2);
    let server = RedisServer::start();
    let ttl = |random: &mut Random| if random.below(3) == 0 { long(random) } else { ttl(SHORT) };
    // A round in which the machine was too slow to know what had expired is no test, and begins anew.
    let mut rounds = 0;
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut pair = Pair::new(&server);
        let keys: Vec<_> = (0..10).flat_map(|index| keys(&format!("expiry-{seed}-{index}"))).collect();
        let quickly = (0..3).all(|round| {
            if round > 0 {
                thread::sleep(ms(SHORT + 100));
            }
            let start = Instant::now();
            let mut answers = (0..150).map(|_| pair.ask(any_request(&mut random, &keys, ttl)));
            let difference = answers.find_map(Result::err);
            if start.elapsed() > QUICK {
                return false;
            }
            assert!(difference.is_none(), "seed {seed}: {}", difference.unwrap());
            true
        });
        rounds += u32::from(quickly);
        if rounds == 2 {
            return;
        }
    }
    panic!("this machine is too slow to tell when a ttl ends");
}

#[test]
fn a_key_that_is_no_lock_is_busy_and_never_touched() {
    let server = RedisServer::start();
    let store = server.store();
    let host = Host::default();
    let creators: [&[&str]; 5] = [
        &["RPUSH", "key", "a"],
        &["HSET", "key", "a", "b"],
        &["SADD", "key", "a"],
        &["ZADD", "key", "1", "a"],
        &["XADD", "key", "*", "a", "b"],
    ];
    let key = key("key");
    for create in creators {
        server.query::<redis::Value>(create);
        let before: Vec<u8> = server.query(&["DUMP", "key"]);
        for (expire, remaining) in [(&["PERSIST", "key"][..], None), (&["PEXPIRE", "key", "900000"], Some(ms(900_000)))]
        {
            server.query::<()>(expire);
            let vote = store.try_acquire(&key, &token(1), ttl(1_000).into(), &host.call());
            assert!(matches!(vote, Vote::Refused(None)), "{vote:?}");
            let Vote::Refused(Some(busy)) = store.ask(&key, &token(1), ttl(1_000).into(), None, &host.call()) else {
                panic!()
            };
            assert!(is_same_holder(&busy.holder, &Holder { remaining, ..Holder::default() }), "{busy:?}");
            let renewal = store.refresh(&key, &token(1), ttl(1_000), &host.call());
            assert!(matches!(renewal, Renewal::Lost), "{renewal:?}");
            let freed = store.leave(&key, &token(1), None, &host.call());
            assert!(matches!(freed, Freed::NotOurs), "{freed:?}");
            let Err(fault) = store.occupant(&key, &host.call()) else { panic!() };
            assert!(matches!(&fault.cause, Cause::Answered(error) if error.starts_with("WRONGTYPE")), "{fault:?}");
            let left: i64 = server.query(&["PTTL", "key"]);
            assert_eq!(left > 800_000, remaining.is_some(), "{left}");
            assert_eq!(server.query::<Vec<u8>>(&["DUMP", "key"]), before);
        }
        server.query::<()>(&["DEL", "key"]);
    }
}

#[test]
fn another_programs_value_is_busy_and_named_by_nobody() {
    let server = RedisServer::start();
    let store = server.store();
    let host = Host::default();
    // As long as a token may be, and longer: of that one only its ttl is told.
    for value in [vec![b'x'; 256], vec![b'0'; 257], vec![0; 1 << 20]] {
        server.query::<()>(&[b"SET", &b"key"[..], &value]);
        let vote = store.ask(&key("key"), &token(1), ttl(1_000).into(), None, &host.call());
        let Vote::Refused(Some(busy)) = vote else { panic!("{vote:?}") };
        assert_eq!(busy, Busy { holder: Holder::default(), queued: None });
        let occupant = store.occupant(&key("key"), &host.call()).unwrap().unwrap();
        assert_eq!(occupant.token.as_bytes(), value);
        let renewal = store.refresh(&key("key"), &token(1), ttl(1_000), &host.call());
        assert!(matches!(renewal, Renewal::Lost), "{renewal:?}");
        assert!(matches!(store.leave(&key("key"), &token(1), None, &host.call()), Freed::NotOurs));
        assert_eq!(server.query::<Vec<u8>>(&["GET", "key"]), value);
        // Whoever asks with just that value holds it.
        assert!(matches!(store.leave(&key("key"), &occupant.token, None, &host.call()), Freed::Freed));
    }
}

#[test]
fn a_key_of_a_megabyte_is_a_key_like_any_other() {
    let server = RedisServer::start();
    let (store, host) = (server.store(), Host::default());
    let key = key(&"k".repeat(1 << 20));
    for _ in 0..3 {
        let requests = [
            (Request::Try(key.clone(), token(1), ttl(60_000).into()), "Vote(Granted(None))"),
            (Request::Try(key.clone(), token(2), ttl(60_000).into()), "Vote(Refused(None))"),
            (Request::Ask(key.clone(), token(1), ttl(60_000).into(), None), "Vote(Granted(None))"),
            (Request::Refresh(key.clone(), token(1), ttl(60_000)), "Renewal(Renewed)"),
            (Request::Leave(key.clone(), token(2), None), "Freed(NotOurs)"),
            (Request::Leave(key.clone(), token(1), None), "Freed(Freed)"),
            (Request::Occupant(key.clone()), "Occupant(Ok(None))"),
        ];
        for (request, expected) in requests {
            let answer = request.send(&store, &host.call());
            assert_eq!(format!("{answer:?}"), expected, "{}", request.name());
        }
    }
}
