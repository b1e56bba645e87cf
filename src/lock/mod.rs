//! The protocol of the lock, in plain Rust: no PHP, no sockets, and time is passed in.

pub mod acquire;
pub mod backoff;
pub mod engine;
pub mod error;
pub mod fence;
pub mod keys;
pub mod lease;
mod line;
pub mod options;
pub mod ports;
pub mod queue;
pub mod slot;
pub mod time;
pub mod token;
mod tries;
pub mod ttl;
pub mod waiting;
mod word;
