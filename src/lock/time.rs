//! A moment on the monotonic clock. Saturating, so that "no limit" is a moment like any other.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// Never reached.
    pub const NEVER: Self = Self(u64::MAX);

    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_stays_never() {
        assert_eq!(Moment::NEVER.plus(Duration::from_secs(1)), Moment::NEVER);
        assert_eq!(Moment::from_nanos(5).plus(Duration::MAX), Moment::NEVER);
    }

    #[test]
    fn a_difference_is_never_negative() {
        let (early, late) = (Moment::from_nanos(3), Moment::from_nanos(10));
        assert_eq!(late.since(early), Duration::from_nanos(7));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
