//! How often to look at a busy key when nobody tells us: seldom, and not all waiters at the same moment.
//!
//! Each pause is drawn between the least pause and a limit that doubles up to the longest one.

use std::time::Duration;

use super::options::Poll;

#[derive(Debug)]
pub struct Backoff {
    poll: Poll,
    limit: Duration,
    random: u64,
}

impl Backoff {
    /// Waiters with different seeds look at different moments.
    pub fn new(poll: Poll, seed: u64) -> Self {
        Self { poll, limit: poll.min, random: seed }
    }

    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        self.limit = self.limit.saturating_mul(2).min(self.poll.max);
        self.between(self.poll.min, self.limit)
    }

    /// A pause between these bounds, which counts for nothing.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.fraction())
    }

    /// Uniform in [0, 1]. SplitMix64 (Steele, Lea, Flood 2014): jitter needs spread, not secrecy.
    fn fraction(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Poll = Poll { min: Duration::from_millis(10), max: Duration::from_millis(250) };

    #[test]
    fn pauses_grow_to_the_bound_and_stay_within_it() {
        let limits = [20, 40, 80, 160, 250, 250, 250].map(Duration::from_millis);
        let mut longest = [Duration::ZERO; 7];
        for seed in 0..500 {
            let mut backoff = Backoff::new(POLL, seed);
            for (limit, longest) in limits.iter().zip(&mut longest) {
                let pause = backoff.pause();
                assert!(pause >= POLL.min && pause <= *limit, "{pause:?}");
                *longest = pause.max(*longest);
            }
        }
        for (limit, longest) in limits.iter().zip(longest) {
            assert!(longest > limit.mul_f64(0.9), "never close to {limit:?}");
        }
    }

    #[test]
    fn waiters_spread() {
        let mut pauses: Vec<Duration> = (0..100).map(|seed| Backoff::new(POLL, seed).pause()).collect();
        pauses.sort();
        pauses.dedup();
        assert_eq!(pauses.len(), 100);
    }

    #[test]
    fn equal_bounds_give_a_fixed_pause() {
        let fixed = Duration::from_millis(50);
        let mut backoff = Backoff::new(Poll { min: fixed, max: fixed }, 9);
        assert_eq!([backoff.pause(), backoff.pause(), backoff.pause()], [fixed; 3]);
    }
}
