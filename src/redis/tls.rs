//! TLS over a socket that is read in slices: rustls keeps the state, we move the bytes.

use std::{
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};

use super::{
    servers::TlsFiles,
    socket::{Attempt, Socket, Trouble},
};

/// What all connections to a server share. Reads files, so it is made once.
pub fn config(files: &TlsFiles) -> Result<Arc<ClientConfig>, Trouble> {
    // Named, and not installed as the process's default: another library in this process may have its own.
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Trouble::Other(error.to_string()))?
        .with_root_certificates(authorities(files.authorities.as_deref())?);
    let config = match &files.certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let private_key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, private_key)
                .map_err(|error| Trouble::Other(format!("certificate or key is unusable: {error}")))?
        }
    };
    Ok(Arc::new(config))
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, Trouble> {
    let found = match file {
        Some(file) => certificates(file)?,
        // A system has some that do not parse; those that do are the ones to trust.
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(found);
    if added == 0 {
        let place = file.map_or("the system".into(), |file| file.display().to_string());
        return Err(Trouble::Other(format!("no certificate authority found in {place}")));
    }
    Ok(store)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Trouble> {
    CertificateDer::pem_file_iter(file).and_then(Iterator::collect).map_err(|error| unreadable(file, error))
}

fn unreadable(file: &Path, error: impl std::fmt::Display) -> Trouble {
    Trouble::Other(format!("cannot read {}: {error}", file.display()))
}

pub struct Tls {
    session: ClientConnection,
    socket: Socket,
    /// Bytes on their way from the socket to rustls, and the other way.
    incoming: Box<[u8; 16 * 1024]>,
    outgoing: Vec<u8>,
}

impl Tls {
    /// Shakes hands, so that what is wrong shows before the first request.
    pub fn new(socket: Socket, host: &str, config: Arc<ClientConfig>, attempt: &Attempt) -> Result<Self, Trouble> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Trouble::Other(format!("TLS cannot check the name {host}")))?;
        let session = ClientConnection::new(config, name).map_err(|error| Trouble::Other(error.to_string()))?;
        let mut tls = Self { session, socket, incoming: Box::new([0; 16 * 1024]), outgoing: Vec::new() };
        while tls.session.is_handshaking() {
            let is_sent = tls.flush_now()?;
            if !is_sent {
                tls.socket.wait(libc::POLLOUT, attempt)?;
            } else if tls.session.is_handshaking() && !tls.receive_now()? {
                tls.socket.wait(libc::POLLIN, attempt)?;
            }
        }
        while !tls.flush_now()? {
            tls.socket.wait(libc::POLLOUT, attempt)?;
        }
        Ok(tls)
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    pub fn read(&mut self, buffer: &mut [u8], attempt: &Attempt) -> Result<usize, Trouble> {
        let start = attempt.clock.now();
        loop {
            if let Some(count) = self.read_now(buffer)? {
                self.socket.answered(start, attempt);
                return Ok(count);
            }
            self.socket.await_answer(start, attempt)?;
        }
    }

    /// None: nothing is there.
    pub fn read_now(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Trouble> {
        loop {
            match self.session.reader().read(buffer) {
                Ok(0) => return Err(Trouble::Closed),
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            if !self.receive_now()? {
                return Ok(None);
            }
        }
    }

    /// How much of it was taken; `flush_now` says whether that is sent.
    pub fn write_now(&mut self, bytes: &[u8]) -> Result<usize, Trouble> {
        let mut taken = 0;
        // In pieces: rustls buffers a bounded amount.
        for piece in bytes.chunks(16 * 1024) {
            if !self.flush_now()? {
                break;
            }
            self.session.writer().write_all(piece)?;
            taken += piece.len();
        }
        self.flush_now()?;
        Ok(taken)
    }

    /// False: not all of it is sent.
    pub fn flush_now(&mut self) -> Result<bool, Trouble> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.outgoing)?;
        }
        let sent = self.socket.write_now(&self.outgoing)?;
        self.outgoing.drain(..sent);
        Ok(self.outgoing.is_empty())
    }

    /// False: nothing has come.
    fn receive_now(&mut self) -> Result<bool, Trouble> {
        let Some(count) = self.socket.read_now(&mut *self.incoming)? else { return Ok(false) };
        let mut received = self.incoming.get(..count).unwrap_or_default();
        while !received.is_empty() {
            self.session.read_tls(&mut received)?;
            if let Err(error) = self.session.process_new_packets() {
                // Tells the server why, if it can be told.
                let _ = self.flush_now();
                return Err(Trouble::Other(format!("TLS failed: {}", in_words(&error))));
            }
        }
        Ok(true)
    }
}

fn in_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(_) => "what came is not TLS; is it a port for plain connections?".into(),
        rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer) => {
            "the server's certificate is not of an authority that is trusted here".into()
        }
        other => other.to_string(),
    }
}
