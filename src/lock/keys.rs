//! The key in Redis: prefix + name, bytes as they are. And the key of its queue.

use super::{error::BadValue, slot};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Begins with the key itself.
    queue: Box<[u8]>,
    len: usize,
    prefix_len: usize,
}

impl Key {
    /// Keys that this library puts beside a lock's end so. A lock of such a name could destroy another lock's queue.
    const HELPER_SUFFIXES: [&'static [u8]; 2] = [Self::QUEUE_SUFFIX, Self::FENCE_SUFFIX];

    const QUEUE_SUFFIX: &'static [u8] = b":redis_lock:queue";
    const FENCE_SUFFIX: &'static [u8] = b":redis_lock:fence";

    /// Far more than any name needs; beyond it copies of a key fill the memory of a process.
    const MOST_BYTES: usize = 16 * 1024 * 1024;

    pub fn new(prefix: &[u8], name: &[u8]) -> Result<Self, BadValue> {
        if name.is_empty() {
            return Err(BadValue("must not be empty".into()));
        }
        if prefix.len() + name.len() > Self::MOST_BYTES {
            return Err(BadValue("must be at most 16 MiB long, with its prefix".into()));
        }
        let len = prefix.len() + name.len();
        let mut key = Vec::with_capacity(len + slot::MOST_ADDED + Self::QUEUE_SUFFIX.len());
        key.extend_from_slice(prefix);
        key.extend_from_slice(name);
        if let Some(suffix) = Self::HELPER_SUFFIXES.iter().find(|suffix| key.ends_with(suffix)) {
            return Err(BadValue(format!(
                "must not end in \"{}\": that is the form of this library's own keys",
                String::from_utf8_lossy(suffix)
            )));
        }
        slot::lengthen(&mut key, Self::QUEUE_SUFFIX);
        Ok(Self { queue: key.into(), len, prefix_len: prefix.len() })
    }

    /// As Redis holds it.
    pub fn as_bytes(&self) -> &[u8] {
        self.queue.get(..self.len).unwrap_or_default()
    }

    /// As the user gave it.
    pub fn name(&self) -> &[u8] {
        self.queue.get(self.prefix_len..self.len).unwrap_or_default()
    }

    /// The key of those who wait for it, which is in its slot of a cluster.
    pub fn queue(&self) -> &[u8] {
        &self.queue
    }

    /// The key of its last fence, which is in its slot as well. Not kept: only few locks have one.
    pub fn fence(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.len + slot::MOST_ADDED + Self::FENCE_SUFFIX.len());
        key.extend_from_slice(self.as_bytes());
        slot::lengthen(&mut key, Self::FENCE_SUFFIX);
        key
    }

    /// The channel on which the waiter of this name is told.
    pub fn channel(&self, ear: &str) -> Vec<u8> {
        [self.beside(), ear.as_bytes()].concat()
    }

    /// The first name from this one on whose channel is in the key's slot, as nearly all are: not so where the key has an
    /// empty pair of braces, and is hashed whole.
    pub fn ear_in_slot(&self, first: &str) -> Option<String> {
        let first_number = u64::from_str_radix(first, 16).ok()?;
        let ears = (0..1 << 20).map(|count| format!("{:016x}", first_number.wrapping_add(count)));
        slot::first_in(slot::of(self.as_bytes()), self.beside(), ears)
    }

    /// What names begin with that are in its slot.
    fn beside(&self) -> &[u8] {
        self.queue.strip_suffix(b"queue").unwrap_or_default()
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

    #[test]
    fn helper_keys_begin_with_the_key_and_are_in_its_slot() {
        let key = Key::new(b"app:{a}", b"b").unwrap();
        assert_eq!(key.queue(), b"app:{a}b:redis_lock:queue");
        assert_eq!(key.fence(), b"app:{a}b:redis_lock:fence");
        assert_eq!(key.channel("0123"), b"app:{a}b:redis_lock:0123");
        let mut random = 1_u64;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % bound
        };
        let mut has_taken_the_first = false;
        for count in 0..10_000 {
            let length = 1 + below(12);
            let name: Vec<u8> = (0..length)
                .map(|_| match below(6) {
                    0 => b'{',
                    1 => b'}',
                    _ => below(256) as u8,
                })
                .collect();
            let key = Key::new(b"", &name).unwrap();
            for (helper, end) in [(key.queue(), "queue"), (&key.fence()[..], "fence")] {
                let end = format!(":redis_lock:{end}");
                assert!(helper.starts_with(&name) && helper.ends_with(end.as_bytes()), "{}", helper.escape_ascii());
                assert_eq!(slot::of(helper), slot::of(&name), "{}", helper.escape_ascii());
            }
            if count % 50 != 0 {
                continue;
            }
            let drawn = format!("{:016x}", below(1 << 31) << 32 | below(1 << 31));
            let ear = key.ear_in_slot(&drawn).unwrap();
            assert_eq!(slot::of(&key.channel(&ear)), slot::of(&name), "{}", key.channel(&ear).escape_ascii());
            // As the scripts know it.
            assert!(ear.len() == 16 && ear.bytes().all(|digit| digit.is_ascii_hexdigit()));
            has_taken_the_first |= ear == drawn;
        }
        assert!(has_taken_the_first);
    }
}
