//! One node of a quorum, which nobody ever waits for alone. Its connection outlives the questions that are put on it: an
//! answer that comes when the outcome is certain already is read before the next one's.
//!
//! A node that was down or silent is remembered as such, and is tried again meanwhile, by a thread.

use std::{collections::VecDeque, os::fd::RawFd, sync::Arc, time::Duration};

use redis::{ServerError, Value};

use super::{debts::Debts, opener::Opener, question::Question};
use crate::{
    lock::{
        error::seconds,
        options::{Limits, Poll},
        ports::{Cause, Fault},
        time::Moment,
        token::Token,
    },
    redis::{care, connection::Connection, endpoint::Endpoint, errors, scripts::Script, socket::Trouble},
};

/// Between tries of a node that is down.
const RETRIES: Poll = Poll { min: Duration::from_millis(50), max: Duration::from_secs(5) };
/// As with a single server: what was used so recently is not looked at before it is used again.
const FRESH: Duration = Duration::from_micros(100);
/// A node that owes more answers is asked nothing more, but to free what it may hold.
const MOST_OWED: usize = 256;

/// Questions that are put to all nodes at the same time.
pub struct Round {
    pub number: u64,
    pub questions: Vec<Arc<Question>>,
    /// For whom a key is asked for.
    pub token: Option<Token>,
    /// How long a node must have been up to be believed.
    pub guard: Option<Duration>,
    /// How long it has to answer.
    pub limit: Duration,
    pub limits: Limits,
}

impl Round {
    pub fn new(questions: Vec<Arc<Question>>, limit: Duration, limits: Limits) -> Self {
        Self { number: 0, questions, token: None, guard: None, limit, limits }
    }
}

/// What became of a question.
#[derive(Clone, Debug)]
pub enum Ballot {
    Pending,
    Said(Value),
    Silent(Fault),
}

pub struct Member {
    opener: Opener,
    state: State,
    /// The answers that are to come, in this order.
    owed: VecDeque<Owed>,
    is_sending: bool,
    /// The round that it was asked in, or will be as soon as there is a connection.
    asked: u64,
    was_asked: bool,
    /// A connection is being opened since this call, and it was not down before.
    is_new: bool,
    /// The round that its connection was lost in last.
    broke_in: u64,
    /// Scripts whose text it was given on this connection.
    known: Vec<Arc<Script>>,
    debts: Debts,
    /// What was wrong with it last, unless it has answered since.
    trouble: Option<Fault>,
    last_read: Moment,
    /// When it was called last.
    now: Moment,
    /// Whether the round's token asks it for the first time, as far as is known.
    is_first_time: bool,
    /// When it is taken to be silent in this round.
    due: Moment,
}

enum State {
    /// None: it was never tried.
    Down(Option<Fault>),
    Opening,
    Open(Box<Connection>),
}

struct Owed {
    sent: Moment,
    what: What,
}

enum What {
    Uptime,
    Answer { question: Arc<Question>, round: u64, index: usize },
}

impl Member {
    pub fn new(endpoint: Arc<Endpoint>) -> Self {
        Self {
            opener: Opener::new(endpoint, RETRIES),
            state: State::Down(None),
            owed: VecDeque::new(),
            is_sending: false,
            asked: 0,
            was_asked: false,
            is_new: false,
            broke_in: 0,
            known: Vec::new(),
            debts: Debts::default(),
            trouble: None,
            last_read: Moment::from_nanos(0),
            now: Moment::from_nanos(0),
            is_first_time: false,
            due: Moment::NEVER,
        }
    }

    /// Before the first round of a call: reads what has come since the last one.
    pub fn begin(&mut self, limits: &Limits, now: Moment) {
        (self.was_asked, self.is_new, self.is_first_time) = (false, false, false);
        (self.asked, self.now) = (0, now);
        let has_more = matches!(&self.state, State::Open(connection) if connection.has_unread());
        if has_more || !self.owed.is_empty() || now.since(self.last_read) >= FRESH {
            self.go_on(None, now, &mut |_, _| {});
        }
        if let (State::Open(_), true) = (&self.state, self.owed.is_empty()) {
            self.put_unfreed(&|_| true, now);
        }
        let silent = self.owed.front().is_some_and(|first| now >= first.sent.plus(limits.command));
        if silent {
            let cause = Cause::NoAnswer(format!("nothing came within {}", seconds(limits.command)));
            self.lost(self.opener.fault(cause));
            self.opener.pause(now);
        }
    }

    /// Whether it may yet take back what it grants to this token.
    pub fn abstains(&self, token: &Token) -> bool {
        self.debts.may_take_back(token, self.now)
    }

    /// Whether it can be asked now, and is expected to answer.
    pub fn is_up(&self, limit: Duration, now: Moment) -> bool {
        let is_behind = self.owed.front().is_some_and(|first| now >= first.sent.plus(limit));
        matches!(self.state, State::Open(_)) && !is_behind
    }

    /// Whether the question will be put to it as soon as there is a connection, for the first time or in place of one that
    /// died while idle.
    pub fn is_new(&self) -> bool {
        self.is_new && matches!(self.state, State::Opening)
    }

    /// Puts the round's questions to it. True: it is to be waited for; false: it is not, but may answer. The error: it is
    /// not asked. `must`: its answer is needed, also if it was down a moment ago.
    pub fn ask(&mut self, round: &Round, must: bool, now: Moment) -> Result<bool, Fault> {
        let asked = self.try_to_ask(round, must, now);
        self.due = now.plus(round.limit);
        if matches!(self.state, State::Opening) {
            self.due = self.due.plus(round.limits.connect.min(round.limit));
        }
        if asked.is_err() || !matches!(self.state, State::Open(_)) {
            // What it may hold is to be freed whenever it is back.
            round.questions.iter().for_each(|free| self.debts.is_to_be_freed(free));
        }
        asked
    }

    fn try_to_ask(&mut self, round: &Round, must: bool, now: Moment) -> Result<bool, Fault> {
        let is_first = matches!(self.state, State::Down(None));
        if let State::Down(why) = &self.state {
            if let Some(why) = why.clone().filter(|_| !must && !self.opener.is_due(now)) {
                return Err(why);
            }
            let probe = why.is_some();
            self.opener.open(probe, round.limits)?;
            self.state = State::Opening;
            self.is_new = !self.opener.is_in_trouble();
        }
        if round.token.as_ref().is_some_and(|token| self.abstains(token)) {
            let why = "an earlier release of this token may still be carried out";
            return Err(self.opener.fault(Cause::Unasked(why.into())));
        }
        self.asked = round.number;
        match &self.state {
            State::Open(_) if self.owed.len() >= MOST_OWED => {
                self.asked = 0;
                Err(self.opener.fault(Cause::Unasked("it owes too many answers".into())))
            }
            State::Open(_) => {
                let is_up = self.is_up(round.limit, now);
                self.put(round, now);
                Ok(is_up || must)
            }
            State::Opening => Ok(is_first || must || !self.opener.is_in_trouble()),
            State::Down(_) => Ok(false),
        }
    }

    /// Sends the questions of a round.
    fn put(&mut self, round: &Round, now: Moment) {
        let State::Open(connection) = &mut self.state else { return };
        if round.guard.is_some() && !matches!(connection.started, Some(Ok(_))) {
            connection.add([&b"INFO"[..], b"server"].into_iter());
            self.owed.push_back(Owed { sent: now, what: What::Uptime });
        }
        for (index, question) in round.questions.iter().enumerate() {
            match question.unless_known(&mut self.known) {
                Some(text) => connection.add_packed(&text),
                None => connection.add_packed(question.packed()),
            }
            let what = What::Answer { question: question.clone(), round: round.number, index };
            self.owed.push_back(Owed { sent: now, what });
        }
        if let Some(token) = &round.token {
            self.is_first_time |= self.debts.is_asked(token);
        }
        self.was_asked = true;
        self.send();
    }

    fn send(&mut self) {
        if let State::Open(connection) = &mut self.state {
            match connection.send_now() {
                Ok(is_sent) => self.is_sending = !is_sent,
                Err(trouble) => self.broke(&trouble),
            }
        }
    }

    /// Lets it free what it was asked for in this call.
    pub fn undo(&mut self, free: &Arc<Question>, now: Moment) {
        self.now = now;
        if !std::mem::take(&mut self.was_asked) {
            self.asked = 0;
        } else if let State::Open(connection) = &mut self.state {
            // With its text, for nobody waits to hear that the script is not known.
            connection.add_packed(&free.with_text());
            let what = What::Answer { question: free.clone(), round: 0, index: 0 };
            self.owed.push_back(Owed { sent: now, what });
            self.send();
        } else {
            self.debts.is_to_be_freed(free);
        }
    }

    /// It said that it has not given the key.
    pub fn has_refused(&mut self, token: &Token) {
        if self.is_first_time {
            self.debts.has_freed(token);
        }
    }

    pub fn due(&self) -> Moment {
        self.due
    }

    /// Goes on as far as it can. `answer`: takes the answers to the questions of the round.
    pub fn go_on(&mut self, round: Option<&Round>, now: Moment, answer: &mut dyn FnMut(usize, Ballot)) {
        self.now = now;
        match self.opener.take(now) {
            None => {}
            Some(Ok(connection)) => self.opened(connection, round, now),
            Some(Err(fault)) => self.lost(fault),
        }
        if self.is_sending {
            self.send();
        }
        while let State::Open(connection) = &mut self.state {
            match connection.value_now(LONGEST) {
                Ok(Some(value)) => {
                    self.last_read = now;
                    self.take(value, round, now, answer);
                    // Nothing more is to come; what has come all the same is no answer. Before a round it is looked at in
                    // any case: it may be the end.
                    let has_unread = matches!(&self.state, State::Open(connection) if connection.has_unread());
                    if round.is_some() && self.owed.is_empty() && !has_unread {
                        return;
                    }
                }
                Ok(None) => return,
                Err(trouble) => self.broke(&trouble),
            }
        }
    }

    fn opened(&mut self, connection: Box<Connection>, round: Option<&Round>, now: Moment) {
        let round = round.filter(|round| round.number == self.asked);
        let is_asked =
            |free: &Arc<Question>| round.is_some_and(|round| round.questions.iter().any(|one| Arc::ptr_eq(one, free)));
        self.state = State::Open(connection);
        self.known.clear();
        self.put_unfreed(&|free| !is_asked(free), now);
        match round {
            Some(round) => {
                self.due = self.due.min(now.plus(round.limit));
                self.put(round, now);
            }
            None => self.send(),
        }
    }

    /// Lets it free what could not be freed there before.
    fn put_unfreed(&mut self, is_wanted: &dyn Fn(&Arc<Question>) -> bool, now: Moment) {
        let State::Open(connection) = &mut self.state else { return };
        let unfreed = self.debts.take_unfreed();
        let is_any = !unfreed.is_empty();
        for free in unfreed.into_iter().filter(|free| is_wanted(free)) {
            connection.add_packed(&free.with_text());
            self.owed.push_back(Owed { sent: now, what: What::Answer { question: free, round: 0, index: 0 } });
        }
        if is_any {
            self.send();
        }
    }

    fn take(&mut self, value: Value, round: Option<&Round>, now: Moment, answer: &mut dyn FnMut(usize, Ballot)) {
        let Some(Owed { what, .. }) = self.owed.pop_front() else {
            return self.unexpected(&value, now);
        };
        if let (What::Answer { question, .. }, Value::ServerError(error)) = (&what, &value)
            && !is_unknown_script(error)
            && round.is_none_or(|round| round.token != question.ends)
        {
            // It was not carried out.
            self.debts.is_to_be_freed(question);
        }
        if let Value::ServerError(error) = &value
            && errors::is_refusal_to_talk(error)
        {
            return self.unexpected(&value, now);
        }
        let (question, number, index) = match what {
            What::Answer { question, round, index } => (question, round, index),
            What::Uptime => {
                if let State::Open(connection) = &mut self.state {
                    connection.started = Some(care::started(&value, now));
                }
                return;
            }
        };
        let round = round.filter(|round| round.number == number);
        match &value {
            // Not behind what was put to it since, which may be of the same token, and has a release of its own.
            Value::ServerError(error) if is_unknown_script(error) && round.is_none() && !self.owed.is_empty() => {}
            Value::ServerError(error) if is_unknown_script(error) && (round.is_some() || question.ends.is_some()) => {
                self.known.clear();
                if let State::Open(connection) = &mut self.state {
                    connection.add_packed(&question.with_text());
                    self.owed.push_back(Owed { sent: now, what: What::Answer { question, round: number, index } });
                    self.send();
                }
            }
            Value::ServerError(error) if matches!(errors::cause(error), Cause::NotNow(_)) => {
                // It is not the one to ask, or not yet; the next connection may lead to the one that is.
                self.lost(self.opener.fault(errors::cause(error)));
                self.opener.pause(now);
            }
            _ => {
                self.opener.is_of_use();
                self.trouble = None;
                if let (Some(token), Value::Int(_)) = (&question.ends, &value) {
                    self.debts.has_freed(token);
                }
                if let Some(round) = round {
                    let too_young = self.is_too_young(round, now);
                    answer(index, too_young.map_or(Ballot::Said(value), Ballot::Silent));
                }
            }
        }
    }

    fn is_too_young(&self, round: &Round, now: Moment) -> Option<Fault> {
        let State::Open(connection) = &self.state else { return None };
        let why = care::too_young(connection.started.as_ref()?, round.guard?, now)?;
        Some(self.opener.fault(Cause::Unasked(why)))
    }

    /// What came is no answer to a question.
    fn unexpected(&mut self, value: &Value, now: Moment) {
        let cause = match value {
            Value::ServerError(error) => Cause::Unreachable(errors::in_words(error)),
            _ => Cause::NoAnswer("what came is no answer to the request".into()),
        };
        self.lost(self.opener.fault(cause));
        self.opener.pause(now);
    }

    /// Its connection was closed in the middle of this round.
    pub fn broke_in(&self, round: &Round) -> bool {
        self.broke_in == round.number
    }

    fn broke(&mut self, trouble: &Trouble) {
        self.broke_in = self.asked;
        self.lost(self.opener.fault(Cause::NoAnswer(trouble.to_string())));
    }

    /// There is no connection any more.
    fn lost(&mut self, fault: Fault) {
        self.trouble = Some(fault.clone());
        self.state = State::Down(Some(fault));
        self.is_sending = false;
        for Owed { what, .. } in std::mem::take(&mut self.owed) {
            if let What::Answer { question, .. } = what
                && question.ends.is_some()
            {
                self.debts.may_be_late(question, self.now);
            }
        }
    }

    /// Of what is no answer to the question that was put.
    pub fn misunderstood(&self, value: &Value) -> Fault {
        self.opener.fault(match value {
            Value::ServerError(error) => errors::cause(error),
            _ => Cause::NoAnswer("what came is no answer to the request".into()),
        })
    }

    /// Why it is down, if it is.
    pub fn fault(&self) -> Option<&Fault> {
        match &self.state {
            State::Down(fault) => fault.as_ref(),
            State::Opening | State::Open(_) => None,
        }
    }

    /// Of one that has not answered in time.
    pub fn silence(&self, limit: Duration) -> Fault {
        if let (State::Opening, Some(trouble)) = (&self.state, &self.trouble) {
            return trouble.clone();
        }
        let limit = seconds(limit);
        self.opener.fault(match &self.state {
            State::Opening => Cause::Unreachable(format!("it could not be reached within {limit}")),
            State::Down(_) | State::Open(_) => Cause::NoAnswer(format!("nothing came within {limit}")),
        })
    }

    /// What to wait for.
    pub fn awaited(&self) -> Option<(RawFd, i16)> {
        match &self.state {
            State::Down(_) => None,
            State::Opening => self.opener.fd().map(|fd| (fd, libc::POLLIN)),
            State::Open(connection) => {
                let events = if self.is_sending { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
                connection.fd().ok().map(|fd| (fd, events))
            }
        }
    }
}

/// What another program has put in the place of a key may be long.
const LONGEST: usize = 64 * 1024 * 1024;

fn is_unknown_script(error: &ServerError) -> bool {
    error.code() == "NOSCRIPT"
}
