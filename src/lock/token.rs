//! The token says who holds a key: 32 hex digits of the operating system's randomness, `:`, and, unless the holder
//! hides them, `host:pid:unix-seconds`, so that a waiter can say who holds the key at no cost.

use std::{fmt, io::Write, time::Duration};

/// Bytes, compared whole. Never shown: who has it can free the lock.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Vec<u8>);

impl Token {
    const RANDOM_DIGITS: usize = 32;

    /// A new token. `identity`: `host:pid:` and the Unix time in seconds, unless they are withheld.
    pub fn new(random: [u8; Self::RANDOM_DIGITS / 2], identity: Option<(&str, u64)>) -> Self {
        let mut bytes = Vec::with_capacity(128);
        bytes.resize(Self::RANDOM_DIGITS, 0);
        // Neither can fail: there are two digits for each byte, and a vector takes what is written.
        let _ = hex::encode_to_slice(random, &mut bytes);
        bytes.push(b':');
        if let Some((process, since)) = identity {
            let _ = write!(bytes, "{process}{since}");
        }
        Self(bytes)
    }

    /// A token drawn elsewhere, or an owner that the application names itself.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(_secret) = self;
        f.write_str("Token(<redacted>)")
    }
}

/// Who holds a key, as far as the value of the key tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// None: another library, or a holder that hides it.
    pub identity: Option<Identity>,
    /// Whether the token is of our form: then its holder passes the key on. Another library's holder tells nobody.
    pub is_ours: bool,
    /// How long the key lives without a refresh; None: for ever.
    pub remaining: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub host: String,
    pub pid: u32,
    /// Unix time at which the holder drew its token.
    pub since: u64,
}

impl Holder {
    pub fn of(value: &[u8], remaining: Option<Duration>) -> Self {
        let (is_ours, identity) = match own_part(value) {
            None => (false, None),
            Some(identity) => (true, Identity::of(identity)),
        };
        Self { identity, is_ours, remaining }
    }
}

/// What follows the random digits and the colon, in a token of our form.
fn own_part(value: &[u8]) -> Option<&[u8]> {
    let (random, rest) = value.split_at_checked(Token::RANDOM_DIGITS)?;
    let is_random = random.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    rest.strip_prefix(b":").filter(|_| is_random)
}

impl Identity {
    fn of(identity: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(identity).ok()?.rsplitn(3, ':');
        let since = parts.next()?.parse().ok()?;
        let pid = parts.next()?.parse().ok()?;
        let host = parts.next().filter(|host| host.bytes().all(|byte| byte.is_ascii_graphic()))?;
        Some(Self { host: host.into(), pid, since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_tells_its_holder() {
        let token = Token::new([0xab; 16], Some(("web-1:4711:", 1_796_000_000)));
        assert_eq!(token.as_bytes(), format!("{}:web-1:4711:1796000000", "ab".repeat(16)).as_bytes());
        let holder = Holder::of(token.as_bytes(), None);
        assert_eq!(holder.identity.unwrap(), Identity { host: "web-1".into(), pid: 4711, since: 1_796_000_000 });
        assert!(holder.is_ours);
    }

    #[test]
    fn a_token_may_hide_its_holder() {
        let token = Token::new([0; 16], None);
        assert_eq!(token.as_bytes(), format!("{}:", "0".repeat(32)).as_bytes());
        let holder = Holder::of(token.as_bytes(), None);
        assert!(holder.identity.is_none() && holder.is_ours);
    }

    #[test]
    fn foreign_values_name_nobody() {
        let zeros = "0".repeat(32);
        for value in [
            "",
            "1",
            &zeros,
            &format!("{}:h:1:1", "0".repeat(31)),
            &format!("{}:h:1:1", "X".repeat(32)),
            &format!("{zeros}é:h:1:1"),
            &format!("{}é:h:1:1", "0".repeat(31)),
        ] {
            let holder = Holder::of(value.as_bytes(), None);
            assert!(holder.identity.is_none() && !holder.is_ours, "{value}");
        }
        for value in [
            &format!("{zeros}:h:1:"),
            &format!("{zeros}:h:x:1"),
            &format!("{zeros}:a b:1:1"),
            &format!("{zeros}:\u{e9}:1:1"),
        ] {
            assert_eq!(Holder::of(value.as_bytes(), None).identity, None, "{value}");
        }
        assert_eq!(Holder::of(b"\xff\x00", None).identity, None);
    }

    #[test]
    fn debug_hides_the_token() {
        assert_eq!(format!("{:?}", Token::new([7; 16], Some(("h:1:", 1)))), "Token(<redacted>)");
    }
}
