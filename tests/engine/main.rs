//! The engine over the store in memory, in a world where time, loss and signals follow a script.
#![cfg(test)]

mod acquire;
mod deadlines;
mod evict;
mod failover;
mod queue;
mod refresh;
mod release;
#[path = "../support/mod.rs"]
mod support;
mod wait;

use std::time::Duration;

use redis_lock::lock::{
    acquire::{Acquire, Acquired},
    error::Error,
    lease::Lease,
    options::Poll,
    ports::{Cause, Clock},
    ttl::Ttl,
};
use support::{ms, ttl, world::Scene};

const POLL: Poll = Poll { min: ms(10), max: ms(250) };

/// What most tests ask for: one try, for 30 s.
fn one_try(scene: &Scene) -> Acquire {
    waiting(scene, Duration::ZERO)
}

fn waiting(scene: &Scene, wait: Duration) -> Acquire {
    Acquire { terms: ttl(30_000).into(), start: scene.world.now(), wait, poll: POLL, bare: true }
}

/// A lease that is held, for so long.
fn held(scene: &Scene, ttl: Ttl) -> Lease {
    let lease = scene.lease(1);
    let acquired = scene.acquire(&lease, &Acquire { terms: ttl.into(), ..one_try(scene) });
    assert!(matches!(acquired, Ok(Acquired::Held)) && lease.is_valid(scene.world.now()), "{acquired:?}");
    scene.sent();
    lease
}

fn cause<T: std::fmt::Debug>(result: Result<T, Error>) -> Cause {
    match result {
        Err(Error::Store(fault)) => fault.cause,
        other => panic!("{other:?}"),
    }
}

fn no_answer<T: std::fmt::Debug>(result: Result<T, Error>) -> bool {
    matches!(cause(result), Cause::NoAnswer(_))
}
