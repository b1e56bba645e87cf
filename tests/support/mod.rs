//! What the test programs share.
#![allow(dead_code, reason = "each program uses a part of it")]

pub mod host;
pub mod redis_server;
pub mod request;
pub mod scripted;
pub mod world;

use std::time::Duration;

use redis_lock::lock::{keys::Key, options::Limits, token::Token, ttl::Ttl};

/// Short enough for a test to sit through, and long enough for a busy machine.
pub const LIMITS: Limits = Limits { connect: Duration::from_secs(5), command: Duration::from_secs(5) };

pub const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub fn key(name: &str) -> Key {
    Key::new(b"", name.as_bytes()).unwrap()
}

/// A token of this library's form. Equal numbers give equal tokens.
pub fn token(number: u64) -> Token {
    Token::from_bytes(format!("{number:032x}:host:{number}:1796000000").as_bytes())
}

pub fn ttl(milliseconds: u64) -> Ttl {
    let ttl = Ttl::from_seconds(milliseconds as f64 / 1e3).unwrap();
    assert_eq!(ttl.as_millis(), milliseconds);
    ttl
}

/// Seeded, so that what fails can be repeated.
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Less than `bound`. Knuth's multiplier; the low bits, which are not random, are left out.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
