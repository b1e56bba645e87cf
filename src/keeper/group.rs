//! The keeper's connections to what one address names: one server, or a cluster with one connection for each node.

use std::sync::Arc;

use super::{book::Due, link::Link};
use crate::lock::{ports::RenewalServer, time::Moment};

pub struct Group {
    server: Arc<dyn RenewalServer>,
    links: Vec<Link>,
}

impl Group {
    pub fn new(server: Arc<dyn RenewalServer>) -> Self {
        Self { server, links: Vec::new() }
    }

    pub fn add(&mut self, due: Due, now: Moment) {
        let server = self.server.node(due.lease.key()).unwrap_or_else(|| self.server.clone());
        if let Some(link) = self.links.iter_mut().find(|link| link.is_to(&server)) {
            return link.add(due, now);
        }
        let mut link = Link::new(server, now);
        link.add(due, now);
        self.links.push(link);
    }

    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }

    pub fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut()
    }

    /// False: there are none left.
    pub fn keep_used(&mut self, now: Moment) -> bool {
        self.links.retain(|link| !link.is_unused(now));
        !self.links.is_empty()
    }
}
