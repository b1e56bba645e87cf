//! The nodes of a quorum, asked at the same time, and what they answered.

use std::{os::fd::RawFd, sync::Arc, time::Duration};

use redis::Value;

use super::{
    member::{Ballot, Member, Round},
    question::Question,
};
use crate::{
    lock::{
        options::Limits,
        ports::{Clock, Fault, Interrupt},
        quorum::{self, Tally},
        time::Moment,
        token::Token,
    },
    redis::endpoint::Endpoint,
    sys::poll::{self, Waited},
};

pub struct Ensemble {
    members: Vec<Member>,
    round: Round,
    /// Of each question, what each member said.
    ballots: Vec<Vec<Ballot>>,
    /// For which members the round waits.
    awaits: Vec<bool>,
    until: Moment,
    /// How long the last round took.
    took: Duration,
    process: u64,
}

/// As with one server: those that are near answer within this, and to fall asleep would take longer.
const NEAR: Duration = Duration::from_micros(40);

/// A thread that opens a connection may have to wait for a processor.
const LINGER: Duration = Duration::from_millis(10);

impl Ensemble {
    pub fn new(endpoints: &[Arc<Endpoint>], process: u64) -> Self {
        let limits = Limits { connect: Duration::ZERO, command: Duration::ZERO };
        Self {
            members: endpoints.iter().cloned().map(Member::new).collect(),
            round: Round::new(Vec::new(), Duration::ZERO, limits),
            ballots: Vec::new(),
            awaits: Vec::new(),
            until: Moment::NEVER,
            took: Duration::MAX,
            process,
        }
    }

    /// Which process it is of. In a forked child, nothing of it is to be touched.
    pub fn process(&self) -> u64 {
        self.process
    }

    /// Before the first round of a call.
    pub fn begin(&mut self, limits: &Limits, now: Moment) {
        for member in &mut self.members {
            member.begin(limits, now);
        }
    }

    /// Puts the questions of a round to all nodes.
    pub fn ask(&mut self, round: Round, now: Moment) {
        let limit = round.limit;
        self.round = Round { number: self.round.number + 1, ..round };
        let up = self.members.iter().filter(|member| member.is_up(limit, now)).count();
        let must = up < quorum::majority(self.members.len());
        self.ballots = vec![Vec::with_capacity(self.members.len()); self.round.questions.len()];
        self.awaits.clear();
        for member in &mut self.members {
            let asked = member.ask(&self.round, must, now);
            self.awaits.push(matches!(asked, Ok(true)));
            for ballots in &mut self.ballots {
                ballots.push(match &asked {
                    Ok(_) => Ballot::Pending,
                    Err(fault) => Ballot::Silent(fault.clone()),
                });
            }
        }
        self.until = Moment::NEVER;
    }

    /// Whoever has not answered by then is taken to be silent.
    pub fn not_after(&mut self, until: Moment) {
        self.until = until;
    }

    /// Reads what has come: of all, or where it is known where something has come.
    pub fn go_on(&mut self, ready: Option<&[libc::pollfd]>, now: Moment) {
        let Self { members, round, ballots, awaits, .. } = self;
        let until = self.until;
        for (place, (member, awaits)) in members.iter_mut().zip(awaits).enumerate() {
            let is_late = now >= member.due().min(until);
            let is_ready = |fd| ready.is_none_or(|ready| ready.iter().any(|one| one.fd == fd && one.revents != 0));
            if is_late || member.awaited().is_some_and(|(fd, _)| is_ready(fd)) {
                member.go_on(Some(round), now, &mut |index, said| {
                    if let Some(ballot) = ballots.get_mut(index).and_then(|ballots| ballots.get_mut(place)) {
                        *ballot = said;
                    }
                });
            }
            let silence = member.fault().cloned().or_else(|| is_late.then(|| member.silence(round.limit)));
            let mut is_pending = false;
            for ballot in ballots.iter_mut().filter_map(|ballots| ballots.get_mut(place)) {
                match (&ballot, &silence) {
                    (Ballot::Pending, Some(fault)) => *ballot = Ballot::Silent(fault.clone()),
                    (Ballot::Pending, None) => is_pending = true,
                    _ => {}
                }
            }
            *awaits &= is_pending;
        }
    }

    /// Goes on until `is_over`, or until every answer has come that is waited for. False: this is a child that was forked
    /// meanwhile.
    pub fn wait(
        &mut self,
        until: Moment,
        clock: &dyn Clock,
        interrupt: &dyn Interrupt,
        is_over: impl Fn(&Self) -> bool,
    ) -> bool {
        let start = clock.now();
        self.not_after(until);
        let mut pumped = start;
        // Nothing can have come yet.
        let mut ready = Some(Vec::new());
        loop {
            let now = clock.now();
            self.go_on(ready.as_deref(), now);
            if is_over(self) || !self.awaits.contains(&true) {
                self.took = now.since(start);
                return true;
            }
            if self.took < NEAR && now.since(start) < NEAR {
                // SAFETY: lets another process have the processor, if one wants it: a server, as it may be.
                unsafe { libc::sched_yield() };
                ready = None;
                continue;
            }
            let mut polls = poll::polls(self.awaited().into_iter());
            let waited = poll::slice_of(&mut polls, self.next_due(), clock, interrupt);
            ready = Some(polls);
            if waited != Waited::Ready {
                pumped = now;
            } else if now.since(pumped) >= poll::SLICE {
                // Something comes all the time, and never all of it.
                interrupt.pump();
                pumped = now;
            }
            if interrupt.process() != self.process {
                return false;
            }
        }
    }

    /// Gives those that are being connected to a little longer: they get the question as well, though nobody needs their
    /// answer. Otherwise the first lease of a process would be on a bare majority, and its first release would leave the
    /// key on the others. False: as above.
    pub fn reach_the_new(&mut self, clock: &dyn Clock, interrupt: &dyn Interrupt) -> bool {
        let until = clock.now().plus(self.took.max(LINGER)).min(self.until);
        loop {
            let new: Vec<_> =
                self.members.iter().filter(|member| member.is_new()).filter_map(Member::awaited).collect();
            if new.is_empty() || clock.now() >= until {
                return true;
            }
            poll::slice(&new, until, clock, interrupt);
            if interrupt.process() != self.process {
                return false;
            }
            self.go_on(None, clock.now());
        }
    }

    /// When the next one of those that the round waits for is taken to be silent.
    fn next_due(&self) -> Moment {
        let awaited = self.members.iter().zip(&self.awaits).filter(|(_, awaits)| **awaits);
        awaited.map(|(member, _)| member.due()).min().unwrap_or(self.until).min(self.until)
    }

    /// What the round waits for.
    pub fn awaited(&self) -> Vec<(RawFd, i16)> {
        let awaited = self.members.iter().zip(&self.awaits).filter(|(_, awaits)| **awaits);
        awaited.filter_map(|(member, _)| member.awaited()).collect()
    }

    /// Answers to a question, as they have come.
    pub fn said(&self, question: usize) -> impl Iterator<Item = &Value> {
        self.ballots.get(question).into_iter().flatten().filter_map(|ballot| match ballot {
            Ballot::Said(value) => Some(value),
            Ballot::Pending | Ballot::Silent(_) => None,
        })
    }

    /// How a question stands. `is_yes`: of an answer; None: it is no answer to this question.
    pub fn tally(&self, question: usize, is_yes: impl Fn(&Value) -> Option<bool>) -> Tally {
        let mut tally = Tally { nodes: self.members.len(), ..Tally::default() };
        for (ballot, awaits) in self.ballots.get(question).into_iter().flatten().zip(&self.awaits) {
            match ballot {
                Ballot::Said(value) => match is_yes(value) {
                    Some(true) => tally.yes += 1,
                    Some(false) => tally.no += 1,
                    None => {}
                },
                Ballot::Pending if *awaits => tally.pending += 1,
                Ballot::Pending | Ballot::Silent(_) => {}
            }
        }
        tally
    }

    /// Why nodes gave no answer to build on.
    pub fn faults(&self, question: usize, is_yes: impl Fn(&Value) -> Option<bool>) -> Vec<Fault> {
        let ballots = self.ballots.get(question).into_iter().flatten().zip(&self.members).zip(&self.awaits);
        let fault = |((ballot, member), awaits): ((&Ballot, &Member), &bool)| match ballot {
            // It could have made no difference.
            Ballot::Pending if *awaits => None,
            Ballot::Pending => Some(member.silence(self.round.limit)),
            Ballot::Said(value) => is_yes(value).is_none().then(|| member.misunderstood(value)),
            Ballot::Silent(fault) => Some(fault.clone()),
        };
        ballots.filter_map(fault).collect()
    }

    /// Whether some of the nodes do not vote for this token.
    pub fn abstains(&self, token: &Token) -> bool {
        self.members.iter().any(|member| member.abstains(token))
    }

    /// Whether connections were closed in the middle of the round.
    pub fn lost_connections(&self) -> bool {
        self.members.iter().any(|member| member.broke_in(&self.round))
    }

    /// Which of the nodes said no to a question.
    pub fn refusers(&self, question: usize, is_yes: impl Fn(&Value) -> Option<bool>) -> Vec<bool> {
        let is_no = |ballot: &Ballot| matches!(ballot, Ballot::Said(value) if is_yes(value) == Some(false));
        self.ballots.get(question).into_iter().flatten().map(is_no).collect()
    }

    /// Lets the nodes free what they were asked for in this call; but not those that are to be spared.
    pub fn undo(&mut self, free: &Arc<Question>, spared: &[bool], now: Moment) {
        for (member, spared) in self.members.iter_mut().zip(spared) {
            match &free.ends {
                Some(token) if *spared => member.has_refused(token),
                _ => member.undo(free, now),
            }
        }
    }
}
