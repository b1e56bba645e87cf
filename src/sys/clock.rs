//! The monotonic clock.

use crate::lock::{ports::Clock, time::Moment};

#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

/// Counts the time that the machine was suspended, as the server's clock does: a lease ends in the meantime.
#[cfg(target_os = "linux")]
const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writing. Where a sandbox knows no clock that counts suspension, there is one that
        // does not, and which cannot fail.
        unsafe {
            if libc::clock_gettime(CLOCK, &mut time) != 0 {
                libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
            }
        }
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Moment::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_passes() {
        let start = SystemClock.now();
        std::thread::sleep(Duration::from_millis(20));
        let passed = SystemClock.now().since(start);
        assert!(passed >= Duration::from_millis(20) && passed < Duration::from_secs(20), "{passed:?}");
    }
}
