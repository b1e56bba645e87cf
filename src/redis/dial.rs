//! Opening a connection within one deadline: name resolution, connect, TLS, authentication, database.

use std::{
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    sync::atomic::AtomicUsize,
    thread,
    time::Duration,
};

use redis::Value;
use socket2::{SockAddr, SockRef, TcpKeepalive, Type};

use super::{
    connection::{Connection, Stream},
    endpoint::TlsConfig,
    errors, sentinel,
    servers::{Address, Server},
    socket::{Attempt, Socket, Trouble},
};
use crate::sys::{fork::Guarded, library, signals};

/// `last`: which of the Sentinels answered last, where there are some.
pub fn open(
    server: &Server,
    tls_config: &TlsConfig,
    last: &AtomicUsize,
    attempt: &Attempt,
) -> Result<Connection, Trouble> {
    let stream = match &server.address {
        Address::Sentinels(sentinels) => return sentinel::open(server, sentinels, last, attempt),
        Address::Unix(path) => Stream::Plain(connect_unix(path, attempt)?),
        Address::Tcp { host, port, tls: None } => Stream::Plain(connect_tcp(host, *port, attempt)?),
        #[cfg(feature = "tls")]
        Address::Tcp { host, port, tls: Some(files) } => {
            let config = tls_config.get(files)?;
            let socket = connect_tcp(host, *port, attempt)?;
            Stream::Tls(Box::new(super::tls::Tls::new(socket, host, config, attempt)?))
        }
        #[cfg(not(feature = "tls"))]
        Address::Tcp { tls: Some(_), .. } => {
            let _ = tls_config;
            return Err(Trouble::Other("this build has no TLS".into()));
        }
    };
    let mut connection = Connection::new(stream, attempt.clock.now());
    let (username, password) = (server.username.as_deref(), server.password.as_deref());
    introduce(&mut connection, username, password, server.database, attempt)?;
    Ok(connection)
}

/// A connection to a host, on which nothing was said yet.
pub fn plain(host: &str, port: u16, attempt: &Attempt) -> Result<Connection, Trouble> {
    Ok(Connection::new(Stream::Plain(connect_tcp(host, port, attempt)?), attempt.clock.now()))
}

/// Says who we are and which database is meant, in one round trip; in none, where there is nothing to say.
pub fn introduce(
    connection: &mut Connection,
    username: Option<&str>,
    password: Option<&str>,
    database: i64,
    attempt: &Attempt,
) -> Result<(), Trouble> {
    let mut replies = Vec::new();
    if password.is_some() {
        let words = [Some("AUTH"), username, password];
        connection.add(words.into_iter().flatten().map(str::as_bytes));
        replies.push("authentication failed: ");
    }
    if database != 0 {
        connection.add(["SELECT", &database.to_string()].into_iter().map(str::as_bytes));
        replies.push("the database cannot be selected: ");
    }
    if replies.is_empty() {
        return Ok(());
    }
    connection.send(attempt)?;
    for refused in replies {
        if let Value::ServerError(error) = connection.reply(attempt)? {
            return Err(errors::trouble(refused, &error));
        }
    }
    Ok(())
}

fn connect_unix(path: &Path, attempt: &Attempt) -> Result<Socket, Trouble> {
    let address = SockAddr::unix(path)?;
    loop {
        match connect(&address, attempt, attempt.left()) {
            // The server's backlog is full; there is nothing to wait on but time.
            Err(Trouble::Io(error)) if error.raw_os_error() == Some(libc::EAGAIN) => {
                if attempt.left().is_zero() {
                    return Err(attempt.timed_out());
                }
                thread::sleep(Duration::from_millis(5).min(attempt.left()));
                attempt.interrupt.pump();
                if attempt.unless_stopped && attempt.interrupt.stopped() {
                    return Err(Trouble::Stopped);
                }
            }
            result => return result,
        }
    }
}

fn connect_tcp(host: &str, port: u16, attempt: &Attempt) -> Result<Socket, Trouble> {
    let addresses = resolve(host, port, attempt)?;
    let mut last = Trouble::Other("the name has no address".into());
    for (index, address) in addresses.iter().enumerate() {
        // An address that does not answer leaves time for the others.
        let rest = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        match connect(&(*address).into(), attempt, attempt.left() / rest) {
            Ok(socket) => {
                let fd = borrow(&socket)?;
                let tcp = SockRef::from(&fd);
                tcp.set_tcp_nodelay(true)?;
                tcp.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(60)))?;
                return Ok(socket);
            }
            Err(trouble @ (Trouble::Forked | Trouble::Stopped)) => return Err(trouble),
            Err(trouble) => last = trouble,
        }
    }
    Err(last)
}

fn connect(address: &SockAddr, attempt: &Attempt, at_most: Duration) -> Result<Socket, Trouble> {
    let raw = socket2::Socket::new(address.domain(), Type::STREAM, None)?;
    raw.set_nonblocking(true)?;
    let started = raw.connect(address);
    let socket = Socket::new(OwnedFd::from(raw))?;
    match started {
        Ok(()) => {}
        // A signal leaves the connection under way, like one that takes its time.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {
            let until = attempt.clock.now().plus(at_most).min(attempt.deadline);
            socket.wait_until(libc::POLLOUT, until, attempt)?;
            let fd = borrow(&socket)?;
            if let Some(error) = SockRef::from(&fd).take_error()? {
                return Err(error.into());
            }
        }
        Err(error) => return Err(error.into()),
    }
    Ok(socket)
}

fn borrow(socket: &Socket) -> Result<std::os::fd::BorrowedFd<'_>, Trouble> {
    // SAFETY: the descriptor is open for as long as the socket lives in this process.
    Ok(unsafe { std::os::fd::BorrowedFd::borrow_raw(socket.fd()?) })
}

/// The system's resolver has no deadline, so a thread asks it, and is left behind if it takes too long. It answers
/// through a socket, which is waited for like any other: signals are heard, and a forked child does not inherit it.
fn resolve(host: &str, port: u16, attempt: &Attempt) -> Result<Vec<SocketAddr>, Trouble> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let answer = Socket::new(ours.into())?;
    let theirs = Guarded::new(theirs.into())?;
    let name = host.to_owned();
    library::keep_loaded();
    signals::blocked(|| {
        thread::Builder::new().name("redis_lock-dns".into()).spawn(move || {
            let mut lines: String = match (name.as_str(), port).to_socket_addrs() {
                Ok(addresses) => addresses.map(|address| format!("{address}\n")).collect(),
                Err(error) => format!("{error}\n"),
            };
            lines.push('\n');
            if let Some(fd) = theirs.fd() {
                // SAFETY: open, and the bytes are valid. Nobody listens any more where the deadline has passed.
                unsafe { libc::send(fd, lines.as_ptr().cast(), lines.len(), libc::MSG_NOSIGNAL) };
            }
        })
    })?;
    let mut lines = String::new();
    let mut buffer = [0; 1024];
    // Up to an empty line, and not to the end of the stream: a child that was forked meanwhile holds its other end open.
    while !lines.ends_with("\n\n") {
        match answer.read(&mut buffer, attempt) {
            Ok(count) => lines.push_str(&String::from_utf8_lossy(buffer.get(..count).unwrap_or_default())),
            Err(Trouble::TimedOut(limit)) => {
                return Err(Trouble::Other(format!(
                    "the name {host} was not resolved within {}",
                    crate::lock::error::seconds(limit)
                )));
            }
            Err(trouble) => return Err(trouble),
        }
    }
    let addresses: Vec<SocketAddr> = lines.lines().filter_map(|line| line.parse().ok()).collect();
    if addresses.is_empty() {
        return Err(Trouble::Other(format!("the name {host} cannot be resolved: {}", lines.trim())));
    }
    Ok(addresses)
}
