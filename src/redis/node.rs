//! One server: a connection that is opened when it is needed, lives for the process, and is checked by use.

use std::cell::Cell;

use redis::{ServerError, Value};

use super::{
    connection::Connection,
    dial,
    scripts::Script,
    servers::Server,
    socket::{Attempt, Trouble},
};
use crate::lock::ports::{Call, Cause, Fault};

pub struct Node {
    server: Server,
    /// The connection, while nobody uses it. Whoever uses it takes it away: a signal handler that runs meanwhile and
    /// uses a lock itself opens one of its own.
    idle: Cell<Option<Box<Connection>>>,
    tls: TlsConfig,
}

impl Node {
    pub fn new(server: Server) -> Self {
        Self { server, idle: Cell::new(None), tls: TlsConfig::default() }
    }

    pub fn name(&self) -> &str {
        self.server.name()
    }

    /// One request, written by `write`, and its reply.
    pub fn command(&self, call: &Call, write: impl Fn(&mut redis::Cmd)) -> Result<Value, Fault> {
        self.exchange(call, |connection, attempt| connection.request(attempt, &write))
    }

    /// One run of a script. A server that does not know it, after a restart or `SCRIPT FLUSH`, is given its text.
    pub fn script(&self, call: &Call, script: &Script, key: &[u8], arguments: &[&[u8]]) -> Result<Value, Fault> {
        let write = |command: &mut redis::Cmd, name: &str, body: &str| {
            command.arg(name).arg(body).arg("1").arg(key);
            for argument in arguments {
                command.arg(argument);
            }
        };
        self.exchange(call, |connection, attempt| {
            let reply = connection.request(attempt, |command| write(command, "EVALSHA", script.sha()))?;
            match reply {
                Value::ServerError(error) if error.code() == "NOSCRIPT" => {
                    connection.request(attempt, |command| write(command, "EVAL", script.text()))
                }
                reply => Ok(reply),
            }
        })
    }

    fn exchange(
        &self,
        call: &Call,
        talk: impl Fn(&mut Connection, &Attempt) -> Result<Value, Trouble>,
    ) -> Result<Value, Fault> {
        let process = call.interrupt.process();
        let (mut connection, mut answer) = self.ask_once(call, &talk)?;
        if is_worth_a_new_connection(&answer) {
            (connection, answer) = self.ask_once(call, &talk)?;
        }
        if matches!(answer, Err(Trouble::Unsent)) {
            // A server that does not want us says why before it closes.
            let said = connection.reply(&Attempt::new(call, call.limits.command));
            answer = said.map_err(|_| Trouble::Unsent);
        }
        if call.interrupt.process() != process {
            return Err(self.fault(Cause::Forked));
        }
        match answer {
            Ok(Value::ServerError(error)) if is_refusal_to_talk(&error) => {
                Err(self.fault(Cause::Unreachable(in_words(&error))))
            }
            Ok(Value::ServerError(error)) => {
                self.put_back(connection, call);
                Err(self.fault(Cause::Answered(in_words(&error))))
            }
            Ok(value) => {
                self.put_back(connection, call);
                Ok(value)
            }
            Err(trouble @ Trouble::Unsent) => Err(self.fault(Cause::Unreachable(trouble.to_string()))),
            Err(trouble) => Err(self.fault(Cause::NoAnswer(trouble.to_string()))),
        }
    }

    fn ask_once(&self, call: &Call, talk: &Talk) -> Result<(Box<Connection>, Result<Value, Trouble>), Fault> {
        let was_stopped = call.interrupt.stopped();
        let mut connection = self.connection(call)?;
        if call.interrupt.stopped() && !was_stopped {
            // Nothing was sent, and nobody waits for the answer any more.
            return Err(self.fault(Cause::Unreachable(Trouble::Stopped.to_string())));
        }
        let answer = talk(&mut connection, &Attempt::new(call, call.limits.command));
        Ok((connection, answer))
    }

    fn connection(&self, call: &Call) -> Result<Box<Connection>, Fault> {
        if call.clock.now() >= call.until {
            // What is sent now is answered too late.
            return Err(self.fault(Cause::Unreachable("no time is left for a request".into())));
        }
        if let Some(connection) = self.idle.take().filter(|connection| connection.is_usable(call.clock.now())) {
            return Ok(connection);
        }
        let attempt = Attempt::unless_stopped(call, call.limits.connect);
        dial::open(&self.server, &self.tls, &attempt).map(Box::new).map_err(|trouble| match trouble {
            Trouble::Forked => self.fault(Cause::Forked),
            trouble => self.fault(Cause::Unreachable(trouble.to_string())),
        })
    }

    fn put_back(&self, mut connection: Box<Connection>, call: &Call) {
        connection.used(call.clock.now());
        self.idle.set(Some(connection));
    }

    /// For an answer that is none of those that a request has.
    pub fn unexpected(&self) -> Fault {
        // A connection whose answers are not understood is not used again.
        self.idle.set(None);
        self.fault(Cause::NoAnswer("what came is no answer to the request".into()))
    }

    fn fault(&self, cause: Cause) -> Fault {
        let secret = self.server.password.as_deref().unwrap_or_default();
        let cause = match cause {
            Cause::Answered(text) => Cause::Answered(without(secret, &text)),
            Cause::Unreachable(text) => Cause::Unreachable(without(secret, &text)),
            cause => cause,
        };
        Fault { server: self.name().into(), cause }
    }
}

type Talk<'a> = dyn Fn(&mut Connection, &Attempt) -> Result<Value, Trouble> + 'a;

/// The request surely did not run: the connection was closed after we had looked at it, or it leads to a server that
/// is the primary no more, while the address may lead to another one by now.
fn is_worth_a_new_connection(answer: &Result<Value, Trouble>) -> bool {
    match answer {
        Err(Trouble::Unsent) => true,
        Ok(Value::ServerError(error)) => matches!(error.code(), "READONLY" | "MASTERDOWN"),
        _ => false,
    }
}

/// The server does not talk to us at all: what is wrong is the connection, and not the command.
fn is_refusal_to_talk(error: &ServerError) -> bool {
    matches!(error.code(), "NOAUTH" | "WRONGPASS") || is_unasked(error)
}

/// What a server says to a new connection before it closes it, where an answer is expected.
pub fn is_unasked(error: &ServerError) -> bool {
    error.code() == "DENIED" || error.details().is_some_and(|details| details.starts_with("max number of clients"))
}

/// Whatever a server or a proxy repeats of what it was sent. A secret of a few letters is none, and stands in any text.
pub fn without(secret: &str, text: &str) -> String {
    if secret.len() < 4 { text.into() } else { text.replace(secret, "***") }
}

/// The server's error, without what it repeats of the request: that may hold a token or a password.
pub fn in_words(error: &ServerError) -> String {
    let details = error.details().unwrap_or_default();
    let details = details.split("with args beginning with").next().unwrap_or_default();
    // Where in which script it happened is for us to know.
    let details = details.split(" script: ").next().unwrap_or_default();
    format!("{} {}", error.code(), details.trim_end_matches([' ', ',']))
}

#[cfg(feature = "tls")]
#[derive(Default)]
pub struct TlsConfig(std::cell::OnceCell<std::sync::Arc<rustls::ClientConfig>>);

#[cfg(feature = "tls")]
impl TlsConfig {
    /// Read when the first connection needs it, and kept.
    pub fn get(&self, files: &super::servers::TlsFiles) -> Result<std::sync::Arc<rustls::ClientConfig>, Trouble> {
        if let Some(config) = self.0.get() {
            return Ok(config.clone());
        }
        let config = super::tls::config(files)?;
        Ok(self.0.get_or_init(|| config).clone())
    }
}

#[cfg(not(feature = "tls"))]
#[derive(Default)]
pub struct TlsConfig(());
