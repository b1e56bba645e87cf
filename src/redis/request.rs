//! Requests as Redis takes them: arrays of byte strings.
//!
//! Packed by ourselves: the redis crate's `Cmd` copies each word twice, and that was a quarter of what a lock that nobody
//! contends costs us.

/// Adds a request of these words.
pub fn pack<'a>(words: impl Iterator<Item = &'a [u8]> + Clone, into: &mut Vec<u8>) {
    begin(words.clone().count(), into);
    words.for_each(|word| add(word, into));
}

/// Adds the beginning of a request of so many words.
pub fn begin(words: usize, into: &mut Vec<u8>) {
    head(b'*', words, into);
}

/// Adds one of them.
pub fn add(word: &[u8], into: &mut Vec<u8>) {
    head(b'$', word.len(), into);
    into.extend_from_slice(word);
    into.extend_from_slice(b"\r\n");
}

/// The kind of what follows, and how much of it there is.
fn head(kind: u8, mut count: usize, into: &mut Vec<u8>) {
    // From its end on, for the last digit is known first. There is room for each number.
    let mut line = *b"                     0\r\n";
    let mut start = line.len() - 2;
    let mut put = |byte| {
        start -= 1;
        if let Some(place) = line.get_mut(start) {
            *place = byte;
        }
    };
    loop {
        put(b'0' + (count % 10) as u8);
        count /= 10;
        if count == 0 {
            break;
        }
    }
    put(kind);
    into.extend_from_slice(line.get(start..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_follow_each_other_as_the_redis_crate_packs_them() {
        let long = vec![b'x'; 12_345];
        let requests: [&[&[u8]]; 4] = [&[b"PING"], &[b"SET", b"", b"\r\n\0\xff"], &[b"GET", &long], &[&b"0"[..]; 107]];
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for words in requests {
            pack(words.iter().copied(), &mut ours);
            theirs.extend(redis::Cmd::new().arg(words).get_packed_command());
        }
        assert_eq!(ours, theirs);
    }
}
