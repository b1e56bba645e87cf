//! The store of a cluster: each request goes to the node that serves its key's slot, as if that were the only server.
//!
//! While a slot is moved from one node to another, its keys are moved one by one. A request with more than one key is
//! refused then, unless all of them are on one side; so the lock's key goes alone, which is on one side at any moment:
//! there is no queue for us until the slot has moved. Who releases deletes the key, who waits looks for itself. A fence
//! can not be had without its key: who wants one waits until the slot has moved.

mod learn;
mod listener;
mod nodes;
mod renewal;
mod slots;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
};

use self::{
    listener::ClusterListener,
    nodes::{Follow, Nodes},
    renewal::RenewingCluster,
    slots::are_apart,
};
use super::{care::Care, servers::Seeds, single::Single};
use crate::lock::{
    keys::Key,
    options::Terms,
    ports::{Busy, Call, Fault, Freed, Occupant, Renewal, Store, Subscription, Vote},
    queue::Place,
    slot,
    token::Token,
    ttl::Ttl,
};

#[derive(Clone)]
pub struct Cluster(Rc<Nodes>);

impl Cluster {
    pub fn new(seeds: Seeds) -> Self {
        Self(Rc::new(Nodes::new(seeds)))
    }

    /// The same for the keeper, with which it shares nothing. It begins with what is known by now.
    pub fn for_keeper(&self) -> RenewingCluster {
        RenewingCluster::new(self.0.seeds.clone(), self.0.slots())
    }

    fn ask_node<R>(
        &self,
        key: &Key,
        follow: Follow,
        call: &Call,
        request: impl Fn(&Single) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        self.0.ask(slot::of(key.as_bytes()), follow, call, request)
    }

    /// `ask` with the key alone.
    fn ask_alone(
        &self,
        key: &Key,
        token: &Token,
        terms: Terms,
        place: Option<&Place>,
        call: &Call,
    ) -> Result<Vote, Fault> {
        let vote = self.ask_node(key, Follow::All, call, |node| {
            known(node.ask_with(&[key.as_bytes()], token, terms, None, call))
        })?;
        if matches!(vote, Vote::Granted(_)) {
            self.leave_queue(key, token, place, call);
        }
        Ok(vote)
    }

    /// `leave` with the key alone.
    fn leave_alone(&self, key: &Key, token: &Token, place: Option<&Place>, call: &Call) -> Result<Freed, Fault> {
        let freed = self.ask_node(key, Follow::All, call, |node| {
            match node.leave_with(&[key.as_bytes()], token, None, call) {
                Freed::Unknown(fault) => Err(fault),
                freed => Ok(freed),
            }
        })?;
        self.leave_queue(key, token, place, call);
        Ok(freed)
    }

    /// A place that is left behind would be offered the key once, if what hears for it goes on to hear.
    fn leave_queue(&self, key: &Key, token: &Token, place: Option<&Place>, call: &Call) {
        if let Some(place) = place {
            let words = [b"ZREM", key.queue(), &place.entry(token)];
            let _ = self.ask_node(key, Follow::All, call, |node| node.node.command(call, Care::default(), &words));
        }
    }
}

impl Store for Cluster {
    fn name(&self) -> &str {
        self.0.seeds.name()
    }

    fn fails_over(&self) -> bool {
        true
    }

    fn part(&self, key: &Key) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.serving(slot::of(key.as_bytes())).0.hash(&mut hasher);
        hasher.finish()
    }

    fn try_acquire(&self, key: &Key, token: &Token, terms: Terms, call: &Call) -> Vote {
        if terms.fencing {
            return self.ask(key, token, terms, None, call);
        }
        let vote = self.ask_node(key, Follow::All, call, |node| known(node.try_acquire(key, token, terms, call)));
        vote.unwrap_or_else(Vote::Unknown)
    }

    fn ask(&self, key: &Key, token: &Token, terms: Terms, place: Option<&Place>, call: &Call) -> Vote {
        let follow = if terms.fencing { Follow::All } else { Follow::Moves };
        let vote = self.ask_node(key, follow, call, |node| known(node.ask(key, token, terms, place, call)));
        let vote = match vote {
            Err(fault) if are_apart(&fault) && terms.fencing => match self.occupant(key, call) {
                // What is not for us to have now may be somebody's.
                Ok(Some(Occupant { token: other, holder })) if other != *token => {
                    Ok(Vote::Refused(Some(Busy { holder, queued: None })))
                }
                _ => Err(fault),
            },
            Err(fault) if are_apart(&fault) => self.ask_alone(key, token, terms, place, call),
            vote => vote,
        };
        vote.unwrap_or_else(Vote::Unknown)
    }

    fn leave(&self, key: &Key, token: &Token, place: Option<&Place>, call: &Call) -> Freed {
        let freed = self.ask_node(key, Follow::Moves, call, |node| match node.leave(key, token, place, call) {
            Freed::Unknown(fault) => Err(fault),
            freed => Ok(freed),
        });
        let freed = match freed {
            Err(fault) if are_apart(&fault) => self.leave_alone(key, token, place, call),
            freed => freed,
        };
        freed.unwrap_or_else(Freed::Unknown)
    }

    fn refresh(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Renewal {
        let renewal = self.ask_node(key, Follow::All, call, |node| match node.refresh(key, token, ttl, call) {
            Renewal::Unknown(fault) => Err(fault),
            renewal => Ok(renewal),
        });
        renewal.unwrap_or_else(Renewal::Unknown)
    }

    fn occupant(&self, key: &Key, call: &Call) -> Result<Option<Occupant>, Fault> {
        self.ask_node(key, Follow::All, call, |node| node.occupant(key, call))
    }

    fn subscription(&self, key: &Key) -> Result<Box<dyn Subscription>, Fault> {
        Ok(Box::new(ClusterListener::new(self.0.clone(), key)?))
    }
}

fn known(vote: Vote) -> Result<Vote, Fault> {
    match vote {
        Vote::Unknown(fault) => Err(fault),
        vote => Ok(vote),
    }
}
