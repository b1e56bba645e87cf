//! A server that does what a test says, byte by byte, on a port of its own.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::ms;

pub struct Scripted {
    address: SocketAddr,
    thread: JoinHandle<()>,
}

impl Scripted {
    /// Nothing here waits for longer: a script that is not followed fails, and does not hang.
    pub const PATIENCE: Duration = Duration::from_secs(20);

    pub fn serve(script: impl FnOnce(&Listener) + Send + 'static) -> Self {
        Self::serve_at(TcpListener::bind(("127.0.0.1", 0)).unwrap(), script)
    }

    /// Where the port is to be known before the script.
    pub fn serve_at(listener: TcpListener, script: impl FnOnce(&Listener) + Send + 'static) -> Self {
        let address = listener.local_addr().unwrap();
        Self { address, thread: thread::spawn(move || script(&Listener(listener))) }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn address(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Waits for the end of the script, and fails if it failed.
    pub fn finish(self) {
        if let Err(failure) = self.thread.join() {
            std::panic::resume_unwind(failure);
        }
    }
}

pub struct Listener(TcpListener);

impl Listener {
    pub fn accept(&self) -> Peer {
        self.0.set_nonblocking(true).unwrap();
        let start = Instant::now();
        loop {
            match self.0.accept() {
                Ok((stream, _)) => return Peer::new(stream),
                Err(error) => assert!(start.elapsed() < Scripted::PATIENCE, "nobody connects: {error}"),
            }
            thread::sleep(ms(1));
        }
    }

    /// None: nobody connects within a moment.
    pub fn accept_now(&self) -> Option<Peer> {
        self.0.set_nonblocking(true).unwrap();
        thread::sleep(ms(1));
        self.0.accept().ok().map(|(stream, _)| Peer::new(stream))
    }
}

pub struct Peer(pub TcpStream);

impl Peer {
    fn new(stream: TcpStream) -> Self {
        stream.set_nonblocking(false).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Scripted::PATIENCE)).unwrap();
        stream.set_write_timeout(Some(Scripted::PATIENCE)).unwrap();
        Self(stream)
    }

    /// The next request, as the words it consists of.
    pub fn request(&mut self) -> Vec<Vec<u8>> {
        self.next_request().expect("no request")
    }

    /// None: the client has closed the connection.
    pub fn next_request(&mut self) -> Option<Vec<Vec<u8>>> {
        let count = self.number_after(b'*')?;
        (0..count)
            .map(|_| {
                let mut word = vec![0; self.number_after(b'$')? + 2];
                self.0.read_exact(&mut word).ok()?;
                assert_eq!(word.split_off(word.len() - 2), b"\r\n");
                Some(word)
            })
            .collect()
    }

    fn number_after(&mut self, kind: u8) -> Option<usize> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).ok()?;
            line.push(byte[0]);
        }
        assert_eq!(line[0], kind);
        std::str::from_utf8(&line[1..line.len() - 2]).unwrap().parse().ok()
    }

    /// To a client that may not want it any more.
    pub fn answer(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// In pieces that arrive one after the other.
    pub fn send_in_pieces<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>) {
        for piece in pieces {
            self.send(piece);
            thread::sleep(ms(1));
        }
    }

    /// Takes what comes, answers nothing, and waits until the client has closed the connection.
    pub fn expect_end_of_what_comes(&mut self) {
        while self.0.read(&mut [0; 1024]).unwrap_or(0) > 0 {}
    }

    /// Waits until the client has closed the connection; it must send nothing more.
    pub fn expect_end(&mut self) {
        assert_eq!(self.0.read(&mut [0]).unwrap_or(0), 0, "another request");
    }
}
