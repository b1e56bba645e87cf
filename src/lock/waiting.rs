//! When a waiter looks again, if nobody tells it earlier.

use std::time::Duration;

use super::{
    backoff::Backoff,
    options::Poll,
    ports::Busy,
    queue::{OFFER, OFFER_UNTOLD},
    time::Moment,
};

/// One wait for one key.
#[derive(Debug)]
pub struct Waiting {
    backoff: Backoff,
    give_up: Moment,
}

impl Waiting {
    /// Redis expires keys in whole milliseconds: looking a moment after is looking once.
    const EXPIRY_GRAIN: Duration = Duration::from_millis(1);

    /// The first in the queue looks first at an expiry, so that one request finds the key, and not a herd.
    const AFTER_ANOTHER: Duration = Duration::from_millis(2);

    /// In a quorum, nobody is first. Who tries at the same time as another may take from it the nodes that it needs; those
    /// that are apart by more than a round trip do not.
    const SCATTER: Duration = Duration::from_millis(10);

    /// Between two looks of a waiter that is told of offers. Not longer than an offer lasts, so that each waiter knows
    /// when an offer ends that nobody took.
    const SAFETY: (Duration, Duration) = (Duration::from_millis(700), OFFER);

    pub fn new(poll: Poll, give_up: Moment, seed: u64) -> Self {
        Self { backoff: Backoff::new(poll, seed), give_up }
    }

    /// A pause after which one tries for a key that all who wait try for.
    pub fn scattered(&mut self) -> Duration {
        self.backoff.between(Duration::ZERO, Self::SCATTER)
    }

    /// None: the wait is over. Otherwise the moment to look again: after a pause, but not later than the end of the
    /// holder's ttl or of the wait, so that the last look is at its very end.
    /// `is_told`: whether we hear of offers.
    pub fn next_look(&mut self, now: Moment, busy: Option<&Busy>, is_told: bool) -> Option<Moment> {
        if now >= self.give_up {
            return None;
        }
        let queued = busy.and_then(|busy| busy.queued);
        let pause = match busy {
            Some(Busy { holder, .. }) if is_told && holder.is_ours => {
                let (least, most) = Self::SAFETY;
                self.backoff.between(least, most)
            }
            // Nobody tells us: we are in no queue, or the holder knows none.
            _ => self.backoff.pause(),
        };
        // What is offered to us untold must be found while it lasts.
        let pause = if queued.is_some() && !is_told { pause.min(OFFER_UNTOLD / 2) } else { pause };
        let expiry = busy.and_then(|busy| busy.holder.remaining).map(|left| {
            let turn = match queued {
                Some(queued) => Self::AFTER_ANOTHER.saturating_mul(u32::try_from(queued.ahead).unwrap_or(u32::MAX)),
                // Nobody is before another, and all see the same end.
                None if is_told => self.scattered(),
                None => Duration::ZERO,
            };
            left.saturating_add(Self::EXPIRY_GRAIN).saturating_add(turn)
        });
        let pause = expiry.map_or(pause, |expiry| pause.min(expiry));
        Some(now.plus(pause).min(self.give_up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{queue::Queued, token::Holder};

    /// Equal bounds leave no room for jitter.
    const EVERY_20_MS: Poll = Poll { min: Duration::from_millis(20), max: Duration::from_millis(20) };

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    /// Another library's holder.
    fn foreign(ms: u64) -> Busy {
        let holder = Holder { identity: None, is_ours: false, remaining: Some(Duration::from_millis(ms)) };
        Busy { holder, queued: None }
    }

    /// One of ours, while so many wait before us.
    fn ours(ms: u64, ahead: u64) -> Busy {
        let holder = Holder { is_ours: true, ..foreign(ms).holder };
        Busy { holder, queued: Some(Queued { ticket: 7, ahead, heard: Some(true) }) }
    }

    #[test]
    fn looks_again_after_the_pause() {
        let mut waiting = Waiting::new(EVERY_20_MS, at(1_000), 1);
        assert_eq!(waiting.next_look(at(0), Some(&foreign(30_000)), false), Some(at(20)));
        assert_eq!(waiting.next_look(at(20), None, false), Some(at(40)));
    }

    #[test]
    fn looks_as_soon_as_the_holder_may_have_expired() {
        let mut waiting = Waiting::new(EVERY_20_MS, at(1_000), 1);
        assert_eq!(waiting.next_look(at(0), Some(&foreign(4)), false), Some(at(5)));
        let for_ever = Busy { holder: Holder::default(), queued: None };
        assert_eq!(waiting.next_look(at(5), Some(&for_ever), false), Some(at(25)));
    }

    #[test]
    fn looks_once_more_at_the_very_end() {
        let mut waiting = Waiting::new(EVERY_20_MS, at(15), 1);
        assert_eq!(waiting.next_look(at(0), None, false), Some(at(15)));
        assert_eq!(waiting.next_look(at(15), None, false), None);
    }

    #[test]
    fn who_is_told_looks_seldom() {
        let mut pauses = Vec::new();
        for seed in 0..300 {
            let mut waiting = Waiting::new(EVERY_20_MS, Moment::NEVER, seed);
            pauses.push(waiting.next_look(at(0), Some(&ours(30_000, 0)), true).unwrap());
        }
        assert!(pauses.iter().all(|look| (at(700)..=at(1_000)).contains(look)), "{pauses:?}");
        pauses.sort();
        assert!(pauses[0] < at(720) && pauses[299] > at(980), "no jitter");
    }

    #[test]
    fn who_is_queued_behind_another_library_polls() {
        let mut waiting = Waiting::new(EVERY_20_MS, at(1_000), 1);
        let busy = Busy { queued: ours(0, 0).queued, ..foreign(30_000) };
        assert_eq!(waiting.next_look(at(0), Some(&busy), true), Some(at(20)));
        // And so does who cannot be told.
        assert_eq!(waiting.next_look(at(20), Some(&ours(30_000, 0)), false), Some(at(40)));
    }

    #[test]
    fn who_looks_for_itself_finds_an_offer_while_it_lasts() {
        let seldom = Poll { min: Duration::from_secs(60), max: Duration::from_secs(60) };
        let mut waiting = Waiting::new(seldom, Moment::NEVER, 1);
        assert_eq!(waiting.next_look(at(0), Some(&ours(30_000, 0)), false), Some(at(250)));
        assert_eq!(waiting.next_look(at(0), Some(&foreign(300_000)), false), Some(at(60_000)));
    }

    #[test]
    fn what_another_library_frees_is_noticed_within_100_ms_on_average() {
        let usual = Poll { min: Duration::from_millis(10), max: Duration::from_millis(250) };
        let (mut sum, mut squares) = (0.0, 0.0);
        for seed in 0..100 {
            let mut waiting = Waiting::new(usual, Moment::NEVER, seed);
            for _ in 0..50 {
                let pause = waiting.next_look(at(0), Some(&foreign(60_000)), false).unwrap().since(at(0)).as_secs_f64();
                sum += pause;
                squares += pause * pause;
            }
        }
        // The mean rest of the pause that a random moment falls into.
        let delay = squares / sum / 2.0;
        assert!(delay < 0.1, "{delay} s");
    }

    #[test]
    fn at_an_expiry_the_first_looks_first() {
        let mut waiting = Waiting::new(EVERY_20_MS, at(10_000), 1);
        assert_eq!(waiting.next_look(at(0), Some(&ours(300, 0)), true), Some(at(301)));
        assert_eq!(waiting.next_look(at(0), Some(&ours(300, 3)), true), Some(at(307)));
    }

    #[test]
    fn an_offer_that_nobody_takes_is_seen_to_end() {
        // Whenever during an offer of full length a waiter last looked, its next look comes before the offer's end.
        for seed in 0..100 {
            let mut waiting = Waiting::new(EVERY_20_MS, Moment::NEVER, seed);
            let look = waiting.next_look(at(0), Some(&ours(30_000, 5)), true).unwrap();
            assert!(look <= at(0).plus(OFFER));
        }
    }
}
