//! The keeper's connection to one server: what is due is sent on it in one go, and the next go begins when all answers
//! have come. Nothing here waits: who opens a connection is a thread that ends with it.

use std::{
    io, mem,
    os::fd::RawFd,
    sync::{Arc, mpsc::TryRecvError},
    time::Duration,
};

use super::book::{Due, Note, Outcome};
use crate::{
    lock::{
        backoff::Backoff,
        error::seconds,
        lease::{Lease, Prolonging},
        options::{Limits, Poll},
        ports::{Call, Cause, Clock, Fault, Renewal, RenewalServer, Renewer},
        time::Moment,
        ttl::Ttl,
    },
    stats,
    sys::{clock::SystemClock, threads::Task},
};

/// Between tries of a server that does not answer.
const RETRIES: Poll = Poll { min: Duration::from_millis(20), max: Duration::from_millis(500) };
/// A connection that was not used for so long is closed, and a server that was down is forgotten.
const IDLE: Duration = Duration::from_secs(60);
/// By how much who waits for a thread is more patient than the thread.
const LATER: Duration = Duration::from_millis(20);

pub struct Link {
    server: Arc<dyn RenewalServer>,
    waiting: Vec<Due>,
    /// Those that are being renewed.
    batch: Vec<Sent>,
    state: State,
    /// Since it last answered.
    backoff: Option<Backoff>,
    /// When it was last needed.
    needed: Moment,
}

enum State {
    Down,
    /// Until it takes too long: not once `limit` has passed.
    Opening {
        opening: Opening,
        until: Moment,
        limit: Duration,
    },
    Idle {
        renewer: Box<dyn Renewer>,
        since: Moment,
    },
    Busy {
        renewer: Box<dyn Renewer>,
        sent: Moment,
        until: Moment,
        limit: Duration,
    },
}

/// A connection that a thread opens.
type Opening = Task<Result<Box<dyn Renewer>, Fault>>;

struct Sent {
    id: u64,
    prolonging: Prolonging<Arc<Lease>>,
    ttl: Ttl,
}

impl Link {
    pub fn new(server: Arc<dyn RenewalServer>, now: Moment) -> Self {
        Self { server, waiting: Vec::new(), batch: Vec::new(), state: State::Down, backoff: None, needed: now }
    }

    pub fn is_to(&self, server: &Arc<dyn RenewalServer>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.server), Arc::as_ptr(server))
    }

    pub fn add(&mut self, due: Due, now: Moment) {
        if let State::Busy { until, limit, .. } | State::Opening { until, limit, .. } = &mut self.state {
            // Leases with a longer ttl must not use up its time.
            let most = due.upkeep.ttl.as_duration() / 4;
            (*until, *limit) = ((*until).min(now.plus(most)), (*limit).min(most));
        }
        self.waiting.push(due);
        self.needed = now;
    }

    pub fn keep_only(&mut self, is_wanted: impl Fn(u64) -> bool) {
        self.waiting.retain(|due| is_wanted(due.id));
    }

    /// Whether nothing would be lost with it: a server that was down is not to be stormed by those who try it again.
    pub fn is_unused(&self, now: Moment) -> bool {
        matches!(self.state, State::Down)
            && self.waiting.is_empty()
            && (self.backoff.is_none() || now >= self.needed.plus(IDLE))
    }

    /// What it waits for.
    pub fn awaited(&self) -> Vec<(RawFd, i16)> {
        match &self.state {
            State::Busy { renewer, .. } => renewer.awaited(),
            State::Opening { opening, .. } => vec![(opening.fd(), libc::POLLIN)],
            State::Down | State::Idle { .. } => Vec::new(),
        }
    }

    /// When it is to go on, whatever comes.
    pub fn until(&self) -> Moment {
        match &self.state {
            State::Busy { until, .. } | State::Opening { until, .. } => *until,
            State::Idle { since, .. } => since.plus(IDLE),
            State::Down if self.backoff.is_some() => self.needed.plus(IDLE),
            State::Down => Moment::NEVER,
        }
    }

    /// Goes on as far as it can.
    pub fn go_on(&mut self, notes: &mut Vec<Note>) {
        loop {
            let now = SystemClock.now();
            let can_go_on;
            (self.state, can_go_on) = match mem::replace(&mut self.state, State::Down) {
                State::Down if self.waiting.is_empty() => return,
                State::Down => {
                    let limits = self.limits();
                    match self.open(limits) {
                        Ok(opening) => {
                            // The thread knows better what it has waited for.
                            let (until, limit) = (now.plus(limits.connect).plus(LATER), limits.connect);
                            (State::Opening { opening, until, limit }, false)
                        }
                        Err(error) => self.failed_to_open(&self.fault(&error.to_string()), notes),
                    }
                }
                State::Opening { opening, until, limit } => match opening.take() {
                    // Not looked at: over TLS, the server may say something on its own at the beginning.
                    Ok(Ok(renewer)) => self.begin(renewer, now, notes),
                    Ok(Err(fault)) => self.failed_to_open(&fault, notes),
                    Err(TryRecvError::Empty) if now < until => (State::Opening { opening, until, limit }, false),
                    Err(TryRecvError::Empty) => {
                        let silence = format!("it could not be reached within {}", seconds(limit));
                        self.failed_to_open(&self.fault(&silence), notes)
                    }
                    Err(TryRecvError::Disconnected) => {
                        self.failed_to_open(&self.fault("the connection could not be opened"), notes)
                    }
                },
                State::Idle { since, .. } if self.waiting.is_empty() && now >= since.plus(IDLE) => (State::Down, false),
                State::Idle { renewer, since } if self.waiting.is_empty() => (State::Idle { renewer, since }, false),
                State::Idle { renewer, .. } if !renewer.is_alive() => (State::Down, true),
                State::Idle { renewer, .. } => self.begin(renewer, now, notes),
                State::Busy { mut renewer, sent, until, limit } => match renewer.go_on() {
                    Ok(Some(answers)) => self.answered(renewer, answers, sent, notes),
                    Ok(None) if now < until => (State::Busy { renewer, sent, until, limit }, false),
                    Ok(None) => {
                        let silence = format!("nothing came within {}", seconds(limit));
                        let cause = Cause::NoAnswer(silence);
                        self.failed(&Fault { server: self.server.name().into(), cause }, notes)
                    }
                    Err(fault) => self.failed(&fault, notes),
                },
            };
            if !can_go_on {
                return;
            }
        }
    }

    /// After a panic: what is under way has an unknown fate, and is tried again on a new connection.
    pub fn panicked(&mut self, notes: &mut Vec<Note>) {
        let fault = Fault { server: self.server.name().into(), cause: Cause::NoAnswer("the renewal failed".into()) };
        (self.state, _) = self.failed(&fault, notes);
        (self.state, _) = self.failed_to_open(&fault, notes);
    }

    fn fault(&self, why: &str) -> Fault {
        Fault { server: self.server.name().into(), cause: Cause::Unreachable(why.into()) }
    }

    fn open(&self, limits: Limits) -> io::Result<Opening> {
        let server = self.server.clone();
        Task::start(move |interrupt| {
            let until = limits.deadline(SystemClock.now());
            server.open(&Call { until, limits, clock: &SystemClock, interrupt })
        })
    }

    /// What a server may need for one lease of many.
    const FOR_EACH: Duration = Duration::from_micros(50);

    /// A try must leave time for others, as long as the lease with the shortest ttl is valid.
    fn limits(&self) -> Limits {
        let least = self.waiting.iter().map(|due| due.upkeep.ttl).min();
        let all = Self::FOR_EACH.saturating_mul(u32::try_from(self.waiting.len()).unwrap_or(u32::MAX));
        let quarter = least.map_or(Duration::MAX, |ttl| ttl.as_duration() / 4 + all);
        let most = |limit: fn(&Limits) -> Duration| {
            self.waiting.iter().map(|due| limit(&due.upkeep.limits)).min().unwrap_or(quarter).min(quarter)
        };
        Limits { connect: most(|limits| limits.connect), command: most(|limits| limits.command) }
    }

    fn begin(&mut self, mut renewer: Box<dyn Renewer>, now: Moment, notes: &mut Vec<Note>) -> (State, bool) {
        let limit = self.limits().command;
        for Due { id, lease, upkeep } in mem::take(&mut self.waiting) {
            // Its renewal may have ended while it waited here.
            let renewal = if now < upkeep.until { Lease::renew(lease, now) } else { None };
            match renewal {
                Some(prolonging) => {
                    prolonging.lease().renewing(upkeep.ttl);
                    self.batch.push(Sent { id, prolonging, ttl: upkeep.ttl });
                }
                None => notes.push(Note { id, outcome: Outcome::NotNow }),
            }
        }
        if self.batch.is_empty() {
            return (State::Idle { renewer, since: now }, false);
        }
        let leases: Vec<_> = self.batch.iter().map(|sent| (sent.prolonging.lease(), sent.ttl)).collect();
        renewer.begin(&leases);
        (State::Busy { renewer, sent: now, until: now.plus(limit), limit }, true)
    }

    fn answered(
        &mut self,
        renewer: Box<dyn Renewer>,
        answers: Vec<Renewal>,
        sent: Moment,
        notes: &mut Vec<Note>,
    ) -> (State, bool) {
        let now = SystemClock.now();
        let is_of_use = answers.iter().any(|answer| !matches!(answer, Renewal::Unknown(_)));
        if is_of_use {
            self.backoff = None;
        }
        let pause = if is_of_use { RETRIES.max } else { self.pause() };
        for (Sent { id, prolonging, ttl }, answer) in mem::take(&mut self.batch).into_iter().zip(answers) {
            let lease = prolonging.lease();
            let outcome = match answer {
                Renewal::Renewed if lease.renewed(sent, ttl, now) => Outcome::Renewed,
                Renewal::Renewed => Outcome::Over,
                Renewal::Lost if lease.renewal_refused() => {
                    // Its holder may have forgotten it meanwhile; then the book has no line for it.
                    stats::count_loss(lease);
                    Outcome::Lost
                }
                Renewal::Lost => Outcome::Over,
                Renewal::Unknown(fault) => Outcome::Failed(fault, for_ttl(pause, ttl)),
            };
            notes.push(Note { id, outcome });
        }
        // A server that answers with nothing but errors may not be the one that the address leads to now.
        if is_of_use { (State::Idle { renewer, since: now }, true) } else { (State::Down, true) }
    }

    fn failed(&mut self, fault: &Fault, notes: &mut Vec<Note>) -> (State, bool) {
        let pause = self.pause();
        for Sent { id, ttl, .. } in mem::take(&mut self.batch) {
            notes.push(Note { id, outcome: Outcome::Failed(fault.clone(), for_ttl(pause, ttl)) });
        }
        (State::Down, true)
    }

    fn failed_to_open(&mut self, fault: &Fault, notes: &mut Vec<Note>) -> (State, bool) {
        let pause = self.pause();
        for Due { id, upkeep, .. } in mem::take(&mut self.waiting) {
            notes.push(Note { id, outcome: Outcome::Failed(fault.clone(), for_ttl(pause, upkeep.ttl)) });
        }
        (State::Down, false)
    }

    /// One for all leases, so that they are tried again in one go.
    fn pause(&mut self) -> Duration {
        // Processes that a server has left at the same moment do not come back to it at the same moment.
        let seed = || SystemClock.now().as_nanos() ^ u64::from(std::process::id()) << 32;
        self.backoff.get_or_insert_with(|| Backoff::new(RETRIES, seed())).pause()
    }
}

/// The shorter its ttl, the sooner it is tried again.
fn for_ttl(pause: Duration, ttl: Ttl) -> Duration {
    pause.min(ttl.as_duration() / 10)
}
