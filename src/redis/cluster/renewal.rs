//! The nodes of a cluster, as the keeper knows them. It reaches each of them by itself, as if it were a server of its own,
//! so that one that is silent holds up nobody else's leases.
//!
//! The keeper's thread waits for nothing, and so follows nobody from node to node: what is learned of where a key is, its
//! next try goes by.

use std::{
    collections::HashMap,
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::{
    learn::learn,
    slots::{Doubt, Redirect, Slots, are_apart},
};
use crate::{
    lock::{
        keys::Key,
        lease::Lease,
        ports::{Call, Cause, Fault, Renewal, RenewalServer, Renewer},
        slot,
        ttl::Ttl,
    },
    redis::{
        care::Care,
        endpoint::Endpoint,
        hosts::Host,
        node::Node,
        renewer::RenewingServer,
        scripts::{self, Script},
        servers::Seeds,
    },
};

pub struct RenewingCluster(Arc<Shared>);

/// By the keeper's thread and those that open connections for it.
struct Shared {
    seeds: Seeds,
    renew: Arc<Script>,
    known: Mutex<Known>,
}

struct Known {
    slots: Slots,
    nodes: HashMap<Host, Arc<RenewingNode>>,
    /// For what others send us to for one request.
    asking: HashMap<Host, Arc<RenewingNode>>,
    /// Keys that are where their slot is about to be moved to: for their next try alone.
    gone_before: HashMap<Box<[u8]>, Host>,
}

struct RenewingNode {
    cluster: Weak<Shared>,
    host: Host,
    server: RenewingServer,
}

struct NodeRenewer {
    cluster: Weak<Shared>,
    host: Host,
    renewer: Box<dyn Renewer>,
    /// Those that are being renewed.
    leases: Vec<Arc<Lease>>,
}

impl RenewingCluster {
    pub fn new(seeds: Seeds, slots: Slots) -> Self {
        let (nodes, asking, gone_before) = (HashMap::new(), HashMap::new(), HashMap::new());
        let known = Mutex::new(Known { slots, nodes, asking, gone_before });
        Self(Arc::new(Shared { seeds, renew: Arc::new(scripts::renew()), known }))
    }
}

impl RenewalServer for RenewingCluster {
    fn name(&self) -> &str {
        self.0.seeds.name()
    }

    fn node(&self, key: &Key) -> Option<Arc<dyn RenewalServer>> {
        let known = &mut *self.0.known();
        let gone_to = known.gone_before.remove(key.as_bytes());
        let (host, among, is_asking) = match &gone_to {
            Some(host) => (host, &mut known.asking, true),
            None => (known.slots.host(slot::of(key.as_bytes())), &mut known.nodes, false),
        };
        if let Some(node) = among.get(host) {
            return Some(node.clone());
        }
        let server = RenewingServer::of_cluster(self.0.seeds.node(host), self.0.renew.clone(), is_asking);
        let node = Arc::new(RenewingNode { cluster: Arc::downgrade(&self.0), host: host.clone(), server });
        among.insert(host.clone(), node.clone());
        Some(node)
    }

    /// Not to be used where each key has a node.
    fn open(&self, _: &Call) -> Result<Box<dyn Renewer>, Fault> {
        Err(Fault { server: self.name().into(), cause: Cause::Unreachable("none of its nodes is known".into()) })
    }
}

impl Shared {
    const MOST_GONE_BEFORE: usize = 10_000;

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, host: &Host) {
        self.known().slots.failed(host);
    }

    fn note(&self, key: &Key, fault: &Fault, host: &Host) {
        let mut known = self.known();
        match Redirect::of(fault, host) {
            Some(Redirect::Moved(to)) => known.slots.moved(slot::of(key.as_bytes()), &to),
            Some(Redirect::Ask(to)) => {
                if known.gone_before.len() >= Self::MOST_GONE_BEFORE {
                    known.gone_before.clear();
                }
                known.gone_before.insert(key.as_bytes().into(), to);
            }
            None if fault.may_pass() && !are_apart(fault) => known.slots.failed(host),
            None => {}
        }
    }

    fn learn(&self, call: &Call) -> Result<(), Fault> {
        let hosts = self.known().slots.candidates();
        learn(
            self.seeds.name(),
            &hosts,
            call,
            |host, call, words| {
                Node::new(Arc::new(Endpoint::new(self.seeds.node(host)))).command(call, Care::default(), words)
            },
            |answer, host| self.known().slots.learn(answer, host),
        )
    }
}

impl RenewalServer for RenewingNode {
    fn name(&self) -> &str {
        self.server.name()
    }

    fn open(&self, call: &Call) -> Result<Box<dyn Renewer>, Fault> {
        let now = call.clock.now();
        // Nobody waits for it for longer.
        let call = Call { until: now.plus(call.limits.connect).min(call.until), ..*call };
        if let Some(cluster) = self.cluster.upgrade()
            && cluster.known().slots.doubt() != Doubt::None
            // Half of the time is for the connection, which may be to one that is as good as ever.
            && cluster.learn(&Call { until: now.plus(call.limits.connect / 2), ..call }).is_ok()
            && !cluster.known().slots.serves(&self.host)
        {
            let cause = Cause::NotNow("it serves nothing any more".into());
            return Err(Fault { server: self.name().into(), cause });
        }
        match self.server.open(&call) {
            Ok(renewer) => {
                let (cluster, host) = (self.cluster.clone(), self.host.clone());
                Ok(Box::new(NodeRenewer { cluster, host, renewer, leases: Vec::new() }))
            }
            Err(fault) => {
                if let Some(cluster) = self.cluster.upgrade() {
                    cluster.failed(&self.host);
                }
                Err(fault)
            }
        }
    }
}

impl Renewer for NodeRenewer {
    fn is_alive(&self) -> bool {
        self.renewer.is_alive()
    }

    fn begin(&mut self, leases: &[(&Arc<Lease>, Ttl)]) {
        self.leases.clear();
        self.leases.extend(leases.iter().map(|(lease, _)| Arc::clone(lease)));
        self.renewer.begin(leases);
    }

    fn go_on(&mut self) -> Result<Option<Vec<Renewal>>, Fault> {
        let answers = self.renewer.go_on();
        let Some(cluster) = self.cluster.upgrade() else { return answers };
        match &answers {
            Ok(Some(answers)) => {
                for (lease, answer) in self.leases.iter().zip(answers) {
                    if let Renewal::Unknown(fault) = answer {
                        cluster.note(lease.key(), fault, &self.host);
                    }
                }
            }
            Ok(None) => {}
            Err(_) => cluster.failed(&self.host),
        }
        answers
    }

    fn awaited(&self) -> Vec<(RawFd, i16)> {
        self.renewer.awaited()
    }
}
