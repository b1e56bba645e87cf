//! Where a server is: how a connection to it is opened, and what messages call it.

use std::sync::atomic::AtomicUsize;

use super::{
    connection::Connection,
    dial, errors,
    servers::{Address, Server},
    socket::{Attempt, Trouble},
};
use crate::lock::ports::{Call, Cause, Fault};

pub struct Endpoint {
    server: Server,
    tls: TlsConfig,
    /// Which of the Sentinels answered last.
    sentinel: AtomicUsize,
}

impl Endpoint {
    pub fn new(server: Server) -> Self {
        Self { server, tls: TlsConfig::default(), sentinel: AtomicUsize::new(0) }
    }

    pub fn name(&self) -> &str {
        self.server.name()
    }

    /// Whether the next connection may lead to another server, which has taken the place of this one.
    pub fn fails_over(&self) -> bool {
        matches!(self.server.address, Address::Sentinels(_))
    }

    pub fn connect(&self, call: &Call) -> Result<Box<Connection>, Fault> {
        if call.clock.now() >= call.until {
            // What is sent now is answered too late.
            return Err(self.fault(Cause::Unreachable("no time is left for a request".into())));
        }
        let attempt = Attempt::unless_stopped(call, call.limits.connect);
        dial::open(&self.server, &self.tls, &self.sentinel, &attempt).map(Box::new).map_err(|trouble| match trouble {
            Trouble::Forked => self.fault(Cause::Forked),
            Trouble::Refused(why) => self.fault(Cause::TurnedAway(why)),
            trouble => self.fault(Cause::Unreachable(trouble.to_string())),
        })
    }

    /// Says nothing of our password, whatever the server says.
    pub fn fault(&self, cause: Cause) -> Fault {
        let secret = self.server.password.as_deref().unwrap_or_default();
        let cause = match cause {
            Cause::Answered(text) => Cause::Answered(errors::without(secret, &text)),
            // Of what is read to know where to go, nothing is to be taken away.
            Cause::NotNow(text) if errors::is_redirect(&text) => Cause::NotNow(text),
            Cause::NotNow(text) => Cause::NotNow(errors::without(secret, &text)),
            Cause::Unreachable(text) => Cause::Unreachable(errors::without(secret, &text)),
            Cause::TurnedAway(text) => Cause::TurnedAway(errors::without(secret, &text)),
            // In our own words, or redacted already.
            cause @ (Cause::Unasked(_)
            | Cause::NoAnswer(_)
            | Cause::NoQuorum(_)
            | Cause::Tainted(_)
            | Cause::Forked) => cause,
            Cause::Unconfirmed(text) => Cause::Unconfirmed(errors::without(secret, &text)),
            Cause::Unconfirmable(text) => Cause::Unconfirmable(errors::without(secret, &text)),
        };
        Fault { server: self.name().into(), cause }
    }
}

#[cfg(feature = "tls")]
#[derive(Default)]
pub struct TlsConfig(std::sync::OnceLock<std::sync::Arc<rustls::ClientConfig>>);

#[cfg(feature = "tls")]
impl TlsConfig {
    /// Read when the first connection needs it, and kept.
    pub fn get(&self, files: &super::servers::TlsFiles) -> Result<std::sync::Arc<rustls::ClientConfig>, Trouble> {
        if let Some(config) = self.0.get() {
            return Ok(config.clone());
        }
        let config = super::tls::config(files)?;
        Ok(self.0.get_or_init(|| config).clone())
    }
}

#[cfg(not(feature = "tls"))]
#[derive(Default)]
pub struct TlsConfig(());
