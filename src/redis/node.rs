//! One server: a connection that is opened when it is needed, lives for the process, and is checked by use.

use std::{cell::Cell, sync::Arc, time::Duration};

use redis::Value;

use super::{
    care::{self, Care},
    connection::Connection,
    endpoint::Endpoint,
    errors,
    scripts::Script,
    socket::{Attempt, Trouble},
};
use crate::lock::ports::{Call, Cause, Fault};

pub struct Node {
    endpoint: Arc<Endpoint>,
    /// The connection, while nobody uses it. Whoever uses it takes it away: a signal handler that runs meanwhile and
    /// uses a lock itself opens one of its own.
    idle: Cell<Option<Box<Connection>>>,
    is_of_cluster: bool,
    is_asking: bool,
}

impl Node {
    pub fn new(endpoint: Arc<Endpoint>) -> Self {
        Self { endpoint, idle: Cell::new(None), is_of_cluster: false, is_asking: false }
    }

    pub fn of_cluster(endpoint: Arc<Endpoint>) -> Self {
        Self { is_of_cluster: true, ..Self::new(endpoint) }
    }

    /// A node of a cluster, to which others have sent us for this time: before each request it is told so.
    pub fn asking(endpoint: Arc<Endpoint>) -> Self {
        Self { is_asking: true, ..Self::of_cluster(endpoint) }
    }

    /// One request, and its reply; where replicas are to confirm it, an array of the reply and how many did.
    pub fn command(&self, call: &Call, care: Care, words: &[&[u8]]) -> Result<Value, Fault> {
        self.exchange(call, care, |connection, attempt| self.request(connection, attempt, care, words.iter().copied()))
    }

    /// Where replicas are to confirm it, they are waited for in the same round trip, for half of the time, so that it is
    /// known in any case whether it was carried out.
    fn request<'a>(
        &self,
        connection: &mut Connection,
        attempt: &Attempt,
        care: Care,
        words: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Value, Trouble> {
        if self.is_asking {
            connection.add([&b"ASKING"[..]].into_iter());
        }
        connection.add(words);
        if care.replicas > 0 {
            let (replicas, time) = (care.replicas.to_string(), (attempt.left() / 2).as_millis().max(1).to_string());
            connection.add([&b"WAIT"[..], replicas.as_bytes(), time.as_bytes()].into_iter());
        }
        connection.send(attempt)?;
        let asking = if self.is_asking { connection.reply(attempt)? } else { Value::Okay };
        let value = connection.reply(attempt)?;
        // Where both are refused, it is because of this one.
        let value = match (asking, value) {
            (asking @ Value::ServerError(_), Value::ServerError(_)) => asking,
            (_, value) => value,
        };
        if care.replicas == 0 {
            return Ok(value);
        }
        // What is busy needs no confirmation, which would take its time where there are too few replicas.
        let is_busy = matches!(value, Value::Nil | Value::Array(_));
        let until = if is_busy { attempt.clock.now().plus(HEALTHY).min(attempt.deadline) } else { attempt.deadline };
        let confirmed = match connection.reply(&Attempt { deadline: until, ..*attempt }) {
            Ok(confirmed) => Some(confirmed),
            Err(Trouble::TimedOut(_)) if is_busy => None,
            Err(trouble) => return Err(trouble),
        };
        connection.is_spent = confirmed.is_none();
        Ok(match value {
            Value::ServerError(_) => value,
            value => Value::Array(vec![value, confirmed.unwrap_or(Value::Nil)]),
        })
    }

    /// One run of a script, with those arguments that there are. A server that does not know it, after a restart or
    /// `SCRIPT FLUSH`, is given its text.
    pub fn script(
        &self,
        call: &Call,
        care: Care,
        script: &Script,
        keys: &[&[u8]],
        arguments: &[Option<&[u8]>],
    ) -> Result<Value, Fault> {
        let count = [b'0' + keys.len() as u8];
        let rest = || keys.iter().copied().chain(arguments.iter().copied().flatten());
        self.exchange(call, care, |connection, attempt| {
            let known = [b"EVALSHA", script.sha().as_bytes(), &count];
            let whole = [&b"EVAL"[..], script.text().as_bytes(), &count];
            if care.replicas > 0 {
                // To hear that it is not known would take as long as replicas that are missing are waited for.
                return self.request(connection, attempt, care, whole.into_iter().chain(rest()));
            }
            match self.request(connection, attempt, care, known.into_iter().chain(rest()))? {
                Value::ServerError(error) if error.code() == "NOSCRIPT" => {
                    self.request(connection, attempt, care, whole.into_iter().chain(rest()))
                }
                reply => Ok(reply),
            }
        })
    }

    fn exchange(
        &self,
        call: &Call,
        care: Care,
        talk: impl Fn(&mut Connection, &Attempt) -> Result<Value, Trouble>,
    ) -> Result<Value, Fault> {
        let process = call.interrupt.process();
        let (mut connection, mut answer) = self.ask_once(call, care, &talk)?;
        if is_worth_a_new_connection(&answer) {
            (connection, answer) = self.ask_once(call, care, &talk)?;
        }
        if matches!(answer, Err(Trouble::Unsent)) {
            // A server that does not want us says why before it closes.
            let said = connection.reply(&Attempt::new(call, call.limits.command));
            answer = said.map_err(|_| Trouble::Unsent);
        }
        if call.interrupt.process() != process {
            return Err(self.endpoint.fault(Cause::Forked));
        }
        match answer {
            Ok(Value::ServerError(error)) if errors::is_unasked(&error) => {
                Err(self.endpoint.fault(Cause::Unreachable(errors::in_words(&error))))
            }
            Ok(Value::ServerError(error)) if errors::is_refusal_to_talk(&error) => {
                Err(self.endpoint.fault(Cause::TurnedAway(errors::in_words(&error))))
            }
            Ok(Value::ServerError(error)) => {
                let cause = self.explained(errors::cause(&error));
                // Where the server is found anew, there may be another one by now.
                if !(self.endpoint.fails_over() && matches!(cause, Cause::NotNow(_))) {
                    self.put_back(connection, call);
                }
                Err(self.endpoint.fault(cause))
            }
            Ok(value) => {
                self.put_back(connection, call);
                Ok(value)
            }
            Err(trouble @ Trouble::Unsent) => Err(self.endpoint.fault(Cause::Unreachable(trouble.to_string()))),
            Err(trouble) => Err(self.endpoint.fault(Cause::NoAnswer(trouble.to_string()))),
        }
    }

    fn ask_once(
        &self,
        call: &Call,
        care: Care,
        talk: &Talk,
    ) -> Result<(Box<Connection>, Result<Value, Trouble>), Fault> {
        let was_stopped = call.interrupt.stopped();
        let mut connection = self.connection(call)?;
        if call.interrupt.stopped() && !was_stopped {
            // Nothing was sent, and nobody waits for the answer any more.
            return Err(self.endpoint.fault(Cause::Unreachable(Trouble::Stopped.to_string())));
        }
        if let Some(guard) = care.guard {
            connection = self.old_enough(connection, guard, call)?;
        }
        let answer = talk(&mut connection, &Attempt::new(call, call.limits.command));
        Ok((connection, answer))
    }

    /// The connection, unless its server has not been up for so long. A connection leads to one run of a server: it is
    /// asked once.
    fn old_enough(
        &self,
        mut connection: Box<Connection>,
        guard: Duration,
        call: &Call,
    ) -> Result<Box<Connection>, Fault> {
        let started = match connection.started.take() {
            Some(started @ Ok(_)) => started,
            // What was an error may be none now.
            None | Some(Err(_)) => {
                let attempt = Attempt::new(call, call.limits.command);
                match connection.request(&attempt, [&b"INFO"[..], b"server"].into_iter()) {
                    Ok(info) => care::started(&info, call.clock.now()),
                    Err(trouble) => return Err(self.endpoint.fault(Cause::Unreachable(trouble.to_string()))),
                }
            }
        };
        let too_young = care::too_young(&started, guard, call.clock.now());
        connection.started = Some(started);
        match too_young {
            None => Ok(connection),
            Some(why) => {
                self.put_back(connection, call);
                Err(self.endpoint.fault(Cause::Unasked(why)))
            }
        }
    }

    fn connection(&self, call: &Call) -> Result<Box<Connection>, Fault> {
        let now = call.clock.now();
        if now < call.until
            && let Some(connection) = self.idle.take().filter(|connection| connection.is_usable(now))
        {
            return Ok(connection);
        }
        self.endpoint.connect(call)
    }

    fn put_back(&self, mut connection: Box<Connection>, call: &Call) {
        connection.used(call.clock.now());
        self.idle.set(Some(connection));
    }

    /// With what people may have meant, where it is said by a server of another kind than was named.
    fn explained(&self, cause: Cause) -> Cause {
        if self.is_of_cluster || self.endpoint.fails_over() {
            return cause;
        }
        match cause {
            Cause::NotNow(text) if errors::is_redirect(&text) => {
                Cause::NotNow(format!("{text} (it is a node of a cluster, whose address is redis+cluster://…)"))
            }
            Cause::Answered(text) if text.starts_with("ERR unknown command") => {
                Cause::Answered(format!("{text} (if it is a Sentinel, the address is redis+sentinel://…)"))
            }
            cause => cause,
        }
    }

    /// The next request goes on a new connection.
    pub fn find_anew(&self) {
        self.idle.set(None);
    }

    /// For an answer that is none of those that a request has.
    pub fn unexpected(&self) -> Fault {
        // A connection whose answers are not understood is not used again.
        self.idle.set(None);
        self.endpoint.fault(Cause::NoAnswer("what came is no answer to the request".into()))
    }
}

/// Replicas that are well have confirmed within this.
const HEALTHY: Duration = Duration::from_millis(5);

type Talk<'a> = dyn Fn(&mut Connection, &Attempt) -> Result<Value, Trouble> + 'a;

/// The request surely did not run: the connection was closed after we had looked at it, or it leads to a server that
/// is the primary no more, while the address may lead to another one by now.
fn is_worth_a_new_connection(answer: &Result<Value, Trouble>) -> bool {
    match answer {
        Err(Trouble::Unsent) => true,
        Ok(Value::ServerError(error)) => matches!(&*errors::code(error), "READONLY" | "MASTERDOWN"),
        _ => false,
    }
}
