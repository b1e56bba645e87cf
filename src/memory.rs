//! The store behind `memory://`: keys inside this process, for unit tests and for trying it with no server. All its
//! locks exclude each other as they would through Redis; a forked child starts with none.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::{
    lock::{
        keys::Key,
        ports::{Call, Fault, Freed, Occupant, Renewal, Store, Vote},
        time::Moment,
        token::{Holder, Token},
        ttl::Ttl,
    },
    sys::fork::PerProcess,
};

/// The store of this process.
#[derive(Clone, Copy, Debug)]
pub struct Memory;

#[derive(Default)]
struct Keys {
    entries: HashMap<Box<[u8]>, Entry>,
    /// How many entries make it worth while to look for expired ones, which nobody may ever ask for again.
    sweep_at: usize,
}

static KEYS: PerProcess<Mutex<Keys>> = PerProcess::new();

struct Entry {
    token: Token,
    expires: Moment,
}

impl Memory {
    /// Runs `change` on the entry of a key, as it is now: None where it is free.
    fn with<R>(&self, key: &Key, now: Moment, change: impl FnOnce(&mut Option<Entry>) -> R) -> R {
        let mut keys = KEYS.get().lock().unwrap_or_else(PoisonError::into_inner);
        let mut entry = keys.entries.remove(key.as_bytes()).filter(|entry| entry.expires > now);
        let result = change(&mut entry);
        if let Some(entry) = entry {
            keys.insert(key, entry, now);
        }
        result
    }

    fn claim(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call, re_arm: bool) -> Vote {
        let now = call.clock.now();
        let new = Entry { token: token.clone(), expires: now.plus(ttl.as_duration()) };
        self.with(key, now, |entry| match entry {
            Some(other) if !re_arm || other.token != *token => Vote::Refused(Some(other.holder(now))),
            _ => {
                *entry = Some(new);
                Vote::Granted
            }
        })
    }
}

impl Keys {
    const LEAST_SWEPT: usize = 64;

    fn insert(&mut self, key: &Key, entry: Entry, now: Moment) {
        self.entries.insert(key.as_bytes().into(), entry);
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| entry.expires > now);
            self.sweep_at = Self::LEAST_SWEPT.max(self.entries.len() * 2);
        }
    }
}

impl Entry {
    fn holder(&self, now: Moment) -> Holder {
        Holder::of(self.token.as_bytes(), Some(self.expires.since(now)))
    }
}

impl Store for Memory {
    fn name(&self) -> &str {
        "memory://"
    }

    fn try_acquire(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Vote {
        self.claim(key, token, ttl, call, false)
    }

    fn ask(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Vote {
        self.claim(key, token, ttl, call, true)
    }

    fn leave(&self, key: &Key, token: &Token, call: &Call) -> Freed {
        self.with(key, call.clock.now(), |entry| match entry.take_if(|entry| entry.token == *token) {
            Some(_) => Freed::Freed,
            None => Freed::NotOurs,
        })
    }

    fn refresh(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Renewal {
        let now = call.clock.now();
        self.with(key, now, |entry| match entry {
            Some(entry) if entry.token == *token => {
                entry.expires = now.plus(ttl.as_duration());
                Renewal::Renewed
            }
            _ => Renewal::Lost,
        })
    }

    fn occupant(&self, key: &Key, call: &Call) -> Result<Option<Occupant>, Fault> {
        let now = call.clock.now();
        Ok(self.with(key, now, |entry| {
            entry.as_ref().map(|entry| Occupant { token: entry.token.clone(), holder: entry.holder(now) })
        }))
    }
}
