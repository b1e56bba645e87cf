//! The servers that this thread has used: one store each, so that all its locks share one connection.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use super::{args::Args, method::Stop, settings};
use crate::{
    lock::{error::BadValue, options::Limits, ports::Store, time::Moment},
    memory::Memory,
    redis::{Single, servers::Servers},
};

pub struct Server {
    pub store: Box<dyn Store>,
    /// Until when it is taken to be as silent as it was.
    silent_until: Cell<Moment>,
}

impl Server {
    fn new(store: impl Store + 'static) -> Rc<Self> {
        Rc::new(Self { store: Box::new(store), silent_until: Cell::new(Moment::from_nanos(0)) })
    }

    pub fn is_silent(&self, now: Moment) -> bool {
        now < self.silent_until.get()
    }

    /// For as long as a call to it may take, nobody who cannot be interrupted tries another.
    pub fn was_silent(&self, now: Moment, limits: Limits) {
        self.silent_until.set(now.plus(limits.grace()));
    }
}

thread_local! {
    static SERVERS: RefCell<Vec<(String, Rc<Server>)>> = const { RefCell::new(Vec::new()) };
}

/// The server that the argument at `position` names, or else the setting.
pub fn given(args: &Args, position: u32, address: Option<&[u8]>) -> Result<Rc<Server>, Stop> {
    match address {
        Some(address) => args.check(position, std::str::from_utf8(address).map_err(not_utf8).and_then(server)),
        None => server(&settings::servers()?).map_err(|bad| settings::refuse_servers(&bad)),
    }
}

fn not_utf8(_: std::str::Utf8Error) -> BadValue {
    BadValue("must be valid UTF-8".into())
}

fn server(address: &str) -> Result<Rc<Server>, BadValue> {
    SERVERS.with_borrow_mut(|servers| {
        if let Some((_, server)) = servers.iter().find(|(known, _)| known == address) {
            return Ok(server.clone());
        }
        let server = match Servers::parse(address)? {
            Servers::Redis(server) => Server::new(Single::new(*server)),
            Servers::Memory => Server::new(Memory),
        };
        servers.push((address.into(), server.clone()));
        Ok(server)
    })
}
