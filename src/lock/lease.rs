//! One holding of a key, and what is known of it. Shared between threads, so all of its state is atomic.
//!
//! Two rules keep it honest:
//! - Validity counts from before the request that was granted, and never with a longer ttl than that of any request
//!   of this token whose fate is unknown: such a request may still run, late, and cut the key's life to its own ttl.
//! - A token whose release may be under way is never believed again: the release may still run, late.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use super::{keys::Key, time::Moment, token::Token, ttl::Ttl};

/// What is known of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Not known to be ours: not asked for yet, or the answer did not come, or restored.
    Unsure,
    /// Ours; for how long, says the validity.
    Held,
    /// A release was sent while it was ours, and its answer did not come.
    Releasing,
    /// Given up, and not known to be free.
    Abandoned,
    /// Ended before it was released.
    Lost,
    /// Free, or never ours.
    Settled,
}

impl State {
    const ALL: [Self; 6] = [Self::Unsure, Self::Held, Self::Releasing, Self::Abandoned, Self::Lost, Self::Settled];
}

#[derive(Debug)]
pub struct Lease {
    key: Arc<Key>,
    token: Token,
    /// The process that acquired it; a forked child inherits the object, but not the lease.
    process: u64,
    state: AtomicU8,
    /// Nanoseconds of the moment until which it is surely ours.
    valid_until: AtomicU64,
    /// Milliseconds: the least ttl of the requests whose fate is unknown.
    least_unknown_ttl: AtomicU64,
    /// Milliseconds: the greatest ttl that was asked for.
    greatest_ttl: AtomicU64,
    tainted: AtomicBool,
}

impl Lease {
    const NEVER_VALID: Moment = Moment::from_nanos(0);

    pub fn new(key: Arc<Key>, token: Token, process: u64) -> Self {
        Self {
            key,
            token,
            process,
            state: AtomicU8::new(State::Unsure as u8),
            valid_until: AtomicU64::new(Self::NEVER_VALID.as_nanos()),
            least_unknown_ttl: AtomicU64::new(u64::MAX),
            greatest_ttl: AtomicU64::new(0),
            tainted: AtomicBool::new(false),
        }
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    pub fn token(&self) -> &Token {
        &self.token
    }

    pub fn process(&self) -> u64 {
        self.process
    }

    pub fn state(&self) -> State {
        State::ALL.get(usize::from(self.state.load(SeqCst))).copied().unwrap_or(State::Unsure)
    }

    pub fn valid_until(&self) -> Moment {
        Moment::from_nanos(self.valid_until.load(SeqCst))
    }

    /// Whether it is surely ours now.
    pub fn is_valid(&self, now: Moment) -> bool {
        self.state() == State::Held && now < self.valid_until()
    }

    /// Whether it was ours and ended before it was released.
    pub fn is_expired(&self, now: Moment) -> bool {
        match self.state() {
            State::Held => now >= self.valid_until(),
            State::Abandoned => self.valid_until() != Self::NEVER_VALID && now >= self.valid_until(),
            State::Lost => true,
            State::Unsure | State::Releasing | State::Settled => false,
        }
    }

    /// Whether the key may still hold our token.
    pub fn may_live(&self) -> bool {
        !matches!(self.state(), State::Lost | State::Settled)
    }

    /// Whether its holder may still have a use for the token. Not where it was never ours, or surely is no more.
    pub fn is_worth_knowing(&self) -> bool {
        match self.state() {
            State::Unsure | State::Held | State::Releasing => true,
            State::Abandoned => self.valid_until() != Self::NEVER_VALID,
            State::Lost | State::Settled => false,
        }
    }

    /// When its key is gone by itself, if nothing more is asked for.
    pub fn gone_by(&self, now: Moment) -> Moment {
        now.plus(Duration::from_millis(self.greatest_ttl.load(SeqCst)))
    }

    /// Whether a request of this token may still run, late.
    pub fn has_unknowns(&self) -> bool {
        self.least_unknown_ttl.load(SeqCst) != u64::MAX
    }

    /// A request that was sent at `sent` was granted.
    pub fn granted(&self, sent: Moment, ttl: Ttl) {
        self.greatest_ttl.fetch_max(ttl.as_millis(), SeqCst);
        self.valid_until.store(self.validity(sent, ttl).as_nanos(), SeqCst);
        self.state.store(State::Held as u8, SeqCst);
    }

    /// Whether a release of this token may still run, late: then no later acquire with it can be believed.
    pub fn is_tainted(&self) -> bool {
        self.tainted.load(SeqCst)
    }

    /// A request that is sent now may run at any moment from now on. Gives what was known before.
    pub fn sending(&self, sent: Moment, ttl: Ttl) -> Moment {
        Moment::from_nanos(self.valid_until.fetch_min(self.validity(sent, ttl).as_nanos(), SeqCst))
    }

    /// That request surely did not run.
    pub fn not_sent(&self, before: Moment) {
        self.valid_until.store(before.as_nanos(), SeqCst);
    }

    /// A request that was sent at `sent` may have run, or may yet run.
    pub fn unknown(&self, sent: Moment, ttl: Ttl) {
        self.greatest_ttl.fetch_max(ttl.as_millis(), SeqCst);
        self.least_unknown_ttl.fetch_min(ttl.as_millis(), SeqCst);
        self.valid_until.fetch_min(self.validity(sent, ttl).as_nanos(), SeqCst);
    }

    /// A release was sent, and its answer did not come. `was_valid`: it was surely ours until then.
    pub fn releasing(&self, was_valid: bool) {
        self.taint();
        if was_valid {
            self.state.store(State::Releasing as u8, SeqCst);
        } else if self.state() != State::Releasing {
            self.state.store(State::Abandoned as u8, SeqCst);
        }
    }

    /// An acquire that may have succeeded was given up before anybody believed in it.
    pub fn withdrawn(&self) {
        self.valid_until.store(Self::NEVER_VALID.as_nanos(), SeqCst);
        self.state.store(State::Abandoned as u8, SeqCst);
    }

    /// A release of this token may run at any time from now on.
    pub fn taint(&self) {
        self.tainted.store(true, SeqCst);
    }

    pub fn lost(&self) {
        self.state.store(State::Lost as u8, SeqCst);
    }

    pub fn settled(&self) {
        self.state.store(State::Settled as u8, SeqCst);
    }

    fn validity(&self, sent: Moment, ttl: Ttl) -> Moment {
        let least = self.least_unknown_ttl.load(SeqCst);
        sent.plus(ttl.at_most_millis(least).validity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> Lease {
        Lease::new(Arc::new(Key::new(b"", b"k").unwrap()), Token::new([0; 16], None), 0)
    }

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn ttl(seconds: f64) -> Ttl {
        Ttl::from_seconds(seconds).unwrap()
    }

    #[test]
    fn valid_from_before_the_request_until_the_drift() {
        let lease = lease();
        assert!(!lease.is_valid(at(0)) && !lease.is_expired(at(0)));
        lease.granted(at(100), ttl(1.0));
        assert!(lease.is_valid(at(100)) && lease.is_valid(at(1087)));
        assert!(!lease.is_valid(at(1088)) && lease.is_expired(at(1088)));
    }

    #[test]
    fn a_request_of_unknown_fate_bounds_all_later_validity() {
        let lease = lease();
        lease.granted(at(0), ttl(30.0));
        lease.unknown(at(1_000), ttl(2.0));
        assert_eq!(lease.valid_until(), at(1_000).plus(ttl(2.0).validity()));
        // It may run as late as it likes: a longer refresh cannot be trusted for longer.
        lease.granted(at(2_000), ttl(30.0));
        assert_eq!(lease.valid_until(), at(2_000).plus(ttl(2.0).validity()));
        lease.granted(at(3_000), ttl(1.0));
        assert_eq!(lease.valid_until(), at(3_000).plus(ttl(1.0).validity()));
    }

    #[test]
    fn an_unknown_longer_ttl_does_not_prolong() {
        let lease = lease();
        lease.granted(at(0), ttl(2.0));
        lease.unknown(at(100), ttl(30.0));
        assert_eq!(lease.valid_until(), at(0).plus(ttl(2.0).validity()));
    }

    #[test]
    fn lost_and_settled_are_not_the_same() {
        let lease = lease();
        lease.granted(at(0), ttl(30.0));
        lease.lost();
        assert!(lease.is_expired(at(1)) && !lease.is_valid(at(1)) && !lease.may_live());
        lease.settled();
        assert!(!lease.is_expired(at(1)) && !lease.may_live());
    }
}
