//! Redis: addresses, one bounded connection a server, and the scripts. The only place that names the redis crate.

mod care;
mod channels;
mod cluster;
mod connection;
mod dial;
mod endpoint;
mod errors;
mod hosts;
mod node;
mod quorum;
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
pub use quorum::{Quorum, RenewingQuorum};
pub use renewer::RenewingServer;
pub use single::Single;
