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
    rc::Rc,
    sync::Arc,
    thread,
    time::Duration,
};

use redis_lock::{
    lock::{
        acquire::Acquire,
        engine::Engine,
        fence::Fence,
        keys::Key,
        lease::Lease,
        options::{Limits, Poll, Terms},
        ports::{
            Call, Cause, Clock, Fault, Freed, Interrupt, Occupant, Renewal, Store, Subscription, Vote, WakeUp, Woken,
        },
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
struct Stage {
    store: Rc<dyn Store>,
    /// None: time is real.
    world: Option<World>,
}

impl Stage {
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

impl Clock for Stage {
    fn now(&self) -> Moment {
        self.world.as_ref().map_or_else(|| SystemClock.now(), Clock::now)
    }
}

impl Interrupt for Stage {
    fn pump(&self) {}

    fn stopped(&self) -> bool {
        false
    }

    fn process(&self) -> u64 {
        0
    }
}

impl WakeUp for Stage {
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
    subscription: Cell<Option<Box<dyn Subscription>>>,
    in_use: Cell<bool>,
    /// It is giving the key up, and does nothing under it any more.
    releases: Cell<bool>,
}

struct Play {
    stage: Stage,
    kind: Kind,
    key: Key,
    random: RefCell<Random>,
    late: RefCell<Vec<Request>>,
    actors: [Actor; 3],
    tokens: Cell<u64>,
    fencing: bool,
    /// The greatest fence that anybody has believed in.
    fence: Cell<Option<Fence>>,
    /// How often somebody believed, and was right.
    right: Cell<u64>,
    /// How often a release gave the key to a waiter.
    passed_on: Cell<u64>,
}

impl Play {
    fn new(stage: Stage, kind: Kind, key: Key, seed: u64) -> Self {
        Self {
            stage,
            kind,
            key,
            random: RefCell::new(Random::new(seed)),
            late: RefCell::default(),
            actors: Default::default(),
            tokens: Cell::new(0),
            fencing: seed.is_multiple_of(2),
            fence: Cell::new(None),
            right: Cell::new(0),
            passed_on: Cell::new(0),
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

    fn any_terms(&self) -> Terms {
        Terms { fencing: self.fencing, ..self.any_ttl().into() }
    }

    fn call(&self) -> Call<'_> {
        Call { until: Moment::NEVER, limits: LIMITS, clock: &self.stage, interrupt: &self.stage }
    }

    /// Somebody who is not in the middle of a call does something.
    fn act(self: &Rc<Self>) {
        let number = self.random.borrow_mut().below(3) as usize;
        let actor = &self.actors[number];
        if actor.in_use.replace(true) {
            return;
        }
        let line = Interposed(self.clone());
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
        let wait = ms(self.random.borrow_mut().one_of(&[0, 30, 30]));
        let poll = Poll { min: ms(2), max: ms(20) };
        let start = self.stage.now();
        let mut subscription = actor.subscription.take();
        let what = Acquire { terms: self.any_terms(), start, wait, poll, bare: true };
        drop(engine.acquire(&lease, &what, &mut subscription));
        if lease.is_valid(self.stage.now()) {
            assert!(lease.fence().is_some() == self.fencing && lease.fence() >= self.fence.get());
            assert!(!self.fencing || lease.fence() > self.fence.replace(lease.fence()), "a fence that does not grow");
        }
        actor.subscription.set(subscription);
    }

    /// While a request or a reply is on its way.
    fn meanwhile(self: &Rc<Self>) {
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
        let answer = request.send(&*self.stage.store, &self.call());
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
                let is_passed_on = after.as_ref().is_some_and(|after| Some(&after.token) != request.token());
                assert!(is_free || is_passed_on || !freed, "{request:?}: {answer:?}, and still there");
                if is_passed_on {
                    self.passed_on.set(self.passed_on.get() + 1);
                }
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

/// Hears of offers, of some too late, and is deaf now and then. While it sleeps, the others act.
struct Ear {
    inner: Box<dyn Subscription>,
    play: Rc<Play>,
}

impl Subscription for Ear {
    fn ear(&self) -> &str {
        self.inner.ear()
    }

    fn begin(&self) -> u64 {
        self.inner.begin()
    }

    fn is_alive(&self) -> bool {
        self.inner.is_alive()
    }

    fn listen(&self, _: &Call) -> Result<(), Fault> {
        // What is lost is another matter: at times the server is not there, or does not want it.
        if self.play.chance(10) {
            return Err(Fault { server: String::new(), cause: Cause::NoAnswer(String::new()) });
        }
        let call = Call { until: self.play.stage.now().plus(ms(1_000)), ..self.play.call() };
        self.inner.listen(&call)
    }

    fn sleep(&self, until: Moment, _: &dyn Clock, _: &dyn Interrupt) -> Woken {
        let stage = &self.play.stage;
        while stage.now() < until {
            if self.play.chance(20) {
                return Woken::Deaf;
            }
            // One that takes no time is a look at what has come.
            match self.inner.sleep(stage.now(), stage, stage) {
                Woken::Untold => {}
                woken => return woken,
            }
            stage.pass(ms(1));
            self.play.meanwhile();
        }
        Woken::Untold
    }
}

impl Interpose for Rc<Play> {
    fn subscription(&self, key: &Key) -> Result<Box<dyn Subscription>, Fault> {
        Ok(Box::new(Ear { inner: self.stage.store.subscription(key)?, play: self.clone() }))
    }

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

/// Returns how often somebody believed and was right, and how often the key was passed on.
fn play(stage: Stage, kind: Kind, name: &str, seed: u64) -> [u64; 2] {
    let play = Rc::new(Play::new(stage, kind, key(&format!("{name}-{seed}")), seed));
    for _ in 0..40 {
        play.act();
        play.meanwhile();
    }
    // Each holds the play.
    play.actors.iter().for_each(|actor| drop(actor.subscription.take()));
    [play.right.get(), play.passed_on.get()]
}

fn sum(plays: impl IntoIterator<Item = [u64; 2]>) -> [u64; 2] {
    plays.into_iter().fold([0, 0], |sum, play| [sum[0] + play[0], sum[1] + play[1]])
}

#[test]
fn in_memory() {
    for (kind, name) in [(Kind::AnyTtl, "late-any"), (Kind::OneTtl, "late-one")] {
        let stage = || Stage { store: Rc::new(Memory), world: Some(World::new()) };
        let [right, passed_on] = sum((0..300).map(|seed| play(stage(), kind, name, seed)));
        assert!(right > 20_000, "hardly anybody ever held the key: {right}");
        assert!(passed_on > 1_000, "hardly anybody ever waited: {passed_on}");
    }
}

#[test]
fn on_a_server() {
    let server = RedisServer::start();
    let address = server.address();
    let player = |thread: u64| {
        let store = Rc::new(support::redis_server::store(&address));
        let kind = if thread.is_multiple_of(2) { Kind::AnyTtl } else { Kind::OneTtl };
        let stage = || Stage { store: store.clone(), world: None };
        sum((0..5).map(|number| play(stage(), kind, "late", thread * 5 + number)))
    };
    let [right, passed_on] = thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|thread| scope.spawn(move || player(thread))).collect();
        sum(threads.into_iter().map(|thread| thread.join().unwrap()))
    });
    assert!(right > 1_000, "hardly anybody ever held the key: {right}");
    assert!(passed_on > 20, "hardly anybody ever waited: {passed_on}");
    let left: Vec<String> = server.query(&["PUBSUB", "CHANNELS"]);
    assert!(left.is_empty(), "{left:?}");
}
