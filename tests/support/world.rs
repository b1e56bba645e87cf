//! A world for the engine in which time passes only when it is told to, and in which requests and replies are lost,
//! late and slow by script. Behind it is the store in memory.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use redis_lock::{
    lock::{
        acquire::{Acquire, Acquired},
        engine::Engine,
        error::Error,
        keys::Key,
        lease::Lease,
        options::Limits,
        ports::{Call, Cause, Clock, Fault, Interrupt, Store, Subscription, WakeUp, Woken},
        time::Moment,
        token::Token,
    },
    memory::Memory,
};

use super::{
    key, ms,
    request::{Answer, Interpose, Interposed, Request},
    token,
};

type Act = Box<dyn FnOnce(&World)>;

/// The store in memory belongs to the process and forgets what has expired, of whatever key. So the tests of a process
/// take turns: in the eyes of one whose clock is ahead, all keys of another would have expired.
fn turn() -> Rc<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    thread_local! { static OURS: RefCell<Weak<MutexGuard<'static, ()>>> = RefCell::default() }
    OURS.with_borrow_mut(|ours| {
        ours.upgrade().unwrap_or_else(|| {
            // A test that failed has left no state behind that matters.
            let turn = Rc::new(TURN.lock().unwrap_or_else(PoisonError::into_inner));
            *ours = Rc::downgrade(&turn);
            turn
        })
    })
}

/// Clock, host and sleep in one.
pub struct World {
    now: Cell<Moment>,
    agenda: RefCell<Vec<(Moment, Act)>>,
    pub stopped: Cell<bool>,
    pub process: Cell<u64>,
    /// How much later than asked for the next sleep ends: the machine was suspended.
    pub oversleep: Cell<Duration>,
    /// Whether subscriptions are refused from now on, those that are to be renewed included.
    pub refuses_subscriptions: Cell<bool>,
    /// A waiter that listens hears nothing until it renews its subscription.
    pub deaf: Cell<bool>,
    /// How often one was asked for.
    pub listened: Cell<u32>,
    /// Whether another server may take the place of the one at the end of the line.
    pub fails_over: Cell<bool>,
    _turn: Rc<MutexGuard<'static, ()>>,
}

impl World {
    /// The parts of a call: a connection and a command.
    pub const LIMITS: Limits = Limits { connect: ms(1_000), command: ms(1_000) };

    pub fn new() -> Self {
        Self {
            now: Cell::new(Moment::from_nanos(1_000_000_000_000)),
            agenda: RefCell::default(),
            stopped: Cell::new(false),
            process: Cell::new(0),
            oversleep: Cell::new(Duration::ZERO),
            refuses_subscriptions: Cell::new(false),
            deaf: Cell::new(false),
            listened: Cell::new(0),
            fails_over: Cell::new(false),
            _turn: turn(),
        }
    }

    /// Time passes, and what is on the agenda happens when its time comes.
    pub fn pass(&self, duration: Duration) {
        let until = self.now().plus(duration);
        while let Some((moment, act)) = self.next_act(until) {
            self.now.set(moment.max(self.now()));
            act(self);
        }
        self.now.set(until.max(self.now()));
    }

    /// Time passes until something happens, or until `until`.
    fn pass_to_next_act(&self, until: Moment) {
        let next = self.agenda.borrow().iter().map(|(moment, _)| *moment).min();
        self.pass(next.map_or(until, |next| next.min(until)).since(self.now()));
    }

    fn next_act(&self, until: Moment) -> Option<(Moment, Act)> {
        let mut agenda = self.agenda.borrow_mut();
        let (first, _) = agenda.iter().enumerate().min_by_key(|(_, (moment, _))| *moment)?;
        (agenda[first].0 <= until).then(|| agenda.swap_remove(first))
    }

    pub fn after(&self, duration: Duration, act: impl FnOnce(&World) + 'static) {
        self.agenda.borrow_mut().push((self.now().plus(duration), Box::new(act)));
    }

    /// What somebody else asks of the store, now.
    pub fn other(&self, request: &Request) -> Answer {
        request.send(&Memory, &self.call(Moment::NEVER))
    }

    pub fn holder(&self, key: &Key) -> Option<Token> {
        match self.other(&Request::Occupant(key.clone())) {
            Answer::Occupant(Ok(occupant)) => occupant.map(|occupant| occupant.token),
            other => panic!("{other:?}"),
        }
    }

    pub fn call(&self, until: Moment) -> Call<'_> {
        Call { until, limits: Self::LIMITS, clock: self, interrupt: self }
    }
}

impl Clock for World {
    fn now(&self) -> Moment {
        self.now.get()
    }
}

impl Interrupt for World {
    fn pump(&self) {}

    fn stopped(&self) -> bool {
        self.stopped.get()
    }

    fn process(&self) -> u64 {
        self.process.get()
    }
}

impl WakeUp for World {
    fn sleep(&self, until: Moment, _: &dyn Clock, _: &dyn Interrupt) {
        assert!(until > self.now(), "a sleep that takes no time");
        // A minute at a time, so that a sleep without end ends when it is stopped.
        while self.now() < until && !self.stopped() {
            self.pass(until.since(self.now()).min(ms(60_000)));
        }
        self.pass(self.oversleep.take());
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered,
    RequestLost,
    ReplyLost,
    /// No answer comes, and the request is carried out when the test says so.
    Late,
    /// The server answers with an error.
    Error,
    Unreachable,
    /// The same, for good.
    TurnedAway,
    /// The server answers with an error that may pass.
    NotNow,
    /// It is answered, but its queue is out of reach.
    Alone,
    /// The process forked meanwhile, and this is the child.
    Forked,
}

pub struct Step {
    fate: Fate,
    connecting: Duration,
    there: Duration,
    back: Duration,
    meanwhile: Option<Act>,
}

impl From<Fate> for Step {
    fn from(fate: Fate) -> Self {
        Self { fate, connecting: Duration::ZERO, there: Duration::ZERO, back: Duration::ZERO, meanwhile: None }
    }
}

impl Fate {
    /// How long the request and the reply are on their way.
    pub fn taking(self, there: Duration, back: Duration) -> Step {
        Step { there, back, ..self.into() }
    }

    /// What happens while the reply is on its way.
    pub fn while_(self, act: impl FnOnce(&World) + 'static) -> Step {
        Step { meanwhile: Some(Box::new(act)), ..self.into() }
    }
}

impl Step {
    /// After a connection was opened, which took so long.
    pub fn connecting(self, connecting: Duration) -> Self {
        Self { connecting, ..self }
    }
}

pub struct Sent {
    pub at: Moment,
    pub until: Moment,
    pub request: Request,
}

/// The line between an engine and the store in memory. What the script does not tell is answered at once.
pub struct Line {
    world: Rc<World>,
    pub script: RefCell<VecDeque<Step>>,
    pub sent: RefCell<Vec<Sent>>,
    pub late: RefCell<Vec<Request>>,
}

/// What hears of offers in the store in memory, and sleeps as the world does.
struct Ear {
    inner: Box<dyn Subscription>,
    world: Rc<World>,
}

impl Subscription for Ear {
    fn ear(&self) -> &str {
        self.inner.ear()
    }

    fn begin(&self) -> u64 {
        self.inner.begin()
    }

    fn is_alive(&self) -> bool {
        self.inner.is_alive() && !self.world.deaf.get()
    }

    fn listen(&self, call: &Call) -> Result<(), Fault> {
        self.world.listened.set(self.world.listened.get() + 1);
        if self.world.refuses_subscriptions.get() {
            return Err(Fault { server: "redis://interposed:6379".into(), cause: Cause::Answered("scripted".into()) });
        }
        self.world.deaf.set(false);
        self.inner.listen(call)
    }

    fn sleep(&self, until: Moment, _: &dyn Clock, _: &dyn Interrupt) -> Woken {
        assert!(until > self.world.now(), "a sleep that takes no time");
        while self.world.now() < until && !self.world.stopped() {
            if self.world.deaf.get() {
                return Woken::Deaf;
            }
            // One that takes no time is a look at what has come.
            match self.inner.sleep(self.world.now(), &*self.world, &*self.world) {
                Woken::Untold => self.world.pass_to_next_act(until),
                woken => return woken,
            }
        }
        self.world.pass(self.world.oversleep.take());
        Woken::Untold
    }
}

impl Interpose for Line {
    fn fails_over(&self) -> bool {
        self.world.fails_over.get()
    }

    fn subscription(&self, key: &Key) -> Result<Box<dyn Subscription>, Fault> {
        Ok(Box::new(Ear { inner: Memory.subscription(key)?, world: self.world.clone() }))
    }

    fn request(&self, request: Request, call: &Call) -> Answer {
        let world = &self.world;
        self.sent.borrow_mut().push(Sent { at: world.now(), until: call.until, request: request.clone() });
        let unknown = |cause| request.unknown(Fault { server: "redis://interposed:6379".into(), cause });
        if world.now() >= call.until {
            return unknown(Cause::Unreachable("too late".into()));
        }
        let Step { fate, connecting, there, back, meanwhile } =
            self.script.borrow_mut().pop_front().unwrap_or(Fate::Answered.into());
        world.pass(connecting.min(call.limits.connect).min(call.until.since(world.now())));
        let deadline = world.now().plus(call.limits.command).min(call.until);
        let left = || deadline.since(world.now());
        world.pass(there.min(left()));
        let answer = match fate {
            Fate::Answered | Fate::ReplyLost => Some(world.other(&request)),
            Fate::Alone => Some(world.other(&request.alone())),
            Fate::Late => {
                self.late.borrow_mut().push(request.clone());
                None
            }
            Fate::RequestLost | Fate::Error | Fate::Unreachable | Fate::TurnedAway | Fate::NotNow | Fate::Forked => {
                None
            }
        };
        if let Some(act) = meanwhile {
            act(world);
        }
        let in_time = back <= left();
        world.pass(back.min(left()));
        match (fate, answer) {
            (Fate::Answered | Fate::Alone, Some(answer)) if in_time => answer,
            (Fate::Error, _) => unknown(Cause::Answered("ERR scripted".into())),
            (Fate::Unreachable, _) => unknown(Cause::Unreachable("scripted".into())),
            (Fate::TurnedAway, _) => unknown(Cause::TurnedAway("scripted".into())),
            (Fate::NotNow, _) => unknown(Cause::NotNow("LOADING scripted".into())),
            (Fate::Forked, _) => unknown(Cause::Forked),
            _ => {
                world.pass(left());
                unknown(Cause::NoAnswer("scripted".into()))
            }
        }
    }
}

/// A key that no other test has, and a line to its store.
pub struct Scene {
    pub world: Rc<World>,
    pub line: Interposed<Line>,
    pub key: Key,
}

impl Scene {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let world = Rc::new(World::new());
        let line = Line {
            world: world.clone(),
            script: RefCell::default(),
            sent: RefCell::default(),
            late: RefCell::default(),
        };
        Self { world, line: Interposed(line), key: key(&format!("scene-{}", COUNT.fetch_add(1, SeqCst))) }
    }

    /// What becomes of the next requests.
    pub fn script<S: Into<Step>>(&self, steps: impl IntoIterator<Item = S>) {
        self.line.0.script.borrow_mut().extend(steps.into_iter().map(Into::into));
    }

    pub fn lease(&self, number: u64) -> Lease {
        Lease::new(Arc::new(self.key.clone()), token(number), self.world.process())
    }

    pub fn engine(&self) -> Engine<'_> {
        let world = &*self.world;
        Engine { store: &self.line, clock: world, interrupt: world, wake_up: world, limits: World::LIMITS }
    }

    pub fn acquire(&self, lease: &Lease, what: &Acquire) -> Result<Acquired, Error> {
        self.engine().acquire(lease, what, &mut None)
    }

    /// The names of the requests that were sent since this was asked last.
    pub fn sent(&self) -> String {
        let sent = self.line.0.sent.take();
        sent.iter().map(|sent| sent.request.name()).collect::<Vec<_>>().join(" ")
    }

    pub fn carry_out_late_requests(&self) {
        for request in self.line.0.late.take() {
            self.world.other(&request);
        }
    }

    pub fn holder(&self) -> Option<Token> {
        self.world.holder(&self.key)
    }

    pub fn is_free(&self) -> bool {
        self.holder().is_none()
    }
}
