//! The leases that are to be freed when their object goes away, or at the latest when the request ends: after a fatal
//! error objects are destroyed only later, and those of a suspended fiber never. Nothing else frees those.
//!
//! No PHP code can run here, so that nothing can interrupt the wait for a silent server. It is waited for once; what
//! else it holds is freed when it answers again, or at the end of the request, or else by its ttl.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
};

use super::{critical, interrupt::Quiet, stores::SharedStore};
use crate::{
    keeper::{self, Kept, Watched},
    lock::{engine::Engine, keys::Key, lease::Lease, options::Limits, ports::Clock, time::Moment},
    stats,
    sys::{clock::SystemClock, fork, poll::Sleeper},
};

struct Entry {
    lease: Arc<Lease>,
    store: Rc<SharedStore>,
    limits: Limits,
    /// Its object is gone, and at this moment its key is as well.
    gone: Option<Moment>,
}

thread_local! {
    static LEASES: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
    /// What the keeper looks after.
    static KEPT: RefCell<BTreeSet<Kept>> = const { RefCell::new(BTreeSet::new()) };
}

/// The keeper looks after it until the request ends, or until it is told otherwise.
pub fn look_after(watched: Watched) -> std::io::Result<Kept> {
    let kept = keeper::keep(watched)?;
    KEPT.with_borrow_mut(|all| all.insert(kept));
    Ok(kept)
}

pub fn look_no_more(kept: Kept) {
    keeper::forget(kept);
    // At exit the thread's values may be gone.
    let _ = KEPT.try_with(|all| all.borrow_mut().remove(&kept));
}

/// A lease that has ended before it was released is counted, once.
pub fn count_if_expired(lease: &Lease) {
    if lease.is_expired(SystemClock.now()) {
        stats::count_loss(lease);
    }
}

/// From now on the lease is to be freed.
pub fn keep(lease: &Arc<Lease>, store: &Rc<SharedStore>, limits: Limits) {
    LEASES.with_borrow_mut(|leases| {
        if !leases.iter().rev().any(|entry| Arc::ptr_eq(&entry.lease, lease)) {
            leases.push(Entry { lease: lease.clone(), store: store.clone(), limits, gone: None });
        }
    });
}

/// Its object has seen to it, or it is to live on.
pub fn forget(lease: &Arc<Lease>) {
    take(lease);
}

/// Its object goes away.
pub fn free(lease: &Arc<Lease>) {
    let Some(entry) = take(lease) else { return };
    let now = SystemClock.now();
    if !free_now(&entry, entry.limits.deadline(now)) {
        let gone = Some(entry.lease.gone_by(SystemClock.now()));
        let _ = LEASES.try_with(|leases| {
            let mut leases = leases.borrow_mut();
            // A process that never ends its request must not gather them.
            leases.retain(|entry| entry.gone.is_none_or(|gone| gone > now));
            leases.push(Entry { gone, ..entry });
        });
    }
}

/// A server has answered. If it had been silent, what it still holds of objects that are gone is freed.
pub fn catch_up(store: &Rc<SharedStore>, key: &Key) {
    if !store.answers(key) {
        return;
    }
    let part = store.store.part(key);
    let left: Vec<Entry> = LEASES.with_borrow_mut(|leases| {
        leases
            .extract_if(.., |entry| {
                entry.gone.is_some() && Rc::ptr_eq(&entry.store, store) && store.store.part(entry.lease.key()) == part
            })
            .collect()
    });
    for entry in left {
        if !free_now(&entry, entry.limits.deadline(SystemClock.now())) {
            LEASES.with_borrow_mut(|leases| leases.push(entry));
        }
    }
}

fn take(lease: &Arc<Lease>) -> Option<Entry> {
    // At exit the thread's values may be gone.
    LEASES
        .try_with(|leases| {
            let mut leases = leases.borrow_mut();
            let index = leases.iter().rposition(|entry| Arc::ptr_eq(&entry.lease, lease))?;
            Some(leases.swap_remove(index))
        })
        .ok()
        .flatten()
}

/// False: it is not known to be free, for the server does not answer.
fn free_now(entry: &Entry, until: Moment) -> bool {
    if entry.lease.process() != fork::process() {
        return true;
    }
    if !entry.lease.may_live() {
        count_if_expired(&entry.lease);
        return true;
    }
    let now = SystemClock.now();
    let is_silent = entry.store.is_silent(entry.lease.key(), now);
    if is_silent && entry.store.store.hands_over() {
        return false;
    }
    // Of several servers some may be well: they are told, and nobody is waited for.
    let until = if is_silent { now } else { until };
    let engine = Engine {
        store: &*entry.store.store,
        clock: &SystemClock,
        interrupt: &Quiet,
        wake_up: &Sleeper,
        limits: entry.limits,
    };
    let released = engine.release(&entry.lease, until);
    count_if_expired(&entry.lease);
    match released {
        Ok(_) => {
            entry.store.answers(entry.lease.key());
            true
        }
        Err(error) => {
            // One that fails over was asked for as long as there was time.
            if !is_silent && (error.is_silence() || entry.store.store.fails_over()) {
                entry.store.was_silent(entry.lease.key(), SystemClock.now(), entry.limits);
            }
            false
        }
    }
}

/// The end of a request: all leases within the time of one call.
pub extern "C" fn end(_type: i32, _module: i32) -> i32 {
    let start = SystemClock.now();
    let _ = catch_unwind(|| {
        critical::end();
        KEPT.try_with(RefCell::take).unwrap_or_default().into_iter().for_each(keeper::forget);
    });
    let server = |entry: &Entry| (Rc::as_ptr(&entry.store), entry.store.store.part(entry.lease.key()));
    let entries = LEASES.try_with(RefCell::take).unwrap_or_default().into_iter();
    let entries: Vec<_> = entries.map(|entry| (server(&entry), entry)).collect();
    let mut left: HashMap<_, usize> = HashMap::new();
    for (server, _) in &entries {
        *left.entry(*server).or_default() += 1;
    }
    for (server, entry) in entries {
        // One that is down must not use up the time of the others.
        let (now, deadline) = (SystemClock.now(), entry.limits.deadline(start));
        let until = now.plus(deadline.since(now) / u32::try_from(left.len()).unwrap_or(u32::MAX).max(1));
        // Nobody is left to hear of a failure: the key's ttl ends it. A panic ends no other lease's turn.
        let _ = catch_unwind(AssertUnwindSafe(|| free_now(&entry, until)));
        if let Some(count) = left.get_mut(&server) {
            *count -= 1;
        }
        left.retain(|_, count| *count > 0);
    }
    0
}
