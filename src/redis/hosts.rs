//! Addresses that name several hosts: `scheme://[user:password@]host[:port],host[:port]…[/path][?query]`.
//!
//! The url crate knows none of that kind, so they are taken apart here, and their parts are parsed as those of an address
//! with one host are.

use redis::{ConnectionAddr, IntoConnectionInfo};

use super::servers::{Query, unique_query};
use crate::lock::error::BadValue;

pub struct Hosts<'a> {
    /// With the `@` behind it, or empty.
    pub login: &'a str,
    pub hosts: Vec<Host>,
    /// From its `/` on, or empty.
    pub path: &'a str,
    pub query: Query,
}

/// One of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Host {
    pub name: String,
    pub port: u16,
}

impl<'a> Hosts<'a> {
    /// Of an address without its scheme. `port`: that of a host that names none.
    pub fn parse(address: &'a str, port: u16) -> Result<Self, BadValue> {
        if address.contains('#') {
            return Err(BadValue("must have no fragment: write # in a password as %23".into()));
        }
        let (address, query) = address.split_once('?').unwrap_or((address, ""));
        let (authority, path) = address.split_at(address.find('/').unwrap_or(address.len()));
        let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        if login.contains(',') || login.matches('@').count() > 1 {
            return Err(BadValue(
                "must have user and password once, before all hosts: write @ and , in a password as %40 and %2C".into(),
            ));
        }
        let hosts: Result<_, _> = hosts.split(',').map(|host| Host::parse(host, port)).collect();
        let url = redis::parse_redis_url(&format!("redis://host/?{query}"));
        let pairs = url.iter().flat_map(|url| url.query_pairs());
        let query = unique_query(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())))?;
        Ok(Self { login, hosts: hosts?, path, query })
    }
}

impl Host {
    fn parse(host: &str, port: u16) -> Result<Self, BadValue> {
        let bad = || BadValue("must have valid hosts, separated by commas: host:port,host:port".into());
        // The url crate takes such letters away from the ends, and nothing for a port.
        if host.ends_with(':') || host.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err(bad());
        }
        let address = format!("redis://{host}");
        let url = redis::parse_redis_url(&address).ok_or_else(bad)?;
        let info = address.into_connection_info().map_err(|_| bad())?;
        match info.addr() {
            ConnectionAddr::Tcp(name, _) => Ok(Self { name: name.clone(), port: url.port().unwrap_or(port) }),
            _ => Err(bad()),
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let Hosts { login, hosts, path, query } =
            Hosts::parse("u:p%2C%40b@a,b.internal:7,[::1],[::1]:8,10.0.0.1/x/2?k=%2F&l=m", 26_379).unwrap();
        assert_eq!((login, path), ("u:p%2C%40b@", "/x/2"));
        let shown: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a:26379", "b.internal:7", "[::1]:26379", "[::1]:8", "10.0.0.1:26379"]);
        assert_eq!((query.len(), &*query["k"], &*query["l"]), (2, "/", "m"));
        let Hosts { login, hosts, path, query } = Hosts::parse("a", 1).unwrap();
        assert_eq!((login, hosts.len(), path, query.len()), ("", 1, "", 0));
    }

    #[test]
    fn what_is_no_host_is_refused_without_being_repeated() {
        for bad in [
            "",
            ",",
            "a,",
            ",a",
            "a,,b",
            "a, secret",
            "a ,secret",
            "a\t",
            "a:secret",
            "a:99999",
            ":26379",
            "[::secret",
            "u:secret@",
            "u:sec/ret@a",
            "a#secret",
            "a?k=secret&k=secret",
            "redis://secret",
            "u:secret:1",
            // As others write it, the first host would be a part of the password.
            "u:secret@a,u:secret@b",
            "a,u:secret@b",
        ] {
            let error = Hosts::parse(bad, 1).err().unwrap_or_else(|| panic!("{bad}"));
            assert!(!error.0.contains("secret") && error.0.starts_with("must"), "{bad}: {error}");
        }
    }
}
