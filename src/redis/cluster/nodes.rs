//! The nodes of a cluster, each with a connection of its own that is opened when it is first needed, and the way to the
//! one that serves a slot.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    time::Duration,
};

use super::{
    learn::learn,
    slots::{Doubt, Redirect, Slots, are_apart},
};
use crate::{
    lock::{
        ports::{Call, Cause, Fault},
        time::Moment,
    },
    redis::{care::Care, hosts::Host, scripts::Scripts, servers::Seeds, single::Single},
};

pub struct Nodes {
    pub seeds: Seeds,
    scripts: Rc<Scripts>,
    slots: RefCell<Slots>,
    singles: RefCell<HashMap<Host, Rc<Single>>>,
    /// For what others send us to for one request.
    asking: RefCell<HashMap<Host, Rc<Single>>>,
    learned: Cell<Moment>,
}

/// Where a request goes with its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// Wherever it is sent.
    All,
    /// Not to where its keys are about to be moved: some may be there, and some not yet.
    Moves,
}

impl Nodes {
    /// From node to node, each of which names another: no more than a slot that is moved in this moment may need.
    pub const MOST_REDIRECTS: usize = 5;
    /// After slots have moved, who serves what is asked for no more often than this.
    const SELDOM: Duration = Duration::from_secs(1);

    pub fn new(seeds: Seeds) -> Self {
        Self {
            slots: RefCell::new(Slots::new(seeds.hosts.clone())),
            seeds,
            scripts: Rc::new(Scripts::of_cluster()),
            singles: RefCell::default(),
            asking: RefCell::default(),
            learned: Cell::new(Moment::from_nanos(0)),
        }
    }

    /// What is known of who serves what.
    pub fn slots(&self) -> Slots {
        self.slots.borrow().clone()
    }

    /// One request to the node that serves the slot. It is repeated where a node says that it did not carry it out, and
    /// another one would.
    pub fn ask<R>(
        &self,
        slot: u16,
        follow: Follow,
        call: &Call,
        request: impl Fn(&Single) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        self.learn_if_in_doubt(call)?;
        let (mut host, mut node) = self.serving(slot);
        let mut redirects = 0;
        loop {
            let fault = match request(&node) {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            let redirect = Redirect::of(&fault, &host).filter(|_| redirects < Self::MOST_REDIRECTS);
            redirects += 1;
            (host, node) = match redirect {
                Some(Redirect::Moved(to)) => {
                    self.slots.borrow_mut().moved(slot, &to);
                    let node = self.single(&to);
                    (to, node)
                }
                Some(Redirect::Ask(to)) if follow == Follow::All => {
                    let node = self.asking(&to);
                    (to, node)
                }
                _ => {
                    self.note(&fault, &host);
                    return Err(fault);
                }
            };
        }
    }

    /// A fault that tells that another node may serve now what this one has served.
    pub fn note(&self, fault: &Fault, host: &Host) {
        if fault.may_pass() && !are_apart(fault) {
            self.slots.borrow_mut().failed(host);
        }
    }

    pub fn moved(&self, slot: u16, to: &Host) {
        self.slots.borrow_mut().moved(slot, to);
    }

    /// The node that serves the slot, as far as is known.
    pub fn serving(&self, slot: u16) -> (Host, Rc<Single>) {
        let host = self.slots.borrow().host(slot).clone();
        let node = self.single(&host);
        (host, node)
    }

    fn single(&self, host: &Host) -> Rc<Single> {
        self.kept(&self.singles, host, false)
    }

    fn asking(&self, host: &Host) -> Rc<Single> {
        self.kept(&self.asking, host, true)
    }

    fn kept(&self, among: &RefCell<HashMap<Host, Rc<Single>>>, host: &Host, is_asking: bool) -> Rc<Single> {
        let mut among = among.borrow_mut();
        if let Some(single) = among.get(host) {
            return single.clone();
        }
        let single = Rc::new(Single::of_cluster(self.seeds.node(host), self.scripts.clone(), is_asking));
        among.insert(host.clone(), single.clone());
        single
    }

    fn learn_if_in_doubt(&self, call: &Call) -> Result<(), Fault> {
        let doubt = self.slots.borrow().doubt();
        let is_due = match doubt {
            Doubt::None => return Ok(()),
            Doubt::Moved => call.clock.now().since(self.learned.get()) >= Self::SELDOM,
            Doubt::Failed => true,
        };
        if !is_due {
            return Ok(());
        }
        self.learned.set(call.clock.now());
        match self.learn(call) {
            Err(fault) if doubt == Doubt::Failed || fault.cause == Cause::Forked => Err(fault),
            _ => Ok(()),
        }
    }

    fn learn(&self, call: &Call) -> Result<(), Fault> {
        let hosts = self.slots.borrow_mut().candidates();
        learn(
            self.seeds.name(),
            &hosts,
            call,
            |host, call, words| self.single(host).node.command(call, Care::default(), words),
            |answer, host| self.slots.borrow_mut().learn(answer, host),
        )?;
        // Connections to those that serve nothing any more are closed.
        let slots = self.slots.borrow();
        self.singles.borrow_mut().retain(|host, _| slots.serves(host));
        self.asking.borrow_mut().clear();
        Ok(())
    }
}
