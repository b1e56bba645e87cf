//! When a waiter looks again.

use std::time::Duration;

use super::{backoff::Backoff, options::Poll, time::Moment, token::Holder};

/// One wait for one key.
#[derive(Debug)]
pub struct Waiting {
    backoff: Backoff,
    give_up: Moment,
}

impl Waiting {
    /// Redis expires keys in whole milliseconds: looking a moment after is looking once.
    const EXPIRY_GRAIN: Duration = Duration::from_millis(1);

    pub fn new(poll: Poll, give_up: Moment, seed: u64) -> Self {
        Self { backoff: Backoff::new(poll, seed), give_up }
    }

    /// None: the wait is over. Otherwise the moment to look again: after a pause, but not later than the end of the
    /// holder's ttl or of the wait, so that the last look is at its very end.
    pub fn next_look(&mut self, now: Moment, holder: Option<&Holder>) -> Option<Moment> {
        if now >= self.give_up {
            return None;
        }
        let pause = self.backoff.pause();
        let expiry = holder.and_then(|holder| holder.remaining).map(|left| left.saturating_add(Self::EXPIRY_GRAIN));
        let pause = expiry.map_or(pause, |expiry| pause.min(expiry));
        Some(now.plus(pause).min(self.give_up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal bounds leave no room for jitter.
    const EVERY_20_MS: Poll = Poll { min: Duration::from_millis(20), max: Duration::from_millis(20) };

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn holder(ms: u64) -> Holder {
        Holder { identity: None, remaining: Some(Duration::from_millis(ms)) }
    }

    #[test]
    fn looks_again_after_the_pause() {
        let mut waiting = Waiting::new(EVERY_20_MS, at(1_000), 1);
        assert_eq!(waiting.next_look(at(0), Some(&holder(30_000))), Some(at(20)));
        assert_eq!(waiting.next_look(at(20), None), Some(at(40)));
    }

    #[test]
    fn looks_as_soon_as_the_holder_may_have_expired() {
        let mut waiting = Waiting::new(EVERY_20_MS, at(1_000), 1);
        assert_eq!(waiting.next_look(at(0), Some(&holder(4))), Some(at(5)));
        let for_ever = Holder { identity: None, remaining: None };
        assert_eq!(waiting.next_look(at(5), Some(&for_ever)), Some(at(25)));
    }

    #[test]
    fn looks_once_more_at_the_very_end() {
        let mut waiting = Waiting::new(EVERY_20_MS, at(15), 1);
        assert_eq!(waiting.next_look(at(0), None), Some(at(15)));
        assert_eq!(waiting.next_look(at(15), None), None);
    }
}
