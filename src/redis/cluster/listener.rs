//! What a waiter hears offers by in a cluster: a channel in its key's slot, on the node that serves it.
//!
//! When the slot moves, what is said there is not heard any more. The server says so, where channels have slots; or else
//! the next look at the key finds it out. The waiter then listens at the new place, by the same name.

use std::{cell::RefCell, rc::Rc};

use super::{nodes::Nodes, slots::Redirect};
use crate::{
    lock::{
        keys::Key,
        ports::{Call, Cause, Clock, Fault, Interrupt, Subscription, Woken},
        slot,
        time::Moment,
    },
    redis::wakeup::{Listener, Subscriber},
    sys::identity,
};

pub struct ClusterListener {
    nodes: Rc<Nodes>,
    slot: u16,
    ear: String,
    current: RefCell<Rc<Listener>>,
}

impl ClusterListener {
    pub fn new(nodes: Rc<Nodes>, key: &Key) -> Result<Self, Fault> {
        let drawn = identity::draw_name().and_then(|drawn| key.ear_in_slot(&drawn).ok_or("no name for it".into()));
        let ear =
            drawn.map_err(|error| Fault { server: nodes.seeds.name().into(), cause: Cause::Unreachable(error) })?;
        let slot = slot::of(key.as_bytes());
        let listener = nodes.serving(slot).1.subscriber.listener_by(key, ear.clone());
        Ok(Self { nodes, slot, ear, current: RefCell::new(Rc::new(listener)) })
    }

    /// No borrow is held while the host runs.
    fn current(&self) -> Rc<Listener> {
        self.current.borrow().clone()
    }

    /// None: another node serves the slot now.
    fn in_place(&self) -> Option<Rc<Listener>> {
        Some(self.current()).filter(|current| current.is_at(&self.nodes.serving(self.slot).1.subscriber))
    }

    fn at(&self, subscriber: &Rc<Subscriber>) -> Rc<Listener> {
        let current = self.current();
        if current.is_at(subscriber) {
            return current;
        }
        let moved = Rc::new(current.at(subscriber));
        self.current.replace(moved.clone());
        moved
    }
}

impl Subscription for ClusterListener {
    fn ear(&self) -> &str {
        &self.ear
    }

    fn begin(&self) -> u64 {
        self.current().begin()
    }

    fn is_alive(&self) -> bool {
        self.in_place().is_some_and(|listener| listener.is_alive())
    }

    fn listen(&self, call: &Call) -> Result<(), Fault> {
        let mut redirects = 0;
        loop {
            let (host, node) = self.nodes.serving(self.slot);
            let Err(fault) = self.at(&node.subscriber).listen(call) else { return Ok(()) };
            match Redirect::of(&fault, &host) {
                Some(Redirect::Moved(to)) if redirects < Nodes::MOST_REDIRECTS => self.nodes.moved(self.slot, &to),
                _ => {
                    self.nodes.note(&fault, &host);
                    return Err(fault);
                }
            }
            redirects += 1;
        }
    }

    fn sleep(&self, until: Moment, clock: &dyn Clock, interrupt: &dyn Interrupt) -> Woken {
        self.in_place().map_or(Woken::Deaf, |listener| listener.sleep(until, clock, interrupt))
    }
}
