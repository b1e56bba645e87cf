//! Several independent servers, of which a majority counts (Redlock,
//! https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
//!
//! All are asked at the same time, and a call is over as soon as its outcome is certain. What was won in vain is freed
//! again, on the connection that it was asked for on, so that a node that is late carries out both, in this order.

mod debts;
mod ears;
mod ensemble;
mod member;
mod opener;
mod question;
mod renewer;

use std::{cell::Cell, mem, rc::Rc, sync::Arc, time::Duration};

use redis::Value;
pub use renewer::RenewingQuorum;

use self::{ears::Ears, ensemble::Ensemble, member::Round, question::Question};
use super::{
    endpoint::Endpoint,
    scripts::QuorumScripts,
    servers::Server,
    single::{occupant, vote, without},
};
use crate::lock::{
    fence::Fence,
    keys::Key,
    options::Terms,
    ports::{Busy, Call, Cause, Fault, Freed, Occupant, Renewal, Store, Subscription, Vote},
    queue::Place,
    quorum::{Outcome, majority},
    time::Moment,
    token::Token,
    ttl::Ttl,
};

pub struct Quorum {
    name: String,
    endpoints: Vec<Arc<Endpoint>>,
    /// While nobody uses it. Whoever does takes it away: a signal handler that runs meanwhile has another.
    idle: Cell<Option<Box<Ensemble>>>,
    scripts: QuorumScripts,
    ears: Rc<Ears>,
}

impl Quorum {
    pub fn new(servers: Vec<Server>) -> Self {
        let endpoints: Vec<_> = servers.into_iter().map(|server| Arc::new(Endpoint::new(server))).collect();
        Self {
            name: name(&endpoints),
            idle: Cell::new(None),
            scripts: QuorumScripts::new(),
            ears: Ears::new(&endpoints),
            endpoints,
        }
    }

    fn fault(&self, cause: Cause) -> Fault {
        Fault { server: self.name.clone(), cause }
    }

    /// With what has come since the last call read.
    fn ensemble(&self, call: &Call) -> Box<Ensemble> {
        let process = call.interrupt.process();
        let mut ensemble = match self.idle.take() {
            Some(ensemble) if ensemble.process() == process => ensemble,
            other => {
                mem::forget(other);
                Box::new(Ensemble::new(&self.endpoints, process))
            }
        };
        ensemble.begin(&call.limits, call.clock.now());
        ensemble
    }

    /// Puts a question to all, and waits until `is_over`. None: this is a child that was forked meanwhile.
    fn put_to_all(
        &self,
        mut ensemble: Box<Ensemble>,
        round: Round,
        call: &Call,
        is_over: impl Fn(&Ensemble) -> bool,
    ) -> Option<Box<Ensemble>> {
        ensemble.ask(round, call.clock.now());
        if ensemble.wait(call.until, call.clock, call.interrupt, is_over)
            && ensemble.reach_the_new(call.clock, call.interrupt)
        {
            return Some(ensemble);
        }
        // Its descriptors are none any more, and what its threads have is the parent's.
        mem::forget(ensemble);
        None
    }

    /// The same. Where a connection was closed in the middle, and there is no quorum without it, once more, on new ones, as
    /// with a single server: `again`, which may be put to nodes that have carried out the first one.
    fn put_twice(
        &self,
        ensemble: Box<Ensemble>,
        round: impl Fn(Arc<Question>) -> Round,
        [first, again]: [&dyn Fn() -> Question; 2],
        call: &Call,
        outcome: impl Fn(&Ensemble) -> Outcome,
    ) -> Option<Box<Ensemble>> {
        let is_over = |ensemble: &Ensemble| outcome(ensemble) != Outcome::Open;
        let ensemble = self.put_to_all(ensemble, round(Arc::new(first())), call, is_over)?;
        let is_worth_it = outcome(&ensemble) == Outcome::NoQuorum && ensemble.lost_connections();
        if !is_worth_it || call.interrupt.stopped() || call.clock.now() >= call.until {
            return Some(ensemble);
        }
        self.put_to_all(ensemble, round(Arc::new(again())), call, is_over)
    }

    /// One try for the key. `bare`: it is not known yet who holds it, and need not be.
    fn take(&self, bare: bool, key: &Key, token: &Token, terms: Terms, call: &Call) -> Vote {
        let is_yes = |value: &Value| match read(value, terms)? {
            Vote::Granted(_) => Some(true),
            Vote::Refused(_) => Some(false),
            Vote::Unknown(_) => None,
        };
        let won = |ensemble: &Ensemble| ensemble.tally(0, is_yes).won();
        let ask = || self.question(key, token, terms);
        let set = || {
            let ttl = terms.ttl.as_millis().to_string();
            Question::command(&[b"SET", key.as_bytes(), token.as_bytes(), b"NX", b"PX", ttl.as_bytes()])
        };
        let round = |question| Round {
            token: Some(token.clone()),
            guard: terms.restart_guard,
            ..Round::new(vec![question], limit(terms.ttl, call), call.limits)
        };
        let first: &dyn Fn() -> Question = if bare { &set } else { &ask };
        let asked = self.put_twice(self.ensemble(call), round, [first, &ask], call, won);
        let Some(mut ensemble) = asked else { return Vote::Unknown(self.fault(Cause::Forked)) };
        let refusers = ensemble.refusers(0, is_yes);
        let vote = match won(&ensemble) {
            Outcome::Yes => match ensemble.said(0).filter_map(as_fence).max().filter(|_| terms.fencing) {
                None => Vote::Granted(None),
                Some(fence) => match self.raise(ensemble, key, fence, terms, call) {
                    None => return Vote::Unknown(self.fault(Cause::Forked)),
                    Some((raised, fence)) => {
                        ensemble = raised;
                        fence.map_or_else(Vote::Unknown, |fence| Vote::Granted(Some(fence)))
                    }
                },
            },
            Outcome::No => {
                let held = held_by_majority(ensemble.said(0), self.endpoints.len());
                Vote::Refused(held.map(|occupant| Busy { holder: occupant.holder, queued: None }))
            }
            Outcome::Open | Outcome::NoQuorum => {
                let mut fault = no_quorum(&self.name, &ensemble, 0, is_yes, Some(token));
                if let (true, Cause::NoQuorum(why)) = (ensemble.abstains(token), &mut fault.cause) {
                    fault.cause = Cause::Tainted(mem::take(why));
                }
                Vote::Unknown(fault)
            }
        };
        if !matches!(vote, Vote::Granted(_)) {
            // Nobody is woken: who waits has as little reason to try again as we have.
            ensemble.undo(&Arc::new(self.free(key, token, None)), &refusers, call.clock.now());
        }
        self.idle.set(Some(ensemble));
        vote
    }

    fn question(&self, key: &Key, token: &Token, terms: Terms) -> Question {
        let ttl = terms.ttl.as_millis().to_string();
        let fence = terms.fencing.then(|| key.fence());
        let mut keys = vec![key.as_bytes(), key.queue()];
        keys.extend(fence.as_deref());
        Question::script(&self.scripts.ask, &keys, &[token.as_bytes(), ttl.as_bytes()])
    }

    /// Lets a majority remember the fence: of any later majority, one node at least gives a greater one. Where one of them
    /// remembers a greater one already, ours becomes greater than that. Gives the one that it became.
    fn raise(
        &self,
        mut ensemble: Box<Ensemble>,
        key: &Key,
        mut fence: Fence,
        terms: Terms,
        call: &Call,
    ) -> Option<(Box<Ensemble>, Result<Fence, Fault>)> {
        /// Others that acquire meanwhile come to nothing; a node whose clock is ahead is met once.
        const ROUNDS: usize = 3;
        let remembered = terms.ttl.as_millis() + u64::try_from(Fence::REMEMBERED.as_millis()).unwrap_or_default();
        let remembered = remembered.to_string();
        for _ in 0..ROUNDS {
            let number = fence.number().to_string();
            let arguments = [number.as_bytes(), remembered.as_bytes()];
            let question = Question::script(&self.scripts.raise, &[&key.fence()], &arguments);
            let round = Round::new(vec![Arc::new(question)], limit(terms.ttl, call), call.limits);
            let is_ours = |value: &Value| as_fence(value).map(|now| now == fence);
            let held = |ensemble: &Ensemble| ensemble.tally(0, is_ours).held();
            ensemble = self.put_to_all(ensemble, round, call, |ensemble| held(ensemble) != Outcome::Open)?;
            if held(&ensemble) == Outcome::Yes {
                return Some((ensemble, Ok(fence)));
            }
            match ensemble.said(0).filter_map(as_fence).max().filter(|greatest| *greatest > fence) {
                Some(greatest) => fence = Fence::next(Some(greatest), 0).unwrap_or(greatest),
                None => break,
            }
        }
        let fault = no_quorum(&self.name, &ensemble, 0, |value| as_fence(value).map(|_| true), None);
        Some((ensemble, Err(fault)))
    }

    /// Frees the key. `now`: when that is said to all who wait; None: it is not.
    fn free(&self, key: &Key, token: &Token, now: Option<Moment>) -> Question {
        let said = now.map(|now| (ears::channel(key), ears::event(token, now).to_string()));
        let arguments = match &said {
            Some((channel, event)) => &[token.as_bytes(), channel, event.as_bytes()][..],
            None => &[token.as_bytes()],
        };
        Question::script(&self.scripts.free, &[key.as_bytes()], arguments).that_ends(token)
    }
}

impl Store for Quorum {
    fn name(&self) -> &str {
        &self.name
    }

    fn hands_over(&self) -> bool {
        false
    }

    fn try_acquire(&self, key: &Key, token: &Token, terms: Terms, call: &Call) -> Vote {
        self.take(!terms.fencing, key, token, terms, call)
    }

    fn ask(&self, key: &Key, token: &Token, terms: Terms, _: Option<&Place>, call: &Call) -> Vote {
        self.take(false, key, token, terms, call)
    }

    fn leave(&self, key: &Key, token: &Token, _: Option<&Place>, call: &Call) -> Freed {
        let question = Arc::new(self.free(key, token, Some(call.clock.now())));
        let round = Round::new(vec![question], call.limits.command, call.limits);
        let is_over = |ensemble: &Ensemble| held(ensemble) != Outcome::Open;
        let asked = self.put_to_all(self.ensemble(call), round, call, is_over);
        let Some(ensemble) = asked else { return Freed::Unknown(self.fault(Cause::Forked)) };
        let freed = match held(&ensemble) {
            Outcome::Yes => Freed::Freed,
            Outcome::No => Freed::NotOurs,
            // The engine asks once more, and knows what it means then that the key is not ours.
            Outcome::Open | Outcome::NoQuorum => {
                Freed::Unknown(no_quorum(&self.name, &ensemble, 0, yes_or_no, Some(token)))
            }
        };
        self.idle.set(Some(ensemble));
        freed
    }

    fn refresh(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Renewal {
        let milliseconds = ttl.as_millis().to_string();
        let refresh = || {
            let arguments = [token.as_bytes(), milliseconds.as_bytes()];
            Question::script(&self.scripts.refresh, &[key.as_bytes()], &arguments)
        };
        let round = |question| Round::new(vec![question], limit(ttl, call), call.limits);
        let asked = self.put_twice(self.ensemble(call), round, [&refresh, &refresh], call, held);
        let Some(mut ensemble) = asked else { return Renewal::Unknown(self.fault(Cause::Forked)) };
        let renewal = match held(&ensemble) {
            Outcome::Yes => Renewal::Renewed,
            Outcome::No => {
                // What a minority holds still is in the way of others.
                let refusers = ensemble.refusers(0, yes_or_no);
                ensemble.undo(&Arc::new(self.free(key, token, None)), &refusers, call.clock.now());
                Renewal::Lost
            }
            Outcome::Open | Outcome::NoQuorum => {
                Renewal::Unknown(no_quorum(&self.name, &ensemble, 0, yes_or_no, Some(token)))
            }
        };
        self.idle.set(Some(ensemble));
        renewal
    }

    fn occupant(&self, key: &Key, call: &Call) -> Result<Option<Occupant>, Fault> {
        let nodes = self.endpoints.len();
        let question = Arc::new(Question::script(&self.scripts.occupant, &[key.as_bytes()], &[]));
        let round = Round::new(vec![question], call.limits.command, call.limits);
        let is_answer = |value: &Value| matches!(value, Value::Nil | Value::Array(_)).then_some(true);
        // Whether it is certain that nobody does: whatever the others say, no token has a majority.
        let is_free = |ensemble: &Ensemble| {
            let silent = nodes - ensemble.tally(0, is_answer).yes;
            most_held(ensemble.said(0)) + silent < majority(nodes)
        };
        let held = |ensemble: &Ensemble| held_by_majority(ensemble.said(0), nodes);
        let is_over = |ensemble: &Ensemble| is_free(ensemble) || held(ensemble).is_some();
        let asked = self.put_to_all(self.ensemble(call), round, call, is_over);
        let Some(ensemble) = asked else { return Err(self.fault(Cause::Forked)) };
        let answer = match held(&ensemble) {
            None if !is_free(&ensemble) => Err(no_quorum(&self.name, &ensemble, 0, is_answer, None)),
            occupant => Ok(occupant),
        };
        self.idle.set(Some(ensemble));
        answer
    }

    fn subscription(&self, key: &Key) -> Result<Box<dyn Subscription>, Fault> {
        Ok(Box::new(self.ears.listener(key)))
    }
}

fn name(endpoints: &[Arc<Endpoint>]) -> String {
    endpoints.iter().map(|endpoint| endpoint.name()).collect::<Vec<_>>().join(", ")
}

/// How long a node has to answer: a slow one must not use up the lease.
fn limit(ttl: Ttl, call: &Call) -> Duration {
    call.limits.command.min(ttl.as_duration() / 4)
}

/// What a node answered to `SET NX` or to `ask`.
fn read(value: &Value, terms: Terms) -> Option<Vote> {
    match value {
        Value::Okay => Some(Vote::Granted(None)),
        Value::Nil => Some(Vote::Refused(None)),
        value => vote(value, terms),
    }
}

/// Of a question that is answered by 1 or 0.
fn held(ensemble: &Ensemble) -> Outcome {
    ensemble.tally(0, yes_or_no).held()
}

fn as_fence(value: &Value) -> Option<Fence> {
    match value {
        Value::Int(number) => Fence::new(u64::try_from(*number).ok()?),
        _ => None,
    }
}

fn yes_or_no(value: &Value) -> Option<bool> {
    match value {
        Value::Int(1) => Some(true),
        Value::Int(0) => Some(false),
        _ => None,
    }
}

/// Too few answered: why, of each that did not.
fn no_quorum(
    name: &str,
    ensemble: &Ensemble,
    question: usize,
    is_yes: impl Fn(&Value) -> Option<bool>,
    token: Option<&Token>,
) -> Fault {
    let faults = ensemble.faults(question, is_yes).into_iter();
    let shown = |fault: Fault| match token {
        Some(token) => without(token, fault).to_string(),
        None => fault.to_string(),
    };
    let reasons: Vec<_> = faults.map(shown).collect();
    Fault { server: name.into(), cause: Cause::NoQuorum(reasons.join("; ")) }
}

/// What holds the key, as each node says that has it.
fn occupants<'a>(answers: impl Iterator<Item = &'a Value>) -> Vec<Occupant> {
    let occupant = |value: &Value| match value {
        Value::Array(parts) => match parts.as_slice() {
            [value, left, ..] => occupant(value, left),
            _ => None,
        },
        _ => None,
    };
    answers.filter_map(occupant).collect()
}

/// On how many nodes at most one token holds the key.
fn most_held<'a>(answers: impl Iterator<Item = &'a Value>) -> usize {
    let occupants = occupants(answers);
    let of = |token: &Token| occupants.iter().filter(|one| one.token == *token).count();
    occupants.iter().map(|one| of(&one.token)).max().unwrap_or(0)
}

/// Who holds the key, as a majority says, and for how long a majority will.
fn held_by_majority<'a>(answers: impl Iterator<Item = &'a Value>, nodes: usize) -> Option<Occupant> {
    let mut occupants = occupants(answers);
    // None is for ever.
    occupants.sort_by_key(|occupant| std::cmp::Reverse(occupant.holder.remaining.unwrap_or(Duration::MAX)));
    let of = |token: &Token| occupants.iter().filter(|one| one.token == *token).count();
    let token = occupants.iter().map(|one| &one.token).find(|token| of(token) >= majority(nodes))?.clone();
    occupants.into_iter().filter(|occupant| occupant.token == token).nth(majority(nodes) - 1)
}
