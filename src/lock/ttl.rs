//! The ttl: seconds at the PHP face, whole milliseconds in Redis, and less than both where we must be sure.
//!
//! Validity is the ttl less the drift allowance of Redlock: 1 % for clocks that run at different speeds, and 2 ms
//! for Redis' expiry precision (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).

use std::time::Duration;

use super::error::BadValue;

/// Milliseconds that Redis keeps a key; so many that something is left after the drift allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ttl(u64);

impl Ttl {
    /// Of a shorter lease nothing is left after the drift allowance.
    const LEAST_MS: u64 = 3;
    /// Integers up to here are exact in every place a ttl passes through, Lua's doubles included.
    const MOST_MS: u64 = 1 << 53;

    /// Rounds up to whole milliseconds: a lease is never shorter than what was asked for.
    pub fn from_seconds(seconds: f64) -> Result<Self, BadValue> {
        if !seconds.is_finite() {
            return Err(BadValue("must be finite: there is no lock without a ttl".into()));
        }
        if seconds <= 0.0 {
            return Err(BadValue("must be greater than 0".into()));
        }
        // Through whole microseconds, so that 0.07 s is 70 ms, and not 71 for want of a binary fraction.
        let ms = ((seconds * 1e6).round() / 1e3).ceil();
        if ms > Self::MOST_MS as f64 {
            return Err(BadValue("must be at most 9007199254740.992 (2^53 milliseconds)".into()));
        }
        let ms = ms as u64;
        if ms < Self::LEAST_MS {
            return Err(BadValue(
                "must be at least 0.003: of a shorter lease nothing is left after the allowance for clock drift".into(),
            ));
        }
        Ok(Self(ms))
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// The shorter of this and `ms`, which another ttl was.
    pub fn at_most_millis(self, ms: u64) -> Self {
        Self(self.0.min(ms.max(Self::LEAST_MS)))
    }

    /// How long after the request was sent the lease is surely ours.
    pub fn validity(self) -> Duration {
        let drift_us = (self.0 * 10) + 2_000;
        Duration::from_micros(self.0 * 1_000 - drift_us)
    }
}

/// Seconds to wait: zero or more, infinity included.
pub fn wait_from_seconds(seconds: f64) -> Result<Duration, BadValue> {
    if seconds.is_nan() {
        return Err(BadValue("must not be NAN".into()));
    }
    if seconds < 0.0 {
        return Err(BadValue("must be greater than or equal to 0".into()));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(seconds: f64) -> Option<u64> {
        Ttl::from_seconds(seconds).ok().map(Ttl::as_millis)
    }

    #[test]
    fn seconds_become_whole_milliseconds_rounded_up() {
        assert_eq!(ms(0.5), Some(500));
        assert_eq!(ms(1.0005), Some(1001));
        assert_eq!(ms(0.07), Some(70));
        assert_eq!(ms(0.29), Some(290));
        assert_eq!(ms(4.35), Some(4350));
        assert_eq!(ms(0.0021), Some(3));
        assert_eq!(ms(1e9), Some(1_000_000_000_000));
        assert_eq!(ms(9007199254740.992), Some(1 << 53));
    }

    #[test]
    fn what_is_no_ttl_is_refused() {
        for bad in [0.0, -0.0, -1.0, 0.0004, 0.002, 1e-300, 9007199254741.0, 9.3e18, f64::INFINITY, f64::NAN] {
            assert_eq!(ms(bad), None, "{bad}");
        }
    }

    #[test]
    fn validity_leaves_room_for_drift() {
        let validity = |seconds| Ttl::from_seconds(seconds).unwrap().validity();
        assert_eq!(validity(30.0), Duration::from_millis(29_698));
        assert_eq!(validity(0.003), Duration::from_micros(970));
        assert!(validity(9007199254740.992) > Duration::from_secs(8_900_000_000_000));
    }

    #[test]
    fn a_wait_may_be_infinite_but_not_negative() {
        assert_eq!(wait_from_seconds(0.25), Ok(Duration::from_millis(250)));
        assert_eq!(wait_from_seconds(-0.0), Ok(Duration::ZERO));
        assert_eq!(wait_from_seconds(f64::INFINITY), Ok(Duration::MAX));
        assert_eq!(wait_from_seconds(1e300), Ok(Duration::MAX));
        assert!(wait_from_seconds(-1e-9).is_err());
        assert!(wait_from_seconds(f64::NAN).is_err());
    }
}
