//! The renewal of leases by a majority, by the keeper.

use std::{mem, os::fd::RawFd, sync::Arc, time::Duration};

use super::{ensemble::Ensemble, member::Round, name, no_quorum, question::Question, yes_or_no};
use crate::{
    lock::{
        lease::Lease,
        options::Limits,
        ports::{Call, Clock, Fault, Renewal, RenewalServer, Renewer},
        quorum::Outcome,
        ttl::Ttl,
    },
    redis::{
        endpoint::Endpoint,
        scripts::{self, Script},
        servers::Server,
    },
    sys::clock::SystemClock,
};

pub struct RenewingQuorum {
    name: String,
    endpoints: Vec<Arc<Endpoint>>,
    renew: Arc<Script>,
}

impl RenewingQuorum {
    pub fn new(servers: Vec<Server>) -> Self {
        let endpoints: Vec<_> = servers.into_iter().map(|server| Arc::new(Endpoint::new(server))).collect();
        Self { name: name(&endpoints), endpoints, renew: Arc::new(scripts::renew()) }
    }
}

impl RenewalServer for RenewingQuorum {
    fn name(&self) -> &str {
        &self.name
    }

    /// Its connections are opened by the first renewal, all at the same time.
    fn open(&self, call: &Call) -> Result<Box<dyn Renewer>, Fault> {
        Ok(Box::new(QuorumRenewer {
            name: self.name.clone(),
            ensemble: Ensemble::new(&self.endpoints, call.interrupt.process()),
            renew: self.renew.clone(),
            limits: call.limits,
            leases: Vec::new(),
        }))
    }
}

struct QuorumRenewer {
    name: String,
    ensemble: Ensemble,
    renew: Arc<Script>,
    limits: Limits,
    leases: Vec<Arc<Lease>>,
}

impl Renewer for QuorumRenewer {
    fn is_alive(&self) -> bool {
        // Its nodes see to themselves.
        true
    }

    fn begin(&mut self, leases: &[(&Arc<Lease>, Ttl)]) {
        let now = SystemClock.now();
        self.ensemble.begin(&self.limits, now);
        let question = |(lease, ttl): &(&Arc<Lease>, Ttl)| {
            let ttl = ttl.as_millis().to_string();
            let arguments = [lease.token().as_bytes(), ttl.as_bytes()];
            Arc::new(Question::script(&self.renew, &[lease.key().as_bytes()], &arguments))
        };
        let questions = leases.iter().map(question).collect();
        // A little less than the keeper's patience, which would take all for silent.
        let shortest = leases.iter().map(|(_, ttl)| ttl.as_duration() / 4).min().unwrap_or(Duration::MAX);
        let limit = self.limits.command.min(shortest).mul_f64(0.9);
        self.ensemble.ask(Round::new(questions, limit, self.limits), now);
        self.ensemble.not_after(now.plus(limit));
        self.leases = leases.iter().map(|(lease, _)| Arc::clone(lease)).collect();
    }

    fn go_on(&mut self) -> Result<Option<Vec<Renewal>>, Fault> {
        self.ensemble.go_on(None, SystemClock.now());
        let outcomes: Vec<_> = (0..self.leases.len()).map(|at| self.ensemble.tally(at, yes_or_no).held()).collect();
        if outcomes.contains(&Outcome::Open) {
            return Ok(None);
        }
        let leases = mem::take(&mut self.leases);
        let answers = leases.iter().zip(outcomes).enumerate().map(|(at, (lease, outcome))| match outcome {
            Outcome::Yes => Renewal::Renewed,
            Outcome::No => Renewal::Lost,
            Outcome::Open | Outcome::NoQuorum => {
                Renewal::Unknown(no_quorum(&self.name, &self.ensemble, at, yes_or_no, Some(lease.token())))
            }
        });
        Ok(Some(answers.collect()))
    }

    fn awaited(&self) -> Vec<(RawFd, i16)> {
        self.ensemble.awaited()
    }
}
