//! What a lock can be told, with its defaults and its checks.

use std::time::Duration;

use super::{error::BadValue, time::Moment, ttl::Ttl};

/// What an acquire asks of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub ttl: Ttl,
    /// Whether a fence comes with it.
    pub fencing: bool,
    /// How many replicas must have confirmed it.
    pub min_replicas: u32,
    /// How long a server must have been up to grant it: one that has forgotten what it held must not give it away anew.
    pub restart_guard: Option<Duration>,
}

/// Nothing but the key.
impl From<Ttl> for Terms {
    fn from(ttl: Ttl) -> Self {
        Self { ttl, fencing: Options::FENCING, min_replicas: 0, restart_guard: None }
    }
}

/// Of one lock.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub terms: Terms,
    /// Whether the keeper renews the lease.
    pub renew: bool,
    /// How long after the acquire it does so at most; `Duration::MAX`: no limit.
    pub max_hold: Duration,
    /// Whether the loss of the lease interrupts `synchronized`.
    pub interrupt: bool,
    pub auto_release: bool,
    pub limits: Limits,
    pub poll: Poll,
    /// Whether the token names host, process and time.
    pub identify: bool,
}

impl Options {
    pub const INTERRUPT: bool = false;
    pub const FENCING: bool = false;
    pub const AUTO_RELEASE: bool = true;
    /// A shorter lease would not outlive a few lost requests, and keep a thread busy.
    pub const LEAST_RENEWED: Duration = Duration::from_millis(100);

    pub fn is_too_short_to_renew(&self) -> bool {
        self.renew && self.terms.ttl.as_duration() < Self::LEAST_RENEWED
    }
}

/// How long the parts of a call may take. A call ends within its wait + connect + 2 × command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Name resolution, connection, TLS and authentication together.
    pub connect: Duration,
    /// One request and its reply.
    pub command: Duration,
}

impl Limits {
    /// What a call may take beyond its wait: at most two requests, and one new connection between them.
    pub fn grace(&self) -> Duration {
        self.connect.saturating_add(self.command.saturating_mul(2))
    }

    /// The end of a call that does not wait, if it starts at `start`.
    pub fn deadline(&self, start: Moment) -> Moment {
        start.plus(self.grace())
    }
}

/// The bounds of the time between two looks at a busy key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    pub min: Duration,
    pub max: Duration,
}

impl Poll {
    pub fn validate(&self) -> Result<(), BadValue> {
        if self.min > self.max {
            return Err(BadValue("must not be greater than redis_lock.poll_max".into()));
        }
        Ok(())
    }
}

/// How long a lease is renewed: more than zero, infinity included.
pub fn max_hold_from_seconds(seconds: f64) -> Result<Duration, BadValue> {
    if seconds.is_nan() {
        return Err(BadValue("must not be NAN".into()));
    }
    if seconds <= 0.0 {
        return Err(BadValue("must be greater than 0".into()));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// How many replicas are to confirm an acquire.
pub fn min_replicas(number: i64) -> Result<u32, BadValue> {
    // Far more than any primary has, and what Redis takes.
    u32::try_from(number)
        .ok()
        .filter(|number| *number <= 1_000_000)
        .ok_or_else(|| BadValue("must be from 0 to 1000000".into()))
}

/// How long a server must have been up: more than zero, and finite.
pub fn guard_from_seconds(seconds: f64) -> Result<Duration, BadValue> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|guard| !guard.is_zero())
        .ok_or_else(|| BadValue("must be greater than 0, and finite".into()))
}

/// A duration that must be positive and finite: a time-out, or the time between two looks.
pub fn positive_duration(seconds: f64) -> Result<Duration, BadValue> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| *duration >= Duration::from_millis(1) && *duration <= Duration::from_secs(86_400))
        .ok_or_else(|| BadValue("must be from 0.001 to 86400 seconds".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_bounded() {
        assert_eq!(positive_duration(0.25), Ok(Duration::from_millis(250)));
        for bad in [0.0, -1.0, 0.0001, 1e9, f64::INFINITY, f64::NAN] {
            assert!(positive_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn renewal_may_be_unlimited_but_not_empty() {
        assert_eq!(max_hold_from_seconds(0.5), Ok(Duration::from_millis(500)));
        assert_eq!(max_hold_from_seconds(f64::INFINITY), Ok(Duration::MAX));
        for bad in [0.0, -0.0, -1.0, f64::NEG_INFINITY, f64::NAN] {
            assert!(max_hold_from_seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_bounds_of_polling_are_in_order() {
        let poll = |min, max| Poll { min: Duration::from_millis(min), max: Duration::from_millis(max) };
        assert!(poll(10, 10).validate().is_ok());
        assert!(poll(11, 10).validate().is_err());
    }
}
