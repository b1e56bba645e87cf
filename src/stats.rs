//! What happened in this process, in numbers. A forked child starts at nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{lock::lease::Lease, sys::fork::PerProcess};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Leases that ended before their holder released them.
    Lost,
    /// Renewals that were granted.
    Renewals,
    /// Renewals without an answer to build on.
    RenewalErrors,
    /// Exceptions thrown into callables.
    Interrupts,
}

static COUNTERS: PerProcess<[AtomicU64; 4]> = PerProcess::new();

pub fn add(counter: Counter) {
    if let Some(count) = COUNTERS.get().get(counter as usize) {
        count.fetch_add(1, Relaxed);
    }
}

/// A lease that was lost, by whoever notices it first.
pub fn count_loss(lease: &Lease) {
    if lease.notice_loss() {
        add(Counter::Lost);
    }
}

pub fn get(counter: Counter) -> u64 {
    COUNTERS.get().get(counter as usize).map_or(0, |count| count.load(Relaxed))
}
