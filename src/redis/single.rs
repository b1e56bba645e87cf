//! The store of one server: its answers, as the engine knows them.

use std::time::Duration;

use redis::Value;

use super::{
    node::{self, Node},
    scripts::Scripts,
    servers::Server,
};
use crate::lock::{
    keys::Key,
    ports::{Call, Cause, Fault, Freed, Occupant, Renewal, Store, Vote},
    token::{Holder, Token},
    ttl::Ttl,
};

pub struct Single {
    node: Node,
    scripts: Scripts,
}

impl Single {
    pub fn new(server: Server) -> Self {
        Self { node: Node::new(server), scripts: Scripts::new() }
    }
}

/// The fault, saying nothing of the token.
fn without(token: &Token, mut fault: Fault) -> Fault {
    if let (Cause::Answered(text), Ok(token)) = (&mut fault.cause, std::str::from_utf8(token.as_bytes())) {
        *text = node::without(token, text);
    }
    fault
}

impl Store for Single {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn try_acquire(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Vote {
        let reply = self.node.command(call, |command| {
            command.arg("SET").arg(key.as_bytes()).arg(token.as_bytes()).arg("NX").arg("PX").arg(ttl.as_millis());
        });
        match reply {
            Ok(Value::Okay) => Vote::Granted,
            Ok(Value::Nil) => Vote::Refused(None),
            Ok(_) => Vote::Unknown(self.node.unexpected()),
            Err(fault) => Vote::Unknown(without(token, fault)),
        }
    }

    fn ask(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Vote {
        let ttl = ttl.as_millis().to_string();
        let arguments = [token.as_bytes(), ttl.as_bytes()];
        match self.node.script(call, &self.scripts.ask, key.as_bytes(), &arguments) {
            Ok(Value::Int(1)) => Vote::Granted,
            Ok(value) => match occupant(&value) {
                Some(occupant) => Vote::Refused(Some(occupant.holder)),
                None => Vote::Unknown(self.node.unexpected()),
            },
            Err(fault) => Vote::Unknown(without(token, fault)),
        }
    }

    fn leave(&self, key: &Key, token: &Token, call: &Call) -> Freed {
        match self.node.script(call, &self.scripts.leave, key.as_bytes(), &[token.as_bytes()]) {
            Ok(Value::Int(1)) => Freed::Freed,
            Ok(Value::Int(0)) => Freed::NotOurs,
            Ok(_) => Freed::Unknown(self.node.unexpected()),
            Err(fault) => Freed::Unknown(without(token, fault)),
        }
    }

    fn refresh(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Renewal {
        let ttl = ttl.as_millis().to_string();
        let arguments = [token.as_bytes(), ttl.as_bytes()];
        match self.node.script(call, &self.scripts.refresh, key.as_bytes(), &arguments) {
            Ok(Value::Int(1)) => Renewal::Renewed,
            Ok(Value::Int(0)) => Renewal::Lost,
            Ok(_) => Renewal::Unknown(self.node.unexpected()),
            Err(fault) => Renewal::Unknown(without(token, fault)),
        }
    }

    fn occupant(&self, key: &Key, call: &Call) -> Result<Option<Occupant>, Fault> {
        match self.node.script(call, &self.scripts.occupant, key.as_bytes(), &[])? {
            Value::Nil => Ok(None),
            value => occupant(&value).map(Some).ok_or_else(|| self.node.unexpected()),
        }
    }
}

/// `{value, milliseconds left}`.
fn occupant(reply: &Value) -> Option<Occupant> {
    let Value::Array(parts) = reply else { return None };
    let [Value::BulkString(value), Value::Int(left)] = parts.as_slice() else { return None };
    let remaining = u64::try_from(*left).ok().map(Duration::from_millis);
    Some(Occupant { token: Token::from_bytes(value), holder: Holder::of(value, remaining) })
}
