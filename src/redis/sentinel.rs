//! Finding the primary that Sentinels know by a name.
//!
//! They are asked one after another, and what one says is not believed before the server that it names says the same: in
//! a fail-over, some know earlier than others. All of it is one attempt. Who is silent uses up a share of its time: there
//! is one for each Sentinel that is left, and one for the primary.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use redis::Value;

use super::{
    connection::Connection,
    dial, errors,
    hosts::Host,
    servers::{Sentinels, Server},
    socket::{Attempt, Trouble},
};

/// `last`: which Sentinel answered last; it is asked first.
pub fn open(
    server: &Server,
    sentinels: &Sentinels,
    last: &AtomicUsize,
    attempt: &Attempt,
) -> Result<Connection, Trouble> {
    let first = last.load(Relaxed);
    let mut tried = Vec::new();
    let mut in_vain = InVain::default();
    let hosts = sentinels.hosts.iter().enumerate().cycle().skip(first);
    for ((index, sentinel), left) in hosts.zip((1..=sentinels.hosts.len()).rev()) {
        let primary = match ask(sentinels, sentinel, &attempt.share(left + 1)) {
            Ok(primary) => primary,
            Err(trouble) => {
                in_vain.add(&format!("{sentinel}"), trouble)?;
                continue;
            }
        };
        last.store(index, Relaxed);
        if tried.contains(&primary) {
            in_vain.reasons.push(format!("{sentinel} names {primary}, too"));
            continue;
        }
        // Another Sentinel may know better; if there is none, there is nothing to save the time for.
        match connect(server, &primary, &attempt.share(left.min(2))) {
            Ok(connection) => return Ok(connection),
            Err(trouble) => in_vain.add(&format!("{sentinel} names {primary}"), trouble)?,
        }
        tried.push(primary);
    }
    Err(in_vain.trouble(sentinels.password.as_deref().unwrap_or_default()))
}

/// Why those who were asked were of no use.
#[derive(Default)]
struct InVain {
    reasons: Vec<String>,
    /// One of them may be of use a moment later.
    may_pass: bool,
}

impl InVain {
    /// An error: nobody is to be asked any more.
    fn add(&mut self, whose: &str, trouble: Trouble) -> Result<(), Trouble> {
        let is_refused = matches!(trouble, Trouble::Refused(_));
        let why = match trouble {
            Trouble::Forked | Trouble::Stopped => return Err(trouble),
            // Its share of the time is of no interest.
            Trouble::TimedOut(_) => "no answer in time".into(),
            trouble => trouble.to_string(),
        };
        self.may_pass |= !is_refused;
        self.reasons.push(format!("{whose}: {why}"));
        Ok(())
    }

    fn trouble(self, secret: &str) -> Trouble {
        let text = format!("no Sentinel leads to the primary: {}", self.reasons.join("; "));
        let text = errors::without(secret, &text);
        if self.may_pass { Trouble::Other(text) } else { Trouble::Refused(text) }
    }
}

/// Where the primary is.
fn ask(sentinels: &Sentinels, sentinel: &Host, attempt: &Attempt) -> Result<Host, Trouble> {
    let (username, password) = (sentinels.username.as_deref(), sentinels.password.as_deref());
    let mut connection = dial::plain(&sentinel.name, sentinel.port, attempt)?;
    dial::introduce(&mut connection, username, password, 0, attempt)?;
    let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &sentinels.primary];
    match connection.request(attempt, words.into_iter().map(str::as_bytes))? {
        Value::Nil => Err(Trouble::Refused("it knows no primary of that name".into())),
        Value::ServerError(error) => Err(errors::trouble("", &error)),
        value => host(&value).ok_or_else(unexpected),
    }
}

/// `[name, port]`
fn host(value: &Value) -> Option<Host> {
    let Value::Array(parts) = value else { return None };
    let [Value::BulkString(name), Value::BulkString(port)] = parts.as_slice() else { return None };
    let text = |bytes| std::str::from_utf8(bytes).ok();
    Some(Host { name: text(name)?.into(), port: text(port)?.parse().ok()? })
}

fn connect(server: &Server, primary: &Host, attempt: &Attempt) -> Result<Connection, Trouble> {
    let (username, password) = (server.username.as_deref(), server.password.as_deref());
    let mut connection = dial::plain(&primary.name, primary.port, attempt)?;
    dial::introduce(&mut connection, username, password, server.database, attempt)?;
    let role = match connection.request(attempt, [&b"ROLE"[..]].into_iter())? {
        Value::ServerError(error) => return Err(errors::trouble("it does not say its role: ", &error)),
        Value::Array(parts) => parts.into_iter().next(),
        _ => None,
    };
    match role {
        Some(Value::BulkString(role)) if role == b"master" => Ok(connection),
        Some(Value::BulkString(role)) if role == b"slave" => Err(Trouble::Other("that is a replica".into())),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Trouble {
    Trouble::Other("what came is no answer to the request".into())
}
