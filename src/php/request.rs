//! The leases that are to be freed when their object goes away, or at the latest when the request ends: after a fatal
//! error objects are destroyed only later, and those of a suspended fiber never. Nothing else frees those.

use std::{
    cell::{Cell, RefCell},
    panic::catch_unwind,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use super::{engine::is_shutting_down, interrupt::Quiet};
use crate::{
    lock::{
        engine::Engine,
        lease::Lease,
        options::Limits,
        ports::{Clock, Store},
    },
    sys::{clock::SystemClock, fork, poll::Sleeper},
};

struct Entry {
    lease: Arc<Lease>,
    store: Rc<dyn Store>,
    limits: Limits,
}

thread_local! {
    static LEASES: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
    /// The time that releases have failed with since the request began to end: all of them together may take no
    /// longer than one call.
    static WASTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// From now on the lease is to be freed.
pub fn keep(lease: &Arc<Lease>, store: &Rc<dyn Store>, limits: Limits) {
    LEASES.with_borrow_mut(|leases| {
        if !leases.iter().any(|entry| Arc::ptr_eq(&entry.lease, lease)) {
            leases.push(Entry { lease: lease.clone(), store: store.clone(), limits });
        }
    });
}

/// Its object has seen to it, or it is to live on.
pub fn forget(lease: &Arc<Lease>) {
    take(lease);
}

/// Its object goes away.
pub fn free(lease: &Arc<Lease>) {
    if let Some(entry) = take(lease) {
        free_now(&entry);
    }
}

fn take(lease: &Arc<Lease>) -> Option<Entry> {
    // At exit the thread's values may be gone.
    LEASES
        .try_with(|leases| {
            let mut leases = leases.try_borrow_mut().ok()?;
            let index = leases.iter().rposition(|entry| Arc::ptr_eq(&entry.lease, lease))?;
            Some(leases.swap_remove(index))
        })
        .ok()
        .flatten()
}

fn free_now(entry: &Entry) {
    if !entry.lease.may_live() || entry.lease.process() != fork::process() {
        return;
    }
    let engine = Engine {
        store: &*entry.store,
        clock: &SystemClock,
        interrupt: &Quiet,
        wake_up: &Sleeper,
        limits: entry.limits,
    };
    let start = SystemClock.now();
    let wasted = if is_shutting_down() { WASTED.get() } else { Duration::ZERO };
    let until = start.plus(entry.limits.grace().saturating_sub(wasted));
    // Nobody is left to hear of a failure: the key's ttl ends it.
    if engine.release(&entry.lease, until).is_err() && is_shutting_down() {
        WASTED.set(wasted + SystemClock.now().since(start));
    }
}

/// The end of a request.
pub extern "C" fn end(_type: i32, _module: i32) -> i32 {
    let _ = catch_unwind(|| {
        for entry in LEASES.take() {
            free_now(&entry);
        }
        WASTED.set(Duration::ZERO);
    });
    0
}
