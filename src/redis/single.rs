//! The store of one server: its answers, as the engine knows them.

use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

use redis::Value;

use super::{
    care::Care, endpoint::Endpoint, errors, node::Node, scripts::Scripts, servers::Server, wakeup::Subscriber,
};
use crate::lock::{
    error::seconds,
    fence::Fence,
    keys::Key,
    options::Terms,
    ports::{Busy, Call, Cause, Fault, Freed, Occupant, Renewal, Store, Subscription, Vote},
    queue::{Place, Queued},
    token::{Holder, Token},
    ttl::Ttl,
};

pub struct Single {
    endpoint: Arc<Endpoint>,
    pub(super) node: Node,
    pub(super) scripts: Rc<Scripts>,
    pub(super) subscriber: Rc<Subscriber>,
    /// The next connection is to be to whoever is the primary then, once this one has freed what it was given.
    is_in_doubt: Cell<bool>,
}

impl Single {
    pub fn new(server: Server) -> Self {
        let endpoint = Arc::new(Endpoint::new(server));
        Self {
            node: Node::new(endpoint.clone()),
            scripts: Rc::new(Scripts::new()),
            subscriber: Subscriber::new(endpoint.clone()),
            is_in_doubt: Cell::new(false),
            endpoint,
        }
    }

    /// A node of a cluster. `is_asking`: one to which others have sent us for this time.
    pub(super) fn of_cluster(server: Server, scripts: Rc<Scripts>, is_asking: bool) -> Self {
        let endpoint = Arc::new(Endpoint::new(server));
        let node = if is_asking { Node::asking(endpoint.clone()) } else { Node::of_cluster(endpoint.clone()) };
        let subscriber = Subscriber::of_cluster(endpoint.clone());
        Self { node, scripts, subscriber, is_in_doubt: Cell::new(false), endpoint }
    }
}

impl Single {
    /// `ask`, with these keys alone.
    pub(super) fn ask_with(
        &self,
        keys: &[&[u8]],
        token: &Token,
        terms: Terms,
        place: Option<&Place>,
        call: &Call,
    ) -> Vote {
        let ttl = terms.ttl.as_millis().to_string();
        let entry = place.map(|place| place.entry(token));
        let ticket = place.and_then(|place| place.ticket).map(|ticket| ticket.to_string());
        let entry = entry.as_deref();
        let ticket = ticket.as_deref().map(str::as_bytes);
        let is_told = place.map(|place| if place.is_told { &b"1"[..] } else { b"0" });
        let arguments = [Some(token.as_bytes()), Some(ttl.as_bytes()), entry, is_told, ticket];
        match split(self.node.script(call, terms.into(), &self.scripts.ask, keys, &arguments), terms) {
            Ok((value, confirmed)) => match vote(&value, terms) {
                Some(Vote::Granted(fence)) => self.confirmed(fence, confirmed, terms, call),
                Some(vote) => vote,
                None => Vote::Unknown(self.node.unexpected()),
            },
            Err(fault) => Vote::Unknown(without(token, fault)),
        }
    }

    /// `leave`, with these keys alone.
    pub(super) fn leave_with(&self, keys: &[&[u8]], token: &Token, place: Option<&Place>, call: &Call) -> Freed {
        let entry = place.map(|place| place.entry(token));
        let arguments = [Some(token.as_bytes()), entry.as_deref()];
        let answer = self.node.script(call, Care::default(), &self.scripts.leave, keys, &arguments);
        if self.is_in_doubt.take() {
            self.node.find_anew();
        }
        match answer {
            Ok(Value::Int(1)) => Freed::Freed,
            Ok(Value::Int(0)) => Freed::NotOurs,
            Ok(_) => Freed::Unknown(self.node.unexpected()),
            Err(fault) => Freed::Unknown(without(token, fault)),
        }
    }

    /// What was granted, if enough replicas have it.
    fn confirmed(&self, fence: Option<Fence>, confirmed: Option<Value>, terms: Terms, call: &Call) -> Vote {
        match confirmed {
            None => Vote::Granted(fence),
            Some(Value::Int(count)) if count >= i64::from(terms.min_replicas) => Vote::Granted(fence),
            Some(Value::Int(count)) => {
                let why = format!(
                    "{count} of {} replicas confirmed it within {}",
                    terms.min_replicas,
                    seconds(call.limits.command / 2)
                );
                // It may have been left alone, because another is the primary by now.
                self.is_in_doubt.set(self.endpoint.fails_over());
                Vote::Unknown(self.endpoint.fault(Cause::Unconfirmed(why)))
            }
            Some(Value::ServerError(error)) => {
                let why = format!("replicas cannot be waited for: {}", errors::in_words(&error));
                Vote::Unknown(self.endpoint.fault(Cause::Unconfirmable(why)))
            }
            Some(_) => Vote::Unknown(self.node.unexpected()),
        }
    }
}

/// A reply, and how many replicas confirmed it, where they were asked.
fn split(reply: Result<Value, Fault>, terms: Terms) -> Result<(Value, Option<Value>), Fault> {
    match reply? {
        Value::Array(parts) if terms.min_replicas > 0 => {
            let mut parts = parts.into_iter();
            Ok((parts.next().unwrap_or(Value::Nil), parts.next()))
        }
        value => Ok((value, None)),
    }
}

/// The fault, saying nothing of the token.
pub(super) fn without(token: &Token, mut fault: Fault) -> Fault {
    if let (Cause::Answered(text) | Cause::NotNow(text), Ok(token)) =
        (&mut fault.cause, std::str::from_utf8(token.as_bytes()))
    {
        *text = errors::without(token, text);
    }
    fault
}

impl Store for Single {
    fn name(&self) -> &str {
        self.endpoint.name()
    }

    fn fails_over(&self) -> bool {
        self.endpoint.fails_over()
    }

    fn try_acquire(&self, key: &Key, token: &Token, terms: Terms, call: &Call) -> Vote {
        if terms.fencing {
            return self.ask(key, token, terms, None, call);
        }
        let ttl = terms.ttl.as_millis().to_string();
        let words = [b"SET", key.as_bytes(), token.as_bytes(), b"NX", b"PX", ttl.as_bytes()];
        match split(self.node.command(call, terms.into(), &words), terms) {
            Ok((Value::Okay, confirmed)) => self.confirmed(None, confirmed, terms, call),
            Ok((Value::Nil, _)) => Vote::Refused(None),
            Ok(_) => Vote::Unknown(self.node.unexpected()),
            Err(fault) => Vote::Unknown(without(token, fault)),
        }
    }

    fn ask(&self, key: &Key, token: &Token, terms: Terms, place: Option<&Place>, call: &Call) -> Vote {
        let fence = terms.fencing.then(|| key.fence());
        let mut keys = vec![key.as_bytes(), key.queue()];
        keys.extend(fence.as_deref());
        self.ask_with(&keys, token, terms, place, call)
    }

    fn leave(&self, key: &Key, token: &Token, place: Option<&Place>, call: &Call) -> Freed {
        self.leave_with(&[key.as_bytes(), key.queue()], token, place, call)
    }

    fn refresh(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Renewal {
        let ttl = ttl.as_millis().to_string();
        let arguments = [token.as_bytes(), ttl.as_bytes()];
        match self.node.script(call, Care::default(), &self.scripts.refresh, &[key.as_bytes()], &arguments.map(Some)) {
            Ok(Value::Int(1)) => Renewal::Renewed,
            Ok(Value::Int(0)) => Renewal::Lost,
            Ok(_) => Renewal::Unknown(self.node.unexpected()),
            Err(fault) => Renewal::Unknown(without(token, fault)),
        }
    }

    fn occupant(&self, key: &Key, call: &Call) -> Result<Option<Occupant>, Fault> {
        match self.node.script(call, Care::default(), &self.scripts.occupant, &[key.as_bytes()], &[])? {
            Value::Nil => Ok(None),
            Value::Array(parts) => match parts.as_slice() {
                [value, left] => occupant(value, left).map(Some).ok_or_else(|| self.node.unexpected()),
                _ => Err(self.node.unexpected()),
            },
            _ => Err(self.node.unexpected()),
        }
    }

    fn subscription(&self, key: &Key) -> Result<Box<dyn Subscription>, Fault> {
        Ok(Box::new(self.subscriber.listener(key)?))
    }
}

/// What `ask` answered. None: that is no answer of its.
pub(super) fn vote(reply: &Value, terms: Terms) -> Option<Vote> {
    match reply {
        Value::Int(1) if !terms.fencing => Some(Vote::Granted(None)),
        Value::Int(fence) if terms.fencing => Some(Vote::Granted(Some(Fence::new(u64::try_from(*fence).ok()?)?))),
        reply => busy(reply).map(|busy| Vote::Refused(Some(busy))),
    }
}

/// `{value, milliseconds left}`, and of who waits also `ticket, number of those before it, whether it is heard`.
fn busy(reply: &Value) -> Option<Busy> {
    let Value::Array(parts) = reply else { return None };
    let (occupant, queued) = match parts.as_slice() {
        [value, left] => (occupant(value, left)?, None),
        [value, left, Value::Int(ticket), Value::Int(ahead), Value::Int(heard)] => {
            let (ticket, ahead) = (u64::try_from(*ticket).ok()?, u64::try_from(*ahead).ok()?);
            let heard = (*heard != 2).then_some(*heard == 1);
            (occupant(value, left)?, Some(Queued { ticket, ahead, heard }))
        }
        _ => return None,
    };
    Some(Busy { holder: occupant.holder, queued })
}

pub(super) fn occupant(value: &Value, left: &Value) -> Option<Occupant> {
    let (Value::BulkString(value), Value::Int(left)) = (value, left) else { return None };
    let remaining = u64::try_from(*left).ok().map(Duration::from_millis);
    Some(Occupant { token: Token::from_bytes(value), holder: Holder::of(value, remaining) })
}
