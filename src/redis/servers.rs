//! Where a server is, and as whom to speak to it: the address that users write, parsed and checked.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
};

use redis::{ConnectionAddr, IntoConnectionInfo};

use super::hosts::{Host, Hosts};
use crate::lock::error::BadValue;

const SCHEMES: &str = "redis://, rediss://, unix://, redis+sentinel://, redis+cluster:// or memory://";

/// What users can name as a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    Redis(Box<Server>),
    Cluster(Box<Seeds>),
    /// Of which a majority counts.
    Quorum(Vec<Server>),
    /// Inside this process.
    Memory,
}

/// One Redis server.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    pub address: Address,
    pub username: Option<String>,
    pub password: Option<String>,
    pub database: i64,
    /// As messages say it: no user, no password.
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp {
        host: String,
        port: u16,
        tls: Option<TlsFiles>,
    },
    Unix(PathBuf),
    /// Where Sentinels say that it is.
    Sentinels(Sentinels),
}

/// Those who know a primary by a name, and as whom to ask them.
#[derive(Clone, PartialEq, Eq)]
pub struct Sentinels {
    pub hosts: Vec<Host>,
    pub primary: String,
    pub username: Option<String>,
    pub password: Option<String>,
}

/// A cluster: nodes of it that tell of all others, and as whom to speak to each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds {
    pub hosts: Vec<Host>,
    any: Server,
    name: String,
}

/// Files of TLS, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities to trust. None: the system's.
    pub authorities: Option<PathBuf>,
    /// Our certificate and its key, for a server that asks for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl Servers {
    /// The error reads on after the name of the parameter or setting; it does not repeat the address, which may hold a
    /// password.
    pub fn parse(address: &str) -> Result<Self, BadValue> {
        if address.contains(char::is_control) {
            return Err(BadValue("must have no control characters".into()));
        }
        if address == "memory://" {
            return Ok(Self::Memory);
        }
        if let Some(address) = address.strip_prefix("redis+sentinel://") {
            return Server::behind_sentinels(address).map(|server| Self::Redis(Box::new(server)));
        }
        if let Some(address) = address.strip_prefix("redis+cluster://") {
            return Seeds::parse(address).map(|seeds| Self::Cluster(Box::new(seeds)));
        }
        let Some(url) = redis::parse_redis_url(address) else {
            return Err(BadValue(format!(
                "must be the address of a server: {SCHEMES}; several in an array, or with spaces between them in the \
                 setting (write : / @ ? # % in a password as %3A %2F %40 %3F %23 %25)"
            )));
        };
        let query = unique_query(url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())))?;
        if url.fragment().is_some() {
            return Err(BadValue("must have no fragment: write # in a password as %23".into()));
        }
        match url.scheme() {
            "redis" => {
                refuse_unknown(&query, ", and its database in the path")?;
                Server::tcp(address, None)
            }
            "rediss" => Server::tls(address, query),
            "unix" => {
                let path = url.to_file_path().map_err(|()| BadValue("must have a path after unix://".into()))?;
                Server::unix(path, query)
            }
            _ => Err(BadValue(format!("must be the address of a server: {SCHEMES}"))),
        }
        .map(|server| Self::Redis(Box::new(server)))
    }
}

impl Servers {
    /// One is a server, several are a quorum.
    pub fn parse_all(addresses: &[&str]) -> Result<Self, BadValue> {
        let servers = match addresses {
            [] => return Err(BadValue("must name at least one server".into())),
            [address] => return Self::parse(address),
            addresses => addresses.iter().enumerate().map(|(at, address)| match Self::parse(address) {
                Err(bad) => Err(BadValue(format!("must hold addresses, of which number {} {bad}", at + 1))),
                Ok(Self::Redis(server)) => Ok(*server),
                Ok(Self::Cluster(_) | Self::Quorum(_) | Self::Memory) => {
                    Err(BadValue("must name no cluster and no memory:// where it names several".into()))
                }
            }),
        };
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let twice =
            |(at, server): (usize, &Server)| servers.iter().take(at).any(|other| other.address == server.address);
        if servers.iter().enumerate().any(twice) {
            return Err(BadValue("must name each server once: a majority is one of different servers".into()));
        }
        Ok(Self::Quorum(servers))
    }

    /// As messages say it: no user, no password.
    pub fn shown(&self) -> String {
        match self {
            Self::Redis(server) => server.name().into(),
            Self::Cluster(seeds) => seeds.name().into(),
            Self::Quorum(servers) => servers.iter().map(Server::name).collect::<Vec<_>>().join(" "),
            Self::Memory => "memory://".into(),
        }
    }
}

pub type Query = HashMap<String, String>;

impl Server {
    pub fn name(&self) -> &str {
        &self.name
    }

    fn tcp(address: &str, tls: Option<TlsFiles>) -> Result<Self, BadValue> {
        let info = address.into_connection_info().map_err(|error| {
            let error = error.to_string();
            let why = error.split("- ").next().unwrap_or_default().trim();
            BadValue(format!("must be a valid address: {why}"))
        })?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(BadValue("must have a host".into()));
        };
        let settings = info.redis_settings();
        let scheme = if tls.is_some() { "rediss" } else { "redis" };
        Self {
            name: format!("{scheme}://{}", Host { name: host.clone(), port: *port }),
            address: Address::Tcp { host: host.clone(), port: *port, tls },
            username: settings.username().map(Into::into),
            password: settings.password().map(Into::into),
            database: settings.db(),
        }
        .checked()
    }

    fn tls(address: &str, mut query: Query) -> Result<Self, BadValue> {
        if cfg!(not(feature = "tls")) {
            return Err(BadValue("must not be rediss://: this build has no TLS".into()));
        }
        let authorities = query.remove("cafile").map(PathBuf::from);
        let certificate = match (query.remove("cert"), query.remove("key")) {
            (Some(cert), Some(key)) => Some((cert.into(), key.into())),
            (None, None) => None,
            _ => return Err(BadValue("must have both cert and key, or neither".into())),
        };
        refuse_unknown(&query, " but cafile, cert and key")?;
        let plain = format!("redis{}", address.trim_start_matches(|c| c != ':'));
        let plain = plain.split('?').next().unwrap_or_default();
        Self::tcp(plain, Some(TlsFiles { authorities, certificate }))
    }

    fn unix(path: PathBuf, mut query: Query) -> Result<Self, BadValue> {
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(BadValue("must have no NUL in its path".into()));
        }
        let database = match query.remove("db") {
            Some(db) => db.parse().map_err(|_| BadValue("must have a number as db".into()))?,
            None => 0,
        };
        let (username, password) = (query.remove("user"), query.remove("password"));
        refuse_unknown(&query, " but db, user and password")?;
        Self { name: format!("unix://{}", shown(&path)), address: Address::Unix(path), username, password, database }
            .checked()
    }

    /// The user and the password before the hosts are those of the servers, like the database.
    fn behind_sentinels(address: &str) -> Result<Self, BadValue> {
        let Hosts { login, hosts, path, mut query } = Hosts::parse(address, 26_379)?;
        let (username, password) = (query.remove("sentinel_user"), query.remove("sentinel_password"));
        refuse_unknown(&query, " but sentinel_user and sentinel_password")?;
        if username.is_some() && password.is_none() {
            return Err(BadValue("must have a sentinel_password beside the sentinel_user".into()));
        }
        let path = path.strip_prefix('/').unwrap_or_default();
        let (primary, database) = path.split_at(path.find('/').unwrap_or(path.len()));
        // Those that Sentinel allows.
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
        if primary.is_empty() || !primary.chars().all(is_allowed) {
            let form = "redis+sentinel://host:26379,host:26379/name";
            return Err(BadValue(format!("must have the name by which the Sentinels know the primary: {form}")));
        }
        let server = Self::tcp(&format!("redis://{login}host{database}"), None)?;
        let shown: Vec<_> = hosts.iter().map(Host::to_string).collect();
        let name = format!("redis+sentinel://{}/{primary}", shown.join(","));
        let address = Address::Sentinels(Sentinels { hosts, primary: primary.into(), username, password });
        Self { name, address, ..server }.checked()
    }

    fn checked(mut self) -> Result<Self, BadValue> {
        if self.username.is_some() && self.password.is_none() {
            return Err(BadValue("must have a password beside the user (a password alone is \":password@\")".into()));
        }
        if self.database < 0 {
            return Err(BadValue("must have a database of 0 or more".into()));
        }
        if self.database != 0 {
            self.name = match self.address {
                Address::Tcp { .. } | Address::Sentinels(_) => format!("{}/{}", self.name, self.database),
                Address::Unix(_) => format!("{}?db={}", self.name, self.database),
            };
        }
        Ok(self)
    }
}

impl Seeds {
    /// Of an address without its scheme.
    fn parse(address: &str) -> Result<Self, BadValue> {
        let Hosts { login, hosts, path, query } = Hosts::parse(address, 6379)?;
        refuse_unknown(&query, "")?;
        if !matches!(path, "" | "/") {
            return Err(BadValue("must have no database: a cluster has only one".into()));
        }
        let any = Server::tcp(&format!("redis://{login}host"), None)?;
        let shown: Vec<_> = hosts.iter().map(Host::to_string).collect();
        Ok(Self { name: format!("redis+cluster://{}", shown.join(",")), hosts, any })
    }

    /// As messages say it: no user, no password.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The node at this place.
    pub fn node(&self, host: &Host) -> Server {
        let address = Address::Tcp { host: host.name.clone(), port: host.port, tls: None };
        Server { name: format!("redis://{host}"), address, ..self.any.clone() }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

pub fn unique_query(pairs: impl Iterator<Item = (String, String)>) -> Result<Query, BadValue> {
    let mut query = Query::new();
    for (name, value) in pairs {
        if query.insert(name, value).is_some() {
            return Err(BadValue("must have each parameter only once".into()));
        }
    }
    Ok(query)
}

/// `known` says which there are. Those given are not repeated: they may be the rest of a password with a bare `?`.
fn refuse_unknown(query: &Query, known: &str) -> Result<(), BadValue> {
    if query.is_empty() {
        return Ok(());
    }
    Err(BadValue(format!("must have no parameters after \"?\"{known} (write ? and & in a password as %3F and %26)")))
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, username, password: _, database, name: _ } = self;
        f.debug_struct("Server")
            .field("address", address)
            .field("username", username)
            .field("password", &"<redacted>")
            .field("database", database)
            .finish()
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hosts, primary, username, password: _ } = self;
        f.debug_struct("Sentinels")
            .field("hosts", hosts)
            .field("primary", primary)
            .field("username", username)
            .field("password", &"<redacted>")
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(address: &str) -> Server {
        match Servers::parse(address) {
            Ok(Servers::Redis(server)) => *server,
            other => panic!("{address}: {other:?}"),
        }
    }

    fn tcp(host: &str, port: u16, tls: Option<TlsFiles>) -> Address {
        Address::Tcp { host: host.into(), port, tls }
    }

    #[test]
    fn tcp_addresses() {
        let server = parse("redis://127.0.0.1:6380");
        assert_eq!((server.address.clone(), server.name()), (tcp("127.0.0.1", 6380, None), "redis://127.0.0.1:6380"));
        let server = parse("redis://us%40er:p%23%2F%3As@redis.internal/3");
        assert_eq!(server.address, tcp("redis.internal", 6379, None));
        assert_eq!((server.username.as_deref(), server.password.as_deref()), (Some("us@er"), Some("p#/:s")));
        assert_eq!((server.database, server.name()), (3, "redis://redis.internal:6379/3"));
        assert_eq!(parse("redis://:secret@h").password.as_deref(), Some("secret"));
        assert_eq!(parse("redis://:secret@h").username, None);
        assert_eq!(parse("redis://[::1]:7000").name(), "redis://[::1]:7000");
        assert_eq!(parse("redis://[::1]:7000").address, tcp("::1", 7000, None));
    }

    #[test]
    #[cfg(feature = "tls")]
    fn tls_addresses() {
        let files = |authorities: Option<&str>, certificate: Option<(&str, &str)>| TlsFiles {
            authorities: authorities.map(Into::into),
            certificate: certificate.map(|(cert, key)| (cert.into(), key.into())),
        };
        let server = parse("rediss://u:p@h:1/2?cafile=/a%20b.pem&cert=/c&key=/k");
        assert_eq!(server.address, tcp("h", 1, Some(files(Some("/a b.pem"), Some(("/c", "/k"))))));
        assert_eq!((server.name(), server.database), ("rediss://h:1/2", 2));
        assert_eq!(parse("rediss://h").address, tcp("h", 6379, Some(files(None, None))));
    }

    #[test]
    fn unix_addresses() {
        let server = parse("unix:///run/redis.sock?db=4&user=u&password=a%26b");
        assert_eq!(server.address, Address::Unix("/run/redis.sock".into()));
        assert_eq!((server.username.as_deref(), server.password.as_deref()), (Some("u"), Some("a&b")));
        assert_eq!(server.name(), "unix:///run/redis.sock?db=4");
    }

    #[test]
    fn addresses_of_sentinels() {
        let server = parse("redis+sentinel://u:p%40@a,[::1]:5/main-1.x_/3?sentinel_user=v&sentinel_password=q%26");
        assert_eq!(server.name(), "redis+sentinel://a:26379,[::1]:5/main-1.x_/3");
        assert_eq!((server.username.as_deref(), server.password.as_deref()), (Some("u"), Some("p@")));
        assert_eq!(server.database, 3);
        let Address::Sentinels(sentinels) = &server.address else { panic!("{server:?}") };
        assert_eq!(sentinels.hosts.iter().map(Host::to_string).collect::<Vec<_>>(), ["a:26379", "[::1]:5"]);
        assert_eq!((&*sentinels.primary, sentinels.username.as_deref()), ("main-1.x_", Some("v")));
        assert_eq!(sentinels.password.as_deref(), Some("q&"));

        let server = parse("redis+sentinel://:p@a/main?sentinel_password=secret");
        assert_eq!((server.username.as_deref(), server.password.as_deref()), (None, Some("p")));
        assert_eq!((server.name(), server.database), ("redis+sentinel://a:26379/main", 0));
        assert!(!format!("{server:?}").contains("secret"), "{server:?}");
        assert_eq!(parse("redis+sentinel://a/main").password, None);
    }

    #[test]
    fn addresses_of_clusters() {
        let seeds = |address| match Servers::parse(address) {
            Ok(Servers::Cluster(seeds)) => *seeds,
            other => panic!("{address}: {other:?}"),
        };
        let cluster = seeds("redis+cluster://u:secret%40@a,[::1]:7,10.0.0.1:8/");
        assert_eq!(cluster.name(), "redis+cluster://a:6379,[::1]:7,10.0.0.1:8");
        assert!(!format!("{cluster:?}").contains("secret"), "{cluster:?}");
        let node = cluster.node(&Host { name: "::1".into(), port: 9 });
        assert_eq!((node.address.clone(), node.name(), node.database), (tcp("::1", 9, None), "redis://[::1]:9", 0));
        assert_eq!((node.username.as_deref(), node.password.as_deref()), (Some("u"), Some("secret@")));
        assert_eq!(seeds("redis+cluster://a").node(&cluster.hosts[0]).password, None);
    }

    #[test]
    fn memory_is_a_server() {
        assert_eq!(Servers::parse("memory://"), Ok(Servers::Memory));
    }

    #[test]
    fn what_is_not_understood_is_refused_without_being_repeated() {
        for bad in [
            "",
            "127.0.0.1:6379",
            "tcp://h",
            "http://h",
            "redis:",
            "redis://",
            "redis://h/x",
            "redis://h/-1",
            "redis://h:99999",
            "redis://h?db=secret",
            "redis://h#secret",
            "redis://h?timeout=secret",
            "redis://u:p?secret@h",
            "unix:///s?password=a&secret",
            "redis://secret@h",
            "rediss://h?cert=secret",
            "rediss://h?cafile=a&cafile=secret",
            "unix://",
            "unix://relative",
            "unix:///s?db=secret",
            "unix:///s?pass=secret",
            "unix:///s%00secret",
            "unix:///s?user=secret",
            "memory://secret",
            "redis+sentinel://u:secret@h",
            "redis+sentinel://u:secret@h/",
            "redis+sentinel://u:secret@/main",
            "redis+sentinel://u@h/main",
            "redis+sentinel://u:p@h/sec ret",
            "redis+sentinel://u:p@h/%73ecret",
            "redis+sentinel://u:p@h/main/secret",
            "redis+sentinel://u:p@h/main/-1",
            "redis+sentinel://u:p@h/main/1/secret",
            "redis+sentinel://u:p@h/main#secret",
            "redis+sentinel://u:p@h/main?sentinel_user=secret",
            "redis+sentinel://u:p@h/main?password=secret",
            "redis+sentinel://u:p@h,secret h/main",
            "redis+sentinel:main",
            "rediss+sentinel://u:secret@h/main",
            "redis+cluster://u:secret@",
            "redis+cluster://u@secret",
            "redis+cluster://u:p@h/secret",
            "redis+cluster://u:p@h/1",
            "redis+cluster://u:p@h?cafile=secret",
            "redis+cluster://u:p@h#secret",
            "redis+cluster://u:p@h,,secret",
            "redis+cluster:h",
            "redis://0.0.0.0",
        ] {
            let error = Servers::parse(bad).expect_err(bad);
            assert!(!error.0.contains("secret") && error.0.starts_with("must"), "{bad}: {error}");
        }
    }

    #[test]
    fn debug_hides_the_password() {
        let shown = format!("{:?}", parse("redis://user:secret@h"));
        assert!(shown.contains("user") && !shown.contains("secret"), "{shown}");
    }
}
