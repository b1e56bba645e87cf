//! What the operating system gives: a clock, randomness, threads, sleep that signals end, and the knowledge of a fork.

pub mod clock;
pub mod fork;
pub mod identity;
pub mod library;
pub mod poll;
pub mod signals;
pub mod threads;
