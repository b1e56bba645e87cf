//! What can go wrong, by what the caller may conclude from it.

use std::time::Duration;

use super::ports::{Cause, Fault};

/// A value that no request may be sent with. Reads on after the name of the parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(pub String);

/// Why a lease could not be acquired, released or refreshed. "Busy" and "no longer ours" are answers, not errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] Fault),
    /// Granted, but so late that nothing of the lease was left; it was freed again.
    #[error("{server}: the answer took {}, which used up the lease", seconds(*.took))]
    UsedUp { server: String, took: Duration },
    /// The host wants the call to end: a signal handler threw, or the time limit was reached.
    #[error("interrupted")]
    Interrupted,
    /// A signal handler forked; this is the child, and the request was its parent's.
    #[error("forked during the call")]
    Forked,
}

impl Error {
    /// Whether the server kept silent, as far as anybody can tell: the next call may have to wait as long.
    pub fn is_silence(&self) -> bool {
        let Self::Store(fault) = self else { return false };
        match fault.cause {
            Cause::NoAnswer(_)
            | Cause::Unreachable(_)
            | Cause::TurnedAway(_)
            | Cause::NoQuorum(_)
            | Cause::Tainted(_) => true,
            Cause::Unasked(_)
            | Cause::Answered(_)
            | Cause::NotNow(_)
            | Cause::Unconfirmed(_)
            | Cause::Unconfirmable(_)
            | Cause::Forked => false,
        }
    }
}

/// A duration as people read it in a message.
pub fn seconds(duration: Duration) -> String {
    let rounded = (duration.as_secs_f64() * 1e3).round() / 1e3;
    format!("{rounded} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_short() {
        assert_eq!(seconds(Duration::from_millis(1250)), "1.25 s");
        assert_eq!(seconds(Duration::from_secs(10)), "10 s");
        assert_eq!(seconds(Duration::from_micros(1_234_567)), "1.235 s");
    }
}
