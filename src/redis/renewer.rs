//! The connection on which the keeper renews leases: many in one pipeline, and without ever waiting for it.

use std::{os::fd::RawFd, sync::Arc};

use redis::Value;

use super::{
    connection::Connection,
    endpoint::Endpoint,
    errors,
    scripts::{self, Script},
    servers::Server,
    single::without,
    socket::Trouble,
};
use crate::{
    lock::{
        lease::Lease,
        ports::{Call, Cause, Clock, Fault, Renewal, RenewalServer, Renewer},
        ttl::Ttl,
    },
    sys::clock::SystemClock,
};

/// Shares nothing with the connections of PHP's threads, for it is used by others.
pub struct RenewingServer {
    endpoint: Arc<Endpoint>,
    renew: Arc<Script>,
    is_asking: bool,
}

impl RenewingServer {
    pub fn new(server: Server) -> Self {
        Self::of_cluster(server, Arc::new(scripts::renew()), false)
    }

    /// A node of a cluster. `is_asking`: one to which others have sent us for this time.
    pub fn of_cluster(server: Server, renew: Arc<Script>, is_asking: bool) -> Self {
        Self { endpoint: Arc::new(Endpoint::new(server)), renew, is_asking }
    }
}

impl RenewalServer for RenewingServer {
    fn name(&self) -> &str {
        self.endpoint.name()
    }

    fn open(&self, call: &Call) -> Result<Box<dyn Renewer>, Fault> {
        Ok(Box::new(RedisRenewer {
            endpoint: self.endpoint.clone(),
            renew: self.renew.clone(),
            connection: self.endpoint.connect(call)?,
            is_asking: self.is_asking,
            is_asked: false,
            is_sending: false,
            is_text_needed: false,
            leases: Vec::new(),
            answers: Vec::new(),
        }))
    }
}

struct RedisRenewer {
    endpoint: Arc<Endpoint>,
    renew: Arc<Script>,
    connection: Box<Connection>,
    /// Before each request it is told that others have sent us.
    is_asking: bool,
    /// It has answered to that, and the answer to the request is next.
    is_asked: bool,
    is_sending: bool,
    /// The script was not known, though the first of the last ones should have brought it.
    is_text_needed: bool,
    /// Those that are being renewed.
    leases: Vec<Arc<Lease>>,
    answers: Vec<Renewal>,
}

impl RedisRenewer {
    fn answer(&mut self, value: Value) -> Renewal {
        match value {
            Value::Int(1) => Renewal::Renewed,
            Value::Int(0) => Renewal::Lost,
            Value::ServerError(error) => {
                self.is_text_needed |= errors::code(&error) == "NOSCRIPT";
                let fault = self.endpoint.fault(errors::cause(&error));
                Renewal::Unknown(match self.leases.get(self.answers.len()) {
                    Some(lease) => without(lease.token(), fault),
                    None => fault,
                })
            }
            _ => Renewal::Unknown(self.endpoint.fault(Cause::NoAnswer("what came is no answer to the request".into()))),
        }
    }

    fn exchange(&mut self) -> Result<(), Trouble> {
        /// No error that a server answers is longer.
        const LONGEST: usize = 64 * 1024;
        if self.is_sending {
            self.is_sending = !self.connection.send_now()?;
            if !self.is_sending {
                // No answer has come yet. While requests are left to be sent, answers are read, or the server would stop
                // reading those.
                return Ok(());
            }
        }
        while self.answers.len() < self.leases.len() {
            let Some(value) = self.connection.value_now(LONGEST)? else { break };
            self.is_asked = self.is_asking && !self.is_asked;
            if self.is_asked {
                continue;
            }
            let answer = self.answer(value);
            self.answers.push(answer);
        }
        Ok(())
    }
}

impl Renewer for RedisRenewer {
    fn is_alive(&self) -> bool {
        self.connection.is_usable(SystemClock.now())
    }

    fn begin(&mut self, leases: &[(&Arc<Lease>, Ttl)]) {
        let (text, sha) = (self.renew.text().as_bytes(), self.renew.sha().as_bytes());
        for (index, (lease, ttl)) in leases.iter().enumerate() {
            // The first of them brings the text, so that the server knows it, whatever it has forgotten; unless it was
            // refused that one.
            let brings_text = index == 0 || self.is_text_needed;
            let script = if brings_text { [&b"EVAL"[..], text] } else { [&b"EVALSHA"[..], sha] };
            let ttl = ttl.as_millis().to_string();
            if self.is_asking {
                self.connection.add([&b"ASKING"[..]].into_iter());
            }
            let rest = [b"1", lease.key().as_bytes(), lease.token().as_bytes(), ttl.as_bytes()];
            self.connection.add(script.into_iter().chain(rest));
        }
        self.leases.clear();
        self.leases.extend(leases.iter().map(|(lease, _)| Arc::clone(lease)));
        self.answers.clear();
        (self.is_sending, self.is_text_needed) = (true, false);
    }

    fn go_on(&mut self) -> Result<Option<Vec<Renewal>>, Fault> {
        match self.exchange() {
            Ok(()) if self.answers.len() == self.leases.len() => Ok(Some(std::mem::take(&mut self.answers))),
            Ok(()) => Ok(None),
            Err(trouble) => Err(self.endpoint.fault(Cause::NoAnswer(trouble.to_string()))),
        }
    }

    fn awaited(&self) -> Vec<(RawFd, i16)> {
        let events = if self.is_sending { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        self.connection.fd().ok().map(|fd| (fd, events)).into_iter().collect()
    }
}
