//! The key in Redis: prefix + name, bytes as they are.

use super::error::BadValue;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    full: Box<[u8]>,
    prefix_len: usize,
}

impl Key {
    /// Keys that this library puts beside a lock's end so. A lock of such a name could destroy another lock's queue.
    const HELPER_SUFFIXES: [&'static [u8]; 2] = [b":redis_lock:queue", b":redis_lock:fence"];

    /// Far more than any name needs; beyond it copies of a key fill the memory of a process.
    const MOST_BYTES: usize = 16 * 1024 * 1024;

    pub fn new(prefix: &[u8], name: &[u8]) -> Result<Self, BadValue> {
        if name.is_empty() {
            return Err(BadValue("must not be empty".into()));
        }
        if prefix.len() + name.len() > Self::MOST_BYTES {
            return Err(BadValue("must be at most 16 MiB long, with its prefix".into()));
        }
        let full: Box<[u8]> = [prefix, name].concat().into();
        if let Some(suffix) = Self::HELPER_SUFFIXES.iter().find(|suffix| full.ends_with(suffix)) {
            return Err(BadValue(format!(
                "must not end in \"{}\": that is the form of this library's own keys",
                String::from_utf8_lossy(suffix)
            )));
        }
        Ok(Self { full, prefix_len: prefix.len() })
    }

    /// As Redis holds it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.full
    }

    /// As the user gave it.
    pub fn name(&self) -> &[u8] {
        self.full.split_at_checked(self.prefix_len).map_or(&[], |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_prefix_and_its_name() {
        let key = Key::new(b"app:", b"a\0\xff{x}").unwrap();
        assert_eq!(key.as_bytes(), b"app:a\0\xff{x}");
        assert_eq!(key.name(), b"a\0\xff{x}");
    }

    #[test]
    fn no_name_and_names_of_helper_keys_are_refused() {
        assert!(Key::new(b"app:", b"").is_err());
        assert!(Key::new(b"", &vec![b'x'; (16 << 20) + 1]).is_err() && Key::new(b"", &vec![b'x'; 16 << 20]).is_ok());
        assert!(Key::new(b"", b"a:redis_lock:queue").is_err());
        assert!(Key::new(b"", b":redis_lock:fence").is_err());
        assert!(Key::new(b"app:redis_lock", b":queue").is_err());
        assert!(Key::new(b"", b"a:redis_lock:queue2").is_ok());
    }
}
