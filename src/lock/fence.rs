//! The fence: a number that grows with each acquisition of a key, so that the guarded resource can refuse who comes late.
//!
//! It is the server's time in microseconds, but more than the last one in any case. So it grows also where the last one
//! is forgotten (the memory flushed, a restart, a replica that lagged), as long as no answering server's clock is behind
//! the last fence.

use std::time::Duration;

/// Greater than 0 and less than 2^53, so that it is exact in every place it passes through: Lua's doubles, JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(u64);

impl Fence {
    /// How much longer than the ttl of the lease the last one is remembered.
    pub const REMEMBERED: Duration = Duration::from_secs(86_400);
    /// No fence reaches it.
    pub const LIMIT: u64 = 1 << 53;

    pub fn new(number: u64) -> Option<Self> {
        (number > 0 && number < Self::LIMIT).then_some(Self(number))
    }

    pub const fn number(self) -> u64 {
        self.0
    }

    /// The one after `last`. `now`: microseconds since 1970.
    pub fn next(last: Option<Self>, now: u64) -> Option<Self> {
        Self::new(last.map_or(now, |last| now.max(last.0 + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_time_but_always_more_than_the_last() {
        let next = |last, now| Fence::next(Fence::new(last), now).map(Fence::number);
        assert_eq!(next(0, 1_796_000_000_123_457), Some(1_796_000_000_123_457));
        assert_eq!(next(1_796_000_000_123_456, 1_796_000_000_123_457), Some(1_796_000_000_123_457));
        assert_eq!(next(1_796_000_000_123_457, 1_796_000_000_123_457), Some(1_796_000_000_123_458));
        assert_eq!(next(1_796_000_000_999_999, 5), Some(1_796_000_001_000_000));
    }

    #[test]
    fn there_is_none_where_doubles_are_not_exact() {
        assert_eq!(Fence::new(0), None);
        assert_eq!(Fence::new(1 << 53), None);
        assert_eq!(Fence::next(Fence::new((1 << 53) - 1), 7), None);
    }
}
