//! What servers answer when they refuse, and what of it may be said.

use redis::ServerError;

/// The server does not talk to us at all: what is wrong is the connection, and not the command.
pub fn is_refusal_to_talk(error: &ServerError) -> bool {
    matches!(error.code(), "NOAUTH" | "WRONGPASS") || is_unasked(error)
}

/// What a server says to a new connection before it closes it, where an answer is expected.
pub fn is_unasked(error: &ServerError) -> bool {
    error.code() == "DENIED" || error.details().is_some_and(|details| details.starts_with("max number of clients"))
}

/// Whatever a server or a proxy repeats of what it was sent. A secret of a few letters is none, and stands in any text.
pub fn without(secret: &str, text: &str) -> String {
    if secret.len() < 4 { text.into() } else { text.replace(secret, "***") }
}

/// The server's error, without what it repeats of the request: that may hold a token or a password.
pub fn in_words(error: &ServerError) -> String {
    let details = error.details().unwrap_or_default();
    let details = details.split("with args beginning with").next().unwrap_or_default();
    // Where in which script it happened is for us to know.
    let details = details.split(" script: ").next().unwrap_or_default();
    format!("{} {}", error.code(), details.trim_end_matches([' ', ',']))
}
