//! Three holders contend for one key over a line that loses, repeats and delays requests, so that any of them may run
//! twice or late and in between any others. Whatever happens:
//! - who believes to hold the key does hold it, for as long as it believes; so no two believe at once;
//! - a release frees nobody else's key, a refresh creates none, and neither changes another's ttl.
//!
//! In memory, where time is a number, this is played many times; on a real server, in real time, as often as is
//! worth to wait for.
#![cfg(test)]

mod support;

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    thread,
    time::Duration,
};

use redis_lock::{
    lock::{
        engine::{Acquire, Engine},
        keys::Key,
        lease::Lease,
        options::{Limits, Poll},
        ports::{Call, Cause, Clock, Fault, Freed, Interrupt, Occupant, Renewal, Store, Vote, WakeUp},
        time::Moment,
        ttl::Ttl,
    },
    memory::Memory,
    sys::clock::SystemClock,
};
use support::{
    LIMITS, Random, key, ms,
    redis_server::RedisServer,
    request::{Answer, Interpose, Interposed, Request},
    token, ttl,
    world::World,
};

/// Where the play is given.
struct Stage<'a> {
    store: &'a dyn Store,
    /// None: time is real.
    world: Option<World>,
}

impl Stage<'_> {
    fn pass(&self, duration: Duration) {
        match &self.world {
            Some(world) => world.pass(duration),
            None => thread::sleep(duration),
        }
    }

    /// How inexactly Redis tells the time that is left.
    const fn grain(&self) -> Duration {
        if self.world.is_some() { Duration::ZERO } else { ms(2) }
    }
}

impl Clock for Stage<'_> {
    fn now(&self) -> Moment {
        self.world.as_ref().map_or_else(|| SystemClock.now(), Clock::now)
    }
}

impl Interrupt for Stage<'_> {
    fn pump(&self) {}

    fn stopped(&self) -> bool {
        false
    }

    fn process(&self) -> u64 {
        0
    }
}

impl WakeUp for Stage<'_> {
    fn sleep(&self, until: Moment, _: &dyn Clock, _: &dyn Interrupt) {
        self.pass(until.since(self.now()));
    }
}

/// Which ttls there are, and what may run late.
#[derive(Clone, Copy)]
enum Kind {
    /// Any ttl; a request that was answered is over.
    AnyTtl,
    /// One ttl for all; also what was answered may run again.
    OneTtl,
}

#[derive(Default)]
struct Actor {
    lease: RefCell<Option<Arc<Lease>>>,
    in_use: Cell<bool>,
    /// It is giving the key up, and does nothing under it any more.
    releases: Cell<bool>,
}

struct Play<'a> {
    stage: Stage<'a>,
    kind: Kind,
    key: Key,
    random: RefCell<Random>,
    late: RefCell<Vec<Request>>,
    actors: [Actor; 3],
    tokens: Cell<u64>,
    /// How often somebody believed, and was right.
    right: Cell<u64>,
}

impl<'a> Play<'a> {
    fn new(stage: Stage<'a>, kind: Kind, key: Key, seed: u64) -> Self {
        Self {
            stage,
            kind,
            key,
            random: RefCell::new(Random::new(seed)),
            late: RefCell::default(),
            actors: Default::default(),
            tokens: Cell::new(0),
            right: Cell::new(0),
        }
    }

    fn chance(&self, one_in: u64) -> bool {
        self.random.borrow_mut().below(one_in) == 0
    }

    fn any_ttl(&self) -> Ttl {
        match self.kind {
            Kind::AnyTtl => ttl(self.random.borrow_mut().one_of(&[60, 200, 800])),
            Kind::OneTtl => ttl(150),
        }
    }

    fn call(&self) -> Call<'_> {
        Call { until: Moment::NEVER, limits: LIMITS, clock: &self.stage, interrupt: &self.stage }
    }

    /// Somebody who is not in the middle of a call does something.
    fn act(&self) {
        let number = self.random.borrow_mut().below(3) as usize;
        let actor = &self.actors[number];
        if actor.in_use.replace(true) {
            return;
        }
        let line = Interposed(self);
        let limits = Limits { connect: ms(10), command: ms(10) };
        let stage = &self.stage;
        let engine = Engine { store: &line, clock: stage, interrupt: stage, wake_up: stage, limits };
        let lease = actor.lease.borrow().clone();
        let choice = self.random.borrow_mut().below(6);
        match lease {
            Some(lease) if lease.is_valid(stage.now()) && choice < 2 => drop(engine.refresh(&lease, self.any_ttl())),
            Some(lease) if lease.may_live() => {
                actor.releases.set(true);
                drop(engine.release(&lease, engine.deadline()));
                if choice == 5 {
                    // The object goes, and nobody remembers the token.
                    actor.lease.take();
                }
            }
            _ => self.acquire(actor, &engine),
        }
        actor.releases.set(false);
        actor.in_use.set(false);
        self.check();
    }

    fn acquire(&self, actor: &Actor, engine: &Engine) {
        let number = self.tokens.get();
        self.tokens.set(number + 1);
        let lease = Arc::new(Lease::new(Arc::new(self.key.clone()), token(number), 0));
        actor.lease.replace(Some(lease.clone()));
        let wait = ms(self.random.borrow_mut().one_of(&[0, 0, 30]));
        let poll = Poll { min: ms(2), max: ms(20) };
        let start = self.stage.now();
        drop(engine.acquire(&lease, &Acquire { ttl: self.any_ttl(), start, wait, poll, bare: true }));
    }

    /// While a request or a reply is on its way.
    fn meanwhile(&self) {
        let slow = self.random.borrow_mut().one_of(&[0, 0, 0, 1, 3, 9, 40]);
        if self.chance(3) {
            self.stage.pass(ms(slow));
        }
        if self.chance(4) {
            self.run_a_late_request();
        }
        if self.chance(4) {
            self.act();
        }
        self.check();
    }

    fn run_a_late_request(&self) {
        let request = {
            let mut late = self.late.borrow_mut();
            let count = late.len() as u64;
            if count == 0 {
                return;
            }
            let index = self.random.borrow_mut().below(count) as usize;
            // One may run any number of times.
            if self.chance(2) { late[index].clone() } else { late.swap_remove(index) }
        };
        self.carry_out(&request);
    }

    /// Runs a request, and checks what it did to the key.
    fn carry_out(&self, request: &Request) -> Answer {
        let start = self.stage.now();
        let before = self.occupant();
        let answer = request.send(self.stage.store, &self.call());
        let after = self.occupant();
        let took = self.stage.now().since(start) + self.stage.grain();
        let ours = before.as_ref().is_some_and(|before| Some(&before.token) == request.token());
        let is_free = after.is_none();
        match &before {
            None => {
                let creates = matches!(request, Request::Try(..) | Request::Ask(..));
                assert!(is_free || creates, "{request:?} created the key");
            }
            Some(other) if !ours && other.holder.remaining.unwrap() > took => {
                let after = after.unwrap_or_else(|| panic!("{request:?} freed another's key"));
                assert_eq!(after.token, other.token, "{request:?} took another's key");
                assert!(after.holder.remaining <= other.holder.remaining, "{request:?} prolonged another's key");
                let answers_no = matches!(
                    answer,
                    Answer::Vote(Vote::Refused(_)) | Answer::Freed(Freed::NotOurs) | Answer::Renewal(Renewal::Lost)
                );
                assert!(answers_no, "{request:?}: {answer:?}");
            }
            Some(_) => {
                let freed = matches!(answer, Answer::Freed(Freed::Freed));
                assert!(is_free || !freed, "{request:?}: {answer:?}, and still there");
            }
        }
        self.check();
        answer
    }

    fn occupant(&self) -> Option<Occupant> {
        self.stage.store.occupant(&self.key, &self.call()).unwrap()
    }

    fn check(&self) {
        let occupant = self.occupant();
        let now = self.stage.now();
        for actor in self.actors.iter().filter(|actor| !actor.releases.get()) {
            let lease = actor.lease.borrow();
            let Some(lease) = lease.as_ref().filter(|lease| lease.is_valid(now)) else { continue };
            let Some(Occupant { token, holder }) = &occupant else { panic!("one believes, and the key is free") };
            assert!(token == lease.token(), "one believes, and another holds the key");
            let ends = now.plus(holder.remaining.unwrap() + self.stage.grain());
            assert!(ends >= lease.valid_until(), "one believes for longer than the key will live");
            self.right.set(self.right.get() + 1);
        }
    }
}

impl Interpose for &Play<'_> {
    fn request(&self, request: Request, _: &Call) -> Answer {
        self.meanwhile();
        let fate = self.random.borrow_mut().below(12);
        if fate == 0 {
            self.late.borrow_mut().push(request.clone());
        }
        let answer = (fate > 1).then(|| self.carry_out(&request));
        if fate == 2 || (fate == 3 && matches!(self.kind, Kind::OneTtl)) {
            self.late.borrow_mut().push(request.clone());
        }
        self.meanwhile();
        match answer {
            Some(answer) if fate > 2 => answer,
            _ => request.unknown(Fault { server: String::new(), cause: Cause::NoAnswer(String::new()) }),
        }
    }
}

/// Returns how often somebody believed, and was right.
fn play(stage: Stage, kind: Kind, name: &str, seed: u64) -> u64 {
    let play = Play::new(stage, kind, key(&format!("{name}-{seed}")), seed);
    for _ in 0..40 {
        play.act();
        play.meanwhile();
    }
    play.right.get()
}

#[test]
fn in_memory() {
    for (kind, name) in [(Kind::AnyTtl, "late-any"), (Kind::OneTtl, "late-one")] {
        let stage = || Stage { store: &Memory, world: Some(World::new()) };
        let right: u64 = (0..300).map(|seed| play(stage(), kind, name, seed)).sum();
        assert!(right > 20_000, "hardly anybody ever held the key: {right}");
    }
}

#[test]
fn on_a_server() {
    let server = RedisServer::start();
    let address = server.address();
    let player = |thread: u64| {
        let store = support::redis_server::store(&address);
        let kind = if thread.is_multiple_of(2) { Kind::AnyTtl } else { Kind::OneTtl };
        let stage = || Stage { store: &store, world: None };
        (0..5).map(|number| play(stage(), kind, "late", thread * 5 + number)).sum::<u64>()
    };
    let right: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|thread| scope.spawn(move || player(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(right > 1_000, "hardly anybody ever held the key: {right}");
}
