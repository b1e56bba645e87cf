//! A distributed lock for PHP, through Redis. README.md says which layer is where.

pub mod keeper;
pub mod lock;
pub mod memory;
#[cfg(feature = "php")]
mod php;
pub mod redis;
pub mod stats;
pub mod sys;
