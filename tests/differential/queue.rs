//! Waiters: both stores put them in the same order, give the key to the same one, and tell it, and nobody else.

use std::thread;

use redis::Connection;
use redis_lock::lock::{
    keys::Key,
    ports::{Freed, Store, Subscription, Vote, Woken},
    queue::Place,
    time::Moment,
    token::Token,
};

use super::{
    Memory, Pair, Random, Request, is_same, long,
    support::{host::Host, key, ms, redis_server::RedisServer, request::Answer, token, ttl},
};

/// One that may wait for the key. What it hears by in Redis has the name of what it hears by in memory.
struct Waiter {
    token: Token,
    place: Place,
    /// In memory and in Redis.
    tickets: [Option<u64>; 2],
    subscription: Option<Box<dyn Subscription>>,
}

/// A connection on which all waiters listen, as far as they do.
struct Ears(Connection);

impl Ears {
    fn command(&mut self, words: &[&[u8]]) {
        let packed = redis::Cmd::new().arg(words).get_packed_command();
        self.0.send_packed_command(&packed).unwrap();
    }

    fn listen(&mut self, channel: &[u8]) {
        self.command(&[b"SUBSCRIBE", channel]);
        self.0.recv_response().unwrap();
    }

    fn stop(&mut self, channel: &[u8]) {
        self.command(&[b"UNSUBSCRIBE", channel]);
        self.0.recv_response().unwrap();
    }

    /// What has been told since this was asked last: channel and message.
    fn told(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.command(&[b"PING"]);
        let mut told = Vec::new();
        loop {
            match redis::from_redis_value::<(Vec<u8>, Vec<u8>, Vec<u8>)>(self.0.recv_response().unwrap()) {
                Ok((kind, channel, message)) if kind == b"message" => told.push((channel, message)),
                // The answer to PING comes behind all that.
                _ => return told,
            }
        }
    }
}

struct Scene<'a> {
    server: &'a RedisServer,
    pair: Pair,
    ears: Ears,
    key: Key,
    waiters: Vec<Waiter>,
    random: Random,
    told: u32,
}

impl<'a> Scene<'a> {
    fn new(server: &'a RedisServer, seed: u64) -> Self {
        let ears = Ears(redis::Client::open(server.address()).unwrap().get_connection().unwrap());
        let mut random = Random::new(seed);
        let waiters = (0..5)
            .map(|number| {
                let place = Place { ear: String::new(), wait: 0, is_told: true, ttl: long(&mut random), ticket: None };
                Waiter { token: token(100 + number), place, tickets: [None; 2], subscription: None }
            })
            .collect();
        let key = key(&format!("queue-{seed}"));
        let mut scene = Self { server, pair: Pair::new(server), ears, key, waiters, random, told: 0 };
        (0..5).for_each(|index| scene.toggle(index));
        scene
    }

    /// Begins to listen, as somebody new, or stops it and stays where it is in the queue.
    fn toggle(&mut self, index: usize) {
        let waiter = &mut self.waiters[index];
        if waiter.subscription.take().is_some() {
            self.ears.stop(&self.key.channel(&waiter.place.ear));
            return;
        }
        let subscription = Memory.subscription(&self.key).unwrap();
        subscription.listen(&self.pair.host.call()).unwrap();
        waiter.place.ear = subscription.ear().into();
        waiter.tickets = [None; 2];
        waiter.place.wait = subscription.begin();
        waiter.subscription = Some(subscription);
        self.ears.listen(&self.key.channel(&waiter.place.ear));
    }

    fn step(&mut self) {
        let index = self.random.below(5) as usize;
        let (token, place) = (self.waiters[index].token.clone(), self.waiters[index].place.clone());
        let key = self.key.clone();
        let ask = |ticket| {
            Request::Ask(key.clone(), token.clone(), place.ttl.into(), Some(Place { ticket, ..place.clone() }))
        };
        let requests = match self.random.below(16) {
            0 => return self.toggle(index),
            1 => return self.let_it_expire(),
            2 => return self.server.query(&["SCRIPT", "FLUSH"]),
            // A look that gives no heed to the queue.
            3 => [0; 2].map(|_| Request::Try(key.clone(), token.clone(), place.ttl.into())),
            4 => [0; 2].map(|_| Request::Ask(key.clone(), token.clone(), place.ttl.into(), None)),
            5 => [0; 2].map(|_| Request::Leave(key.clone(), token.clone(), Some(place.clone()))),
            6..=8 => [0; 2].map(|_| Request::Leave(key.clone(), token.clone(), None)),
            9 => {
                // From now on it looks for itself, or does not.
                let is_told = &mut self.waiters[index].place.is_told;
                *is_told = !*is_told;
                return;
            }
            _ => self.waiters[index].tickets.map(ask),
        };
        self.ask(index, requests);
        self.compare_what_was_told();
    }

    fn let_it_expire(&mut self) {
        let Some(holder) = Memory.occupant(&self.key, &self.pair.host.call()).unwrap() else { return };
        self.pair.ask(Request::Refresh(self.key.clone(), holder.token, ttl(3))).unwrap();
        thread::sleep(ms(5));
    }

    fn ask(&mut self, index: usize, [of_memory, of_redis]: [Request; 2]) {
        let mut answers =
            [of_memory.send(&Memory, &self.pair.host.call()), of_redis.send(&self.pair.redis, &self.pair.host.call())];
        self.pair.trace.push(of_redis);
        // Tickets are of each store's own time; what they are for, the order, is the same.
        let tickets = answers.each_mut().map(|answer| match answer {
            Answer::Vote(Vote::Refused(Some(busy))) => {
                busy.queued.as_mut().map(|queued| std::mem::take(&mut queued.ticket))
            }
            _ => None,
        });
        let [answer, other] = answers;
        assert!(is_same(&of_memory, &answer, &other), "{:#?}\n{answer:?}\n{other:?}", self.pair.trace);
        // Most remember their place.
        if self.random.below(4) > 0 {
            let waiter = &mut self.waiters[index];
            waiter.tickets = [0, 1].map(|store| waiter.tickets[store].or(tickets[store]));
        }
    }

    fn compare_what_was_told(&mut self) {
        let past = Moment::from_nanos(0);
        let host = Host::default();
        let mut in_memory = Vec::new();
        for waiter in &mut self.waiters {
            let Some(subscription) = &waiter.subscription else { continue };
            if subscription.sleep(past, host.call().clock, &host) == Woken::Told {
                in_memory.push((self.key.channel(&waiter.place.ear), waiter.place.wait.to_string().into_bytes()));
                waiter.place.wait = subscription.begin();
                waiter.tickets = [None; 2];
                self.told += 1;
            }
        }
        assert_eq!(self.ears.told(), in_memory, "{:#?}", self.pair.trace);
    }
}

#[test]
fn both_know_the_same_order() {
    let server = RedisServer::start();
    let mut told = 0;
    for seed in 0..60 {
        let mut scene = Scene::new(&server, seed);
        (0..150).for_each(|_| scene.step());
        told += scene.told;
    }
    assert!(told > 200, "hardly anybody was ever told: {told}");
}

#[test]
fn the_dead_of_a_disaster_are_dropped_a_thousand_at_a_time() {
    let server = RedisServer::start();
    let (store, host, key) = (server.store(), Host::default(), key("disaster"));
    let ears = &mut Ears(redis::Client::open(server.address()).unwrap().get_connection().unwrap());
    let place = |number: u64| {
        let ear = format!("{number:016x}");
        Place { ear, wait: 1, is_told: true, ttl: ttl(5_000), ticket: None }
    };
    assert!(matches!(store.try_acquire(&key, &token(1), ttl(5_000).into(), &host.call()), Vote::Granted(_)));
    for number in 1_000..3_500 {
        let vote = store.ask(&key, &token(number), ttl(5_000).into(), Some(&place(number)), &host.call());
        let Vote::Refused(Some(busy)) = vote else { panic!("{vote:?}") };
        assert_eq!(busy.queued.unwrap().ahead, number - 1_000);
    }
    ears.listen(&key.channel(&place(3_400).ear));
    for left in [1_500, 500] {
        assert!(matches!(store.leave(&key, &token(1), None, &host.call()), Freed::Freed));
        assert_eq!(server.query::<u64>(&[b"ZCARD", key.queue()]), left);
        assert!(ears.told().is_empty());
        assert!(matches!(store.try_acquire(&key, &token(1), ttl(5_000).into(), &host.call()), Vote::Granted(_)));
    }
    assert!(matches!(store.leave(&key, &token(1), None, &host.call()), Freed::Freed));
    assert_eq!(ears.told(), [(key.channel(&place(3_400).ear), b"1".to_vec())]);
    assert_eq!(store.occupant(&key, &host.call()).unwrap().unwrap().token, token(3_400));
}
