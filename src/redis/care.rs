//! What is asked of a server beside the key itself, where the memory of one is not trusted: replicas that have confirmed
//! it, and a server that has been up for long enough to know what it held.

use std::time::Duration;

use redis::Value;

use super::errors;
use crate::lock::{error::seconds, options::Terms, time::Moment};

#[derive(Clone, Copy, Default)]
pub struct Care {
    /// How many replicas are to confirm what was written.
    pub replicas: u32,
    /// How long the server must have been up.
    pub guard: Option<Duration>,
}

impl From<Terms> for Care {
    fn from(terms: Terms) -> Self {
        Self { replicas: terms.min_replicas, guard: terms.restart_guard }
    }
}

/// When a server began to run, as it says in `INFO server`: by a clock that somebody may set, in whole seconds, of which
/// the last one may not be over. The error: what it says instead.
pub fn started(info: &Value, now: Moment) -> Result<Moment, String> {
    let text = match info {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        Value::VerbatimString { text, .. } => text,
        Value::ServerError(error) => return Err(errors::in_words(error)),
        _ => "",
    };
    let line = text.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
    let uptime = line.and_then(|uptime| uptime.trim().parse().ok());
    uptime
        .map(|uptime: u64| now.minus(Duration::from_secs(uptime.saturating_sub(1))))
        .ok_or_else(|| "its INFO names no uptime".into())
}

/// Why a server that began to run then must not grant anything yet.
pub fn too_young(started: &Result<Moment, String>, guard: Duration, now: Moment) -> Option<String> {
    match started {
        Err(error) => Some(format!("restartGuard needs to know how long it has been up: {error}")),
        Ok(started) => {
            let up = now.since(*started);
            let why =
                || format!("it has been up for {}, less than the restartGuard of {}", seconds(up), seconds(guard));
            (up < guard).then(why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_as_old_as_it_says() {
        let at = |seconds: u64| Moment::from_nanos(seconds * 1_000_000_000);
        let info = |text: &str| Value::BulkString(text.into());
        let began =
            started(&info("# Server\r\nredis_version:7\r\nuptime_in_seconds:30\r\nuptime_in_days:0\r\n"), at(100));
        assert_eq!(began, Ok(at(71)));
        let guard = Duration::from_secs(40);
        assert_eq!(
            too_young(&began, guard, at(110)).as_deref(),
            Some("it has been up for 39 s, less than the restartGuard of 40 s")
        );
        assert_eq!(too_young(&began, guard, at(111)), None);
        for silent in [info("# Server\r\n"), info("uptime_in_seconds:x\r\n"), Value::Nil] {
            assert!(too_young(&started(&silent, at(100)), guard, at(1_000)).is_some());
        }
    }
}
