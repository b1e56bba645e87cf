//! Where a server is: how a connection to it is opened, and what messages call it.

use super::{
    connection::Connection,
    dial, errors,
    servers::Server,
    socket::{Attempt, Trouble},
};
use crate::lock::ports::{Call, Cause, Fault};

pub struct Endpoint {
    server: Server,
    tls: TlsConfig,
}

impl Endpoint {
    pub fn new(server: Server) -> Self {
        Self { server, tls: TlsConfig::default() }
    }

    pub fn name(&self) -> &str {
        self.server.name()
    }

    pub fn connect(&self, call: &Call) -> Result<Box<Connection>, Fault> {
        if call.clock.now() >= call.until {
            // What is sent now is answered too late.
            return Err(self.fault(Cause::Unreachable("no time is left for a request".into())));
        }
        let attempt = Attempt::unless_stopped(call, call.limits.connect);
        dial::open(&self.server, &self.tls, &attempt).map(Box::new).map_err(|trouble| match trouble {
            Trouble::Forked => self.fault(Cause::Forked),
            trouble => self.fault(Cause::Unreachable(trouble.to_string())),
        })
    }

    /// Says nothing of our password, whatever the server says.
    pub fn fault(&self, cause: Cause) -> Fault {
        let secret = self.server.password.as_deref().unwrap_or_default();
        let cause = match cause {
            Cause::Answered(text) => Cause::Answered(errors::without(secret, &text)),
            Cause::Unreachable(text) => Cause::Unreachable(errors::without(secret, &text)),
            cause => cause,
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
