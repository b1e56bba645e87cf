//! What servers answer when they refuse, and what of it may be said.

use redis::ServerError;

use super::socket::Trouble;
use crate::lock::ports::Cause;

/// The error's code, and its text without it.
///
/// Redis 6.2 puts before what a script meets where it met it: `ERR Error running script (call to f_…): @user_script:1:
/// @user_script: 1: -READONLY …`.
fn plain(error: &ServerError) -> (String, String) {
    let details = error.details().unwrap_or_default();
    let whole = format!("{} {details}", error.code());
    let mut text = match whole.strip_prefix("ERR Error running script (call to ") {
        Some(call) => call.split_once("): ").map_or(&*whole, |(_, text)| text),
        None => &whole,
    };
    while let Some(place) = text.strip_prefix("@user_script:") {
        text = place.split_once(": ").map_or("", |(_, text)| text);
    }
    let (code, text) = text.strip_prefix('-').unwrap_or(text).split_once(' ').unwrap_or((text, ""));
    (code.into(), text.into())
}

/// Such as `READONLY`.
pub fn code(error: &ServerError) -> String {
    plain(error).0
}

/// The server does not talk to us at all: what is wrong is the connection, and not the command.
pub fn is_refusal_to_talk(error: &ServerError) -> bool {
    matches!(error.code(), "NOAUTH" | "WRONGPASS") || is_unasked(error)
}

/// What a server says to a new connection before it closes it, where an answer is expected.
pub fn is_unasked(error: &ServerError) -> bool {
    error.code() == "DENIED" || error.details().is_some_and(|details| details.starts_with("max number of clients"))
}

/// Whether an error names a node of a cluster to go to, and says nothing else.
pub fn is_redirect(text: &str) -> bool {
    text.starts_with("MOVED ") || text.starts_with("ASK ")
}

/// What it answers to a request, as the engine is to take it.
pub fn cause(error: &ServerError) -> Cause {
    match &*code(error) {
        // It is the primary no more, or not yet; or it has too few replicas left, as after a fail-over.
        "READONLY" | "MASTERDOWN" | "LOADING" | "NOREPLICAS" => Cause::NotNow(in_words(error)),
        // The keys are on another node of its cluster, or on two; or the cluster is not complete.
        "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" => Cause::NotNow(in_words(error)),
        _ => Cause::Answered(in_words(error)),
    }
}

/// What it answers to those who introduce themselves. `refused`: what is refused by that.
pub fn trouble(refused: &str, error: &ServerError) -> Trouble {
    match in_words(error) {
        // What the server says unasked is no answer to the request, and not the fault of what was sent.
        words if is_unasked(error) => Trouble::Other(words),
        words if matches!(cause(error), Cause::NotNow(_)) => Trouble::Other(format!("{refused}{words}")),
        words => Trouble::Refused(format!("{refused}{words}")),
    }
}

/// Whatever a server or a proxy repeats of what it was sent. A secret of a few letters is none, and stands in any text.
pub fn without(secret: &str, text: &str) -> String {
    if secret.len() < 4 { text.into() } else { text.replace(secret, "***") }
}

/// No error that servers have is longer; what is may fill a log.
const LONGEST_SHOWN: usize = 300;

/// The server's error, without what it repeats of the request: that may hold a token or a password.
pub fn in_words(error: &ServerError) -> String {
    let (code, text) = plain(error);
    let text = text.split("with args beginning with").next().unwrap_or_default();
    // Where in which script it happened is for us to know.
    let text = match text.rsplit_once(" script: ") {
        Some((text, place)) if place.contains("@user_script") => text,
        _ => text,
    };
    let whole = format!("{code} {text}");
    let shown = whole.trim_end_matches([' ', ',']).chars();
    shown.map(|c| if c.is_control() { '?' } else { c }).take(LONGEST_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As it comes from a server.
    fn error(line: &str) -> ServerError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(redis::Value::ServerError(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_script_met_is_told_as_if_there_were_no_script() {
        let sha = "f_1359c2b1c4e4f1a2b3c4d5e6f708192a3b4c5d6e";
        let readonly = "READONLY You can't write against a read only replica.";
        for line in [
            readonly,
            &format!("{readonly} script: 1359c2, on @user_script:12."),
            &format!("{readonly} script: on @user_script:12."),
            &format!("@user_script: 1: -{readonly}"),
            &format!("ERR Error running script (call to {sha}): @user_script:1: @user_script: 1: -{readonly}"),
        ] {
            let error = error(line);
            assert_eq!((code(&error).as_str(), in_words(&error).as_str()), ("READONLY", readonly), "{line}");
        }
        let refused = "ERR ACL failure in script: User u has no permissions to run the 'pttl' command";
        assert_eq!(in_words(&error(&format!("{refused} script: 1359c2, on @user_script:1."))), refused);
        assert_eq!(in_words(&error(refused)), refused);
        assert_eq!(in_words(&error("ERR")), "ERR");
    }
}
