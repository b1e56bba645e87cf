//! The stores that this thread has used: one a server, so that all its locks share one connection.

use std::{cell::RefCell, rc::Rc};

use super::{args::Args, method::Stop, settings};
use crate::{
    lock::{error::BadValue, ports::Store},
    memory::Memory,
    redis::{Single, servers::Servers},
};

thread_local! {
    static STORES: RefCell<Vec<(String, Rc<dyn Store>)>> = const { RefCell::new(Vec::new()) };
}

/// The store of the server that the argument at `position` names, or else the setting.
pub fn given(args: &Args, position: u32, address: Option<&[u8]>) -> Result<Rc<dyn Store>, Stop> {
    match address {
        Some(address) => args.check(position, std::str::from_utf8(address).map_err(not_utf8).and_then(store)),
        None => store(&settings::servers()?).map_err(|bad| settings::refuse_servers(&bad)),
    }
}

fn not_utf8(_: std::str::Utf8Error) -> BadValue {
    BadValue("must be valid UTF-8".into())
}

fn store(address: &str) -> Result<Rc<dyn Store>, BadValue> {
    STORES.with_borrow_mut(|stores| {
        if let Some((_, store)) = stores.iter().find(|(known, _)| known == address) {
            return Ok(store.clone());
        }
        let store: Rc<dyn Store> = match Servers::parse(address)? {
            Servers::Redis(server) => Rc::new(Single::new(*server)),
            Servers::Memory => Rc::new(Memory),
        };
        stores.push((address.into(), store.clone()));
        Ok(store)
    })
}
