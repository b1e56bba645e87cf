//! The class RedisLock.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use super::{
    critical, exceptions,
    interrupt::{Pump, Quiet},
    method::Stop,
    request,
    stores::SharedStore,
};
use crate::{
    keeper::{self, Kept, Loss, Upkeep, Watched},
    lock::{
        acquire::{Acquire, Acquired},
        engine::Engine,
        error::Error,
        fence::Fence,
        keys::Key,
        lease::{Lease, State},
        options::{Options, Terms},
        ports::{Cause, Clock, Fault, Interrupt, Subscription},
        time::Moment,
        token::{Holder, Token},
        ttl::Ttl,
    },
    sys::{clock::SystemClock, fork, identity, poll::Sleeper},
};

/// Of one object. No borrow of its cells is held while PHP code runs, which may use the object itself.
pub struct RedisLock {
    pub(super) key: Arc<Key>,
    pub(super) options: Options,
    pub(super) store: Rc<SharedStore>,
    /// The token to acquire with. None: a new one each time.
    owner: Option<Token>,
    lease: RefCell<Option<Arc<Lease>>>,
    /// What it heard offers by when it last had to wait.
    subscription: Cell<Option<Box<dyn Subscription>>>,
    /// Its lease, as the keeper knows it.
    kept: Cell<Option<Kept>>,
    /// When the renewal of its lease ends; None: it has not begun.
    renewed_until: Cell<Option<Moment>>,
    /// A call that talks to the server is under way; a signal handler that runs meanwhile may try another.
    in_use: Cell<bool>,
}

impl RedisLock {
    pub fn new(key: Key, options: Options, store: Rc<SharedStore>) -> Self {
        Self {
            key: Arc::new(key),
            options,
            store,
            owner: None,
            lease: RefCell::new(None),
            subscription: Cell::new(None),
            kept: Cell::new(None),
            renewed_until: Cell::new(None),
            in_use: Cell::new(false),
        }
    }

    /// A handle on a lease of which nothing is known but its token.
    pub fn restored(key: Key, token: Token, fence: Option<Fence>, options: Options, store: Rc<SharedStore>) -> Self {
        let mut lock = Self::new(key, options, store);
        lock.owner = Some(token.clone());
        let lease = Lease::new(lock.key.clone(), token, fork::process());
        lease.set_fence(fence);
        lock.lease.replace(Some(Arc::new(lease)));
        lock
    }

    /// False: someone else holds the key.
    pub fn acquire(&self, wait: Duration) -> Result<bool, Stop> {
        Ok(matches!(self.take("acquire", wait, true)?, Acquired::Held))
    }

    /// `bare`: the first try may be one that does not tell who holds the key.
    pub(super) fn take(&self, method: &str, wait: Duration, bare: bool) -> Result<Acquired, Stop> {
        let _use = self.begin(method)?;
        let pump = Pump::default();
        let engine = self.engine(&pump);
        let start = SystemClock.now();
        if self.lease().is_some_and(|lease| lease.is_valid(start)) {
            let key = exceptions::quoted(self.key.name());
            return Err(exceptions::logic(&format!("RedisLock::{method}(): this object holds the lock {key} already")));
        }
        self.look_no_more();
        self.free_remains(&engine, start, &pump)?;
        loop {
            let lease = self.next_lease()?;
            let what = Acquire {
                terms: self.options.terms,
                start,
                wait,
                poll: self.options.poll,
                bare: bare && self.owner.is_none(),
            };
            let mut subscription = self.subscription.take();
            let acquired = engine.acquire(&lease, &what, &mut subscription);
            self.subscription.set(subscription);
            let kept = matches!(acquired, Ok(Acquired::Held)) && !self.options.auto_release;
            if kept || !lease.may_live() {
                request::forget(&lease);
            }
            match acquired {
                Ok(acquired) => {
                    request::catch_up(&self.store, &self.key);
                    if matches!(acquired, Acquired::Held) && self.options.renew {
                        self.look_after_or_free(&lease, true)?;
                    }
                    return Ok(acquired);
                }
                // A handler forked, and this is the child: it waits on its own account.
                Err(Error::Forked) => pump.stop()?,
                // The wait goes on with another token. What this one may have is being freed, as far as it can be.
                Err(Error::Store(Fault { cause: Cause::Tainted(_), .. })) if self.owner.is_none() => {
                    pump.stop()?;
                    request::forget(&lease);
                }
                Err(error) => {
                    if pump.stop().is_err() && lease.may_live() {
                        // What a handler threw waits for no further try: not for that of the object's destruction.
                        self.store.was_silent(&self.key, SystemClock.now(), self.options.limits);
                    }
                    pump.stop()?;
                    return Err(exceptions::lock(error));
                }
            }
        }
    }

    /// The keeper does, from now on: renews it, where that is to be, or only watches for its end.
    fn look_after(&self, lease: &Arc<Lease>, renew: bool) -> io::Result<Kept> {
        let Options { terms: Terms { ttl, .. }, max_hold, limits, .. } = self.options;
        let upkeep = renew.then(|| {
            let until = self.renewed_until.get().unwrap_or_else(|| SystemClock.now().plus(max_hold));
            self.renewed_until.set(Some(until));
            Upkeep { ttl, until, address: self.store.address.clone(), server: self.store.for_keeper(), limits }
        });
        self.look_no_more();
        let kept = request::look_after(Watched { lease: lease.clone(), upkeep, alarm: None })?;
        self.kept.set(Some(kept));
        Ok(kept)
    }

    /// As part of an acquire, which fails where that cannot be.
    pub(super) fn look_after_or_free(&self, lease: &Arc<Lease>, renew: bool) -> Result<Kept, Stop> {
        self.look_after(lease, renew).map_err(|error| {
            let engine = self.engine(&Quiet);
            if engine.release(lease, engine.deadline()).is_ok() {
                request::forget(lease);
            }
            exceptions::not_looked_after(self.key.name(), &error)
        })
    }

    pub(super) fn kept(&self) -> Option<Kept> {
        self.kept.get()
    }

    /// No more of what is asked of the keeper. Gives what it knows of a loss.
    pub(super) fn look_no_more(&self) -> Option<Loss> {
        let kept = self.kept.take()?;
        let loss = keeper::loss(kept);
        request::look_no_more(kept);
        loss
    }

    /// So that the object is never refused because of its own old key.
    fn free_remains(&self, engine: &Engine, start: Moment, pump: &Pump) -> Result<(), Stop> {
        let Some(old) = self.lease().filter(|lease| self.owner.is_none() && lease.may_live()) else {
            return Ok(());
        };
        let freed = engine.release(&old, start.plus(self.options.limits.grace()));
        request::count_if_expired(&old);
        pump.stop()?;
        match freed {
            Ok(_) | Err(Error::Forked) => request::forget(&old),
            Err(error) => return Err(exceptions::lock(error)),
        }
        Ok(())
    }

    /// The lease to acquire, in place of the old one.
    fn next_lease(&self) -> Result<Arc<Lease>, Stop> {
        let lease = match (&self.owner, self.lease()) {
            (Some(_), Some(lease)) if lease.is_tainted() => return Err(exceptions::tainted(self.key.name())),
            (Some(_), Some(lease)) if lease.is_expired(SystemClock.now()) => {
                request::count_if_expired(&lease);
                request::forget(&lease);
                Arc::new(lease.again(fork::process()))
            }
            // What is known of the requests of this token stays known.
            (Some(_), Some(lease)) => lease,
            (Some(owner), None) => Arc::new(Lease::new(self.key.clone(), owner.clone(), fork::process())),
            (None, _) => {
                let token =
                    identity::draw_token(self.options.identify).map_err(|message| exceptions::randomness(&message))?;
                Arc::new(Lease::new(self.key.clone(), token, fork::process()))
            }
        };
        request::keep(&lease, &self.store, self.options.limits);
        self.lease.replace(Some(lease.clone()));
        self.renewed_until.set(None);
        Ok(lease)
    }

    pub fn release(&self) -> Result<bool, Stop> {
        let Some(lease) = self.handle().filter(|lease| lease.may_live()) else {
            self.look_no_more();
            return Ok(false);
        };
        let _use = self.begin("release")?;
        let pump = Pump::default();
        let engine = self.engine(&pump);
        // Whatever comes of it: who wants to be rid of the lock does not keep it.
        self.look_no_more();
        let released = engine.release(&lease, engine.deadline());
        request::count_if_expired(&lease);
        if !lease.may_live() {
            request::forget(&lease);
        }
        if released.is_ok() {
            request::catch_up(&self.store, &self.key);
        }
        finish(&pump, released, false)
    }

    pub fn refresh(&self, ttl: Option<Ttl>) -> Result<bool, Stop> {
        // Also in a signal handler while this object waits: there is nothing to refresh.
        let Some(lease) = self.handle().filter(|lease| lease.may_live() || !self.in_use.get()) else {
            return Ok(false);
        };
        let _use = self.begin("refresh")?;
        let pump = Pump::default();
        let refreshed = self.engine(&pump).refresh(&lease, ttl.unwrap_or(self.options.terms.ttl));
        // Whatever came of it: what is believed may have become less.
        self.kept().into_iter().for_each(keeper::look_again);
        match &refreshed {
            Ok(true) => {
                if self.options.auto_release {
                    request::keep(&lease, &self.store, self.options.limits);
                }
                if self.kept().is_none() && (self.options.renew || critical::is_running(&lease)) {
                    let kept = self.look_after(&lease, self.options.renew);
                    let kept = kept.map_err(|error| exceptions::not_looked_after(self.key.name(), &error))?;
                    critical::kept_anew(&lease, kept);
                }
            }
            Ok(false) => {
                request::count_if_expired(&lease);
                if !lease.may_live() {
                    request::forget(&lease);
                }
            }
            Err(_) => {}
        }
        finish(&pump, refreshed, false)
    }

    pub fn is_acquired(&self) -> bool {
        self.lease().is_some_and(|lease| lease.is_valid(SystemClock.now()))
    }

    pub fn is_expired(&self) -> bool {
        self.lease().is_some_and(|lease| lease.is_expired(SystemClock.now()))
    }

    pub fn remaining(&self) -> Option<Duration> {
        self.lease()?.remaining(SystemClock.now())
    }

    pub fn key(&self) -> &[u8] {
        self.key.name()
    }

    pub fn token(&self) -> Option<Token> {
        self.lease().filter(|lease| lease.is_worth_knowing()).map(|lease| lease.token().clone())
    }

    /// Also of a lease that was lost: it is what its late writes are refused by.
    pub fn fence(&self) -> Option<Fence> {
        self.lease().filter(|lease| lease.state() != State::Settled)?.fence()
    }

    pub fn holder(&self) -> Result<Option<Holder>, Stop> {
        let pump = Pump::default();
        loop {
            match self.engine(&pump).holder(&self.key) {
                // A handler forked, and this is the child: it asks on its own account.
                Err(Error::Forked) => pump.stop()?,
                holder => return finish(&pump, holder, None),
            }
        }
    }

    pub fn force_release(&self) -> Result<bool, Stop> {
        let _use = self.begin("forceRelease")?;
        let pump = Pump::default();
        let own = self.lease();
        let evicted = self.engine(&pump).evict(&self.key, own.as_deref());
        if let Some(own) = own.filter(|own| !own.may_live()) {
            self.look_no_more();
            request::forget(&own);
        }
        finish(&pump, evicted, false)
    }

    pub(super) fn engine<'a>(&'a self, interrupt: &'a dyn Interrupt) -> Engine<'a> {
        Engine {
            store: &*self.store.store,
            clock: &SystemClock,
            interrupt,
            wake_up: &Sleeper,
            limits: self.options.limits,
        }
    }

    /// This process's lease: a forked child has none of its parent's.
    pub(super) fn lease(&self) -> Option<Arc<Lease>> {
        self.lease.borrow().clone().filter(|lease| lease.process() == fork::process())
    }

    /// The lease to ask the server about. A token that the application named may hold the key at any time: what was
    /// known of it, when it was settled, is not known for ever.
    fn handle(&self) -> Option<Arc<Lease>> {
        let lease = self.lease()?;
        if self.owner.is_none() || self.in_use.get() || lease.state() != State::Settled || lease.is_tainted() {
            return Some(lease);
        }
        let anew = Arc::new(Lease::new(self.key.clone(), lease.token().clone(), fork::process()));
        self.lease.replace(Some(anew.clone()));
        self.renewed_until.set(None);
        Some(anew)
    }

    fn begin(&self, method: &str) -> Result<InUse<'_>, Stop> {
        if self.in_use.replace(true) {
            return Err(exceptions::logic(&format!(
                "RedisLock::{method}(): this object is in the middle of another call"
            )));
        }
        Ok(InUse(&self.in_use))
    }
}

/// The value of a call, unless something else is to come of it. `of_the_parent`: its value in a child that a handler
/// forked meanwhile, to which the parent's lease is none.
fn finish<T>(pump: &Pump, result: Result<T, Error>, of_the_parent: T) -> Result<T, Stop> {
    pump.stop()?;
    match result {
        Err(Error::Forked) => Ok(of_the_parent),
        result => result.map_err(exceptions::lock),
    }
}

struct InUse<'a>(&'a Cell<bool>);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Drop for RedisLock {
    fn drop(&mut self) {
        self.look_no_more();
        if let Some(lease) = self.lease.take() {
            request::free(&lease);
        }
    }
}
