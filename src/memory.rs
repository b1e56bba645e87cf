//! The store behind `memory://`: keys inside this process, for unit tests and for trying it with no server. All its
//! locks exclude each other, and wait in line, as they would through Redis; a forked child starts with none.

use std::{
    cell::Cell,
    collections::HashMap,
    os::fd::RawFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, SystemTime},
};

use crate::{
    lock::{
        fence::Fence,
        keys::Key,
        lease,
        options::Terms,
        ports::{
            Busy, Call, Clock, Fault, Freed, Interrupt, Occupant, Renewal, RenewalServer, Renewer, Store, Subscription,
            Vote, Woken,
        },
        queue::{Place, Queue, Queued},
        time::Moment,
        token::{Holder, Token},
        ttl::Ttl,
    },
    sys::{
        clock::SystemClock,
        fork::{self, PerProcess},
        poll::{self, Waited},
    },
};

/// The store of this process.
#[derive(Clone, Copy, Debug)]
pub struct Memory;

static KEYS: PerProcess<Mutex<Keys>> = PerProcess::new();

fn keys() -> MutexGuard<'static, Keys> {
    KEYS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Keys {
    entries: HashMap<Box<[u8]>, Entry>,
    /// How many entries make it worth while to look for expired ones, which nobody may ever ask for again.
    sweep_at: usize,
    /// Who hears offers, and the wait that was told of one.
    ears: HashMap<String, Option<u64>>,
    /// The last one, of whatever key.
    fence: Option<Fence>,
}

#[derive(Default)]
struct Entry {
    lease: Option<Lease>,
    queue: Queue,
}

struct Lease {
    token: Token,
    expires: Moment,
}

impl Keys {
    const LEAST_SWEPT: usize = 64;

    /// Runs `change` on what is kept of a key, as it is now.
    fn with<R>(
        &mut self,
        key: &Key,
        now: Moment,
        change: impl FnOnce(&mut Entry, &mut HashMap<String, Option<u64>>) -> R,
    ) -> R {
        let mut entry = self.entries.remove(key.as_bytes()).unwrap_or_default();
        entry.expire(now);
        let result = change(&mut entry, &mut self.ears);
        if !entry.is_empty() {
            self.entries.insert(key.as_bytes().into(), entry);
            self.sweep(now);
        }
        result
    }

    /// The answer to who gets the key. A fence that is drawn and not given away leaves a gap, which hurts nobody.
    fn granted(&mut self, terms: Terms) -> Vote {
        if terms.fencing {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            self.fence = Fence::next(self.fence, u64::try_from(now.as_micros()).unwrap_or(u64::MAX)).or(self.fence);
        }
        Vote::Granted(self.fence.filter(|_| terms.fencing))
    }

    fn sweep(&mut self, now: Moment) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| {
                entry.expire(now);
                !entry.is_empty()
            });
            self.sweep_at = Self::LEAST_SWEPT.max(self.entries.len() * 2);
        }
    }
}

impl Entry {
    fn expire(&mut self, now: Moment) {
        self.lease.take_if(|lease| lease.expires <= now);
        self.queue.expire(now);
    }

    fn is_empty(&self) -> bool {
        self.lease.is_none() && self.queue.is_empty()
    }

    fn take(&mut self, token: &Token, ttl: Duration, now: Moment) {
        self.lease = Some(Lease { token: token.clone(), expires: now.plus(ttl) });
    }

    /// Gives the key to the next one in the queue that hears, if there is one.
    fn offer(&mut self, ears: &mut HashMap<String, Option<u64>>, giver: &Token, before: Option<&Place>, now: Moment) {
        if let Some(next) = self.queue.next(giver, before, |place| ears.contains_key(&place.ear)) {
            self.take(&next.token, next.offer(), now);
            if next.place.is_told {
                ears.insert(next.place.ear, Some(next.place.wait));
            }
        }
    }

    fn busy(&self, queued: Option<Queued>, now: Moment) -> Option<Busy> {
        self.lease.as_ref().map(|lease| Busy { holder: lease.holder(now), queued })
    }
}

impl Lease {
    fn holder(&self, now: Moment) -> Holder {
        Holder::of(self.token.as_bytes(), Some(self.expires.since(now)))
    }
}

impl Memory {
    /// Changes the end of the lease, if the token holds the key.
    fn prolong(key: &Key, token: &Token, now: Moment, end: impl FnOnce(Moment) -> Moment) -> Renewal {
        keys().with(key, now, |entry, _| match &mut entry.lease {
            Some(lease) if lease.token == *token => {
                lease.expires = end(lease.expires);
                Renewal::Renewed
            }
            _ => Renewal::Lost,
        })
    }
}

impl Store for Memory {
    fn name(&self) -> &str {
        "memory://"
    }

    fn try_acquire(&self, key: &Key, token: &Token, terms: Terms, call: &Call) -> Vote {
        if terms.fencing {
            return self.ask(key, token, terms, None, call);
        }
        let now = call.clock.now();
        keys().with(key, now, |entry, _| match entry.busy(None, now) {
            Some(busy) => Vote::Refused(Some(busy)),
            None => {
                entry.take(token, terms.ttl.as_duration(), now);
                Vote::Granted(None)
            }
        })
    }

    fn ask(&self, key: &Key, token: &Token, terms: Terms, place: Option<&Place>, call: &Call) -> Vote {
        let now = call.clock.now();
        let mut keys = keys();
        let granted = keys.granted(terms);
        keys.with(key, now, |entry, ears| {
            if let (None, Some(place)) = (&entry.lease, place) {
                entry.offer(ears, token, Some(place), now);
            }
            if entry.lease.as_ref().is_none_or(|lease| lease.token == *token) {
                if let Some(place) = place {
                    entry.queue.leave(place, token);
                }
                entry.take(token, terms.ttl.as_duration(), now);
                return granted;
            }
            let queued = place.map(|place| {
                // Who is new has just been told that it listens.
                let heard = Some(place.ticket.is_none() || ears.contains_key(&place.ear));
                let (ticket, ahead) = entry.queue.join(place, token, now);
                Queued { ticket, ahead, heard }
            });
            Vote::Refused(entry.busy(queued, now))
        })
    }

    fn leave(&self, key: &Key, token: &Token, place: Option<&Place>, call: &Call) -> Freed {
        let now = call.clock.now();
        keys().with(key, now, |entry, ears| {
            if let Some(place) = place {
                entry.queue.leave(place, token);
            }
            match entry.lease.take_if(|lease| lease.token == *token) {
                Some(_) => {
                    entry.offer(ears, token, None, now);
                    Freed::Freed
                }
                None => Freed::NotOurs,
            }
        })
    }

    fn refresh(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Renewal {
        let now = call.clock.now();
        Self::prolong(key, token, now, |_| now.plus(ttl.as_duration()))
    }

    fn occupant(&self, key: &Key, call: &Call) -> Result<Option<Occupant>, Fault> {
        let now = call.clock.now();
        Ok(keys().with(key, now, |entry, _| {
            entry.lease.as_ref().map(|lease| Occupant { token: lease.token.clone(), holder: lease.holder(now) })
        }))
    }

    fn subscription(&self, _: &Key) -> Result<Box<dyn Subscription>, Fault> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let ear = format!("{:016x}", COUNT.fetch_add(1, SeqCst));
        Ok(Box::new(Ear { ear, wait: Cell::new(0), process: fork::process() }))
    }
}

impl RenewalServer for Memory {
    fn name(&self) -> &str {
        Store::name(self)
    }

    fn open(&self, _: &Call) -> Result<Box<dyn Renewer>, Fault> {
        Ok(Box::<MemoryRenewer>::default())
    }
}

/// It answers at once.
#[derive(Default)]
struct MemoryRenewer(Vec<Renewal>);

impl Renewer for MemoryRenewer {
    fn is_alive(&self) -> bool {
        true
    }

    fn begin(&mut self, leases: &[(&Arc<lease::Lease>, Ttl)]) {
        let now = SystemClock.now();
        // Like the script, it never cuts short.
        let renew = |(lease, ttl): &(&Arc<lease::Lease>, Ttl)| {
            Memory::prolong(lease.key(), lease.token(), now, |end| end.max(now.plus(ttl.as_duration())))
        };
        self.0 = leases.iter().map(renew).collect();
    }

    fn go_on(&mut self) -> Result<Option<Vec<Renewal>>, Fault> {
        Ok(Some(std::mem::take(&mut self.0)))
    }

    fn awaited(&self) -> Vec<(RawFd, i16)> {
        Vec::new()
    }
}

struct Ear {
    ear: String,
    wait: Cell<u64>,
    process: u64,
}

impl Subscription for Ear {
    fn ear(&self) -> &str {
        &self.ear
    }

    fn begin(&self) -> u64 {
        self.wait.set(self.wait.get() + 1);
        self.wait.get()
    }

    fn is_alive(&self) -> bool {
        keys().ears.contains_key(&self.ear)
    }

    fn listen(&self, _: &Call) -> Result<(), Fault> {
        keys().ears.insert(self.ear.clone(), None);
        Ok(())
    }

    fn sleep(&self, until: Moment, clock: &dyn Clock, interrupt: &dyn Interrupt) -> Woken {
        loop {
            // Taken, so that it is told once: the offer may be over when it is asked for.
            match keys().ears.get_mut(&self.ear).map(Option::take) {
                Some(Some(told)) if told == self.wait.get() => return Woken::Told,
                Some(_) => {}
                None => return Woken::Deaf,
            }
            // What tells us runs in this thread, when a signal ends the slice, or in another.
            if interrupt.stopped() || poll::slice(&[], until, clock, interrupt) == Waited::TimedOut {
                return Woken::Untold;
            }
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        // A child that was forked has ears of its own, which may be called the same.
        if self.process == fork::process() {
            keys().ears.remove(&self.ear);
        }
    }
}
