//! Redis: addresses, one bounded connection a server, and the scripts. The only place that names the redis crate.

mod channels;
mod cluster;
mod connection;
mod dial;
mod endpoint;
mod errors;
mod hosts;
mod node;
mod renewer;
mod request;
mod scripts;
mod sentinel;
pub mod servers;
mod single;
mod socket;
#[cfg(feature = "tls")]
mod tls;
mod wakeup;

pub use cluster::Cluster;
pub use renewer::RenewingServer;
pub use single::Single;
