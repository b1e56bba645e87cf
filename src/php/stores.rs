//! The stores that this thread has used: one a server, so that all its locks share one connection.

use std::{cell::RefCell, collections::HashMap, mem, rc::Rc, sync::Arc};

use super::{args::Args, method::Stop, settings};
use crate::{
    lock::{
        error::BadValue,
        keys::Key,
        options::Limits,
        ports::{RenewalServer, Store},
        time::Moment,
    },
    memory::Memory,
    redis::{
        Cluster, Quorum, RenewingQuorum, RenewingServer, Single,
        servers::{Server, Servers},
    },
    sys::fork,
};

pub struct SharedStore {
    pub store: Box<dyn Store>,
    /// By which the keeper knows it.
    pub address: Arc<str>,
    may_have_replicas: bool,
    new_for_keeper: Box<dyn Fn() -> Arc<dyn RenewalServer>>,
    /// That of this process: a child must not use what its parent's keeper may have had locked.
    for_keeper: RefCell<Option<(u64, Arc<dyn RenewalServer>)>>,
    /// Its parts that are taken to be as silent as they were when a lease was to be freed, and until when.
    silent_until: RefCell<HashMap<u64, Moment>>,
}

impl SharedStore {
    fn new(address: &str, addresses: &[&str]) -> Result<Rc<Self>, BadValue> {
        let servers = Servers::parse_all(addresses)?;
        let may_have_replicas = matches!(servers, Servers::Redis(_) | Servers::Cluster(_));
        let store: Box<dyn Store>;
        let new_for_keeper: Box<dyn Fn() -> Arc<dyn RenewalServer>>;
        match servers {
            Servers::Redis(server) => {
                store = Box::new(Single::new(Server::clone(&server)));
                new_for_keeper = Box::new(move || Arc::new(RenewingServer::new(Server::clone(&server))));
            }
            Servers::Cluster(seeds) => {
                let cluster = Cluster::new(*seeds);
                store = Box::new(cluster.clone());
                new_for_keeper = Box::new(move || Arc::new(cluster.for_keeper()));
            }
            Servers::Quorum(servers) => {
                store = Box::new(Quorum::new(servers.clone()));
                new_for_keeper = Box::new(move || Arc::new(RenewingQuorum::new(servers.clone())));
            }
            Servers::Memory => {
                store = Box::new(Memory);
                new_for_keeper = Box::new(|| Arc::new(Memory));
            }
        }
        let (address, for_keeper, silent_until) = (address.into(), RefCell::new(None), RefCell::default());
        Ok(Rc::new(Self { store, address, may_have_replicas, new_for_keeper, for_keeper, silent_until }))
    }

    pub fn for_keeper(&self) -> Arc<dyn RenewalServer> {
        let mut current = self.for_keeper.borrow_mut();
        if let Some((process, server)) = &*current
            && *process == fork::process()
        {
            return server.clone();
        }
        let server = (self.new_for_keeper)();
        if let Some(of_the_parent) = current.replace((fork::process(), server.clone())) {
            mem::forget(of_the_parent);
        }
        server
    }

    /// Whether there may be replicas that confirm what was written.
    pub fn may_have_replicas(&self) -> bool {
        self.may_have_replicas
    }

    pub fn is_silent(&self, key: &Key, now: Moment) -> bool {
        self.silent_until.borrow().get(&self.store.part(key)).is_some_and(|until| now < *until)
    }

    /// For as long as a call to it may take, nobody who cannot be interrupted tries another.
    pub fn was_silent(&self, key: &Key, now: Moment, limits: Limits) {
        let mut silent_until = self.silent_until.borrow_mut();
        silent_until.retain(|_, until| now < *until);
        silent_until.insert(self.store.part(key), now);
        // Each of them has just used up as much time; the first one is not to be tried again because of that.
        let until = now.plus(limits.grace().saturating_mul(u32::try_from(silent_until.len()).unwrap_or(u32::MAX)));
        silent_until.values_mut().for_each(|moment| *moment = until);
    }

    /// It answers. True: it had been silent.
    pub fn answers(&self, key: &Key) -> bool {
        let mut silent_until = self.silent_until.borrow_mut();
        !silent_until.is_empty() && silent_until.remove(&self.store.part(key)).is_some()
    }
}

/// So many are kept though no lock uses them any more: an application may name a server with ever other passwords.
const MOST_UNUSED: usize = 32;

thread_local! {
    static STORES: RefCell<Vec<(String, Rc<SharedStore>)>> = const { RefCell::new(Vec::new()) };
}

/// The store of the servers that the argument at `position` names, or else the setting.
pub fn given(args: &Args, position: u32, addresses: Option<Vec<Vec<u8>>>) -> Result<Rc<SharedStore>, Stop> {
    match addresses {
        Some(addresses) => {
            let texts: Result<Vec<_>, _> = addresses.iter().map(|address| std::str::from_utf8(address)).collect();
            args.check(position, texts.map_err(not_utf8).and_then(|addresses| store(&addresses)))
        }
        // Where there is a space in an address, it is written %20.
        None => store(&settings::servers()?.split_ascii_whitespace().collect::<Vec<_>>())
            .map_err(|bad| settings::refuse_servers(&bad)),
    }
}

fn not_utf8(_: std::str::Utf8Error) -> BadValue {
    BadValue("must be valid UTF-8".into())
}

fn store(addresses: &[&str]) -> Result<Rc<SharedStore>, BadValue> {
    let address = addresses.join("\0");
    STORES.with_borrow_mut(|stores| {
        if let Some((_, store)) = stores.iter().find(|(known, _)| *known == address) {
            return Ok(store.clone());
        }
        let store = SharedStore::new(&address, addresses)?;
        if stores.len() >= MOST_UNUSED {
            stores.retain(|(_, store)| Rc::strong_count(store) > 1);
        }
        stores.push((address, store.clone()));
        Ok(store)
    })
}
