//! The slots of a Redis cluster. Only keys of one slot can be used together: in one script, say.

use crc::{CRC_16_XMODEM, Crc};

const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
pub const SLOTS: u16 = 16384;

/// The slot of a key.
pub fn of(key: &[u8]) -> u16 {
    CRC.checksum(tag(key).unwrap_or(key)) % SLOTS
}

/// What Redis looks at instead of the whole key: what the first brace holds, unless it is not closed or holds nothing.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let opened = key.splitn(2, |&byte| byte == b'{').nth(1)?;
    let closed = opened.iter().position(|&byte| byte == b'}')?;
    opened.get(..closed).filter(|tag| !tag.is_empty())
}

/// The first of these ends, which have no braces, with which `start` is in the slot. None: with none of them.
pub fn first_in(slot: u16, start: &[u8], mut ends: impl Iterator<Item = String>) -> Option<String> {
    let has_tag = tag(start).is_some();
    let mut begun = CRC.digest();
    begun.update(start);
    ends.find(|end| {
        let mut whole = begun.clone();
        whole.update(end.as_bytes());
        slot == if has_tag { of(start) } else { whole.finalize() % SLOTS }
    })
}

/// How much `lengthen` adds at most to a key, beside the suffix.
pub const MOST_ADDED: usize = 1 + LETTERS.len() + 1;

/// Lets a key end in `suffix`, which has no braces, and leaves it in its slot. If the key has no tag, that takes four
/// letters in braces before the suffix. These become the tag, or, where the key has a brace that is open, its end. If
/// the key has an empty pair of braces, it is hashed whole still.
pub fn lengthen(key: &mut Vec<u8>, suffix: &[u8]) {
    if tag(key).is_some() {
        key.extend_from_slice(suffix);
        return;
    }
    let wanted = CRC.checksum(key);
    let letters = key.len() + 1;
    for part in [b"{", &LETTERS[..], b"}", suffix] {
        key.extend_from_slice(part);
    }
    let (hashed, behind_letters) = tag(key).map_or((&key[..], 1 + suffix.len()), |tag| (tag, 0));
    let mut apart = wanted ^ CRC.checksum(hashed);
    for _ in 0..8 * behind_letters {
        apart = before_a_zero(apart);
    }
    let flip = FLIPS.iter().filter(|(bit, _)| apart & bit != 0).fold(0, |flip, (_, one)| flip ^ one);
    for (letter, flip) in key.iter_mut().skip(letters).zip(flip.to_be_bytes()) {
        *letter ^= flip;
    }
}

/// The sum's last step taken back. As a difference of two sums goes through every bit as if that were 0, this tells
/// what difference earlier on leads to one that is known.
const fn before_a_zero(sum: u16) -> u16 {
    if sum & 1 == 0 { sum >> 1 } else { (sum ^ CRC_16_XMODEM.poly) >> 1 | 1 << 15 }
}

const LETTERS: [u8; 4] = *b"DDDD";

/// The bits of a D any of which can be flipped, and it is a letter still: D to G, L to O, d to g, l to o. Of the sets
/// of four bits that a letter has, only few make all sums possible.
const FREE_BITS: [u32; 4] = [0, 1, 3, 5];

/// For each bit of the sum over four letters, the bits of these that flip it and no other.
#[expect(clippy::indexing_slicing, reason = "out of bounds it would not compile")]
const FLIPS: [(u16, u32); 16] = {
    // What the free bits do, one by one: linear equations, which Gauss's elimination solves.
    let mut flips = [(0, 0); 16];
    let mut n = 0;
    while n < 16 {
        let letters = 1_u32 << (8 * (n / 4) as u32 + FREE_BITS[n % 4]);
        flips[n] = (CRC.checksum(&letters.to_be_bytes()), letters);
        n += 1;
    }
    let mut bit = 0;
    while bit < 16 {
        let mut row = bit;
        while flips[row].0 >> bit & 1 == 0 {
            row += 1;
        }
        let (sum, letters) = flips[row];
        flips[row] = flips[bit];
        flips[bit] = (sum, letters);
        let mut other = 0;
        while other < 16 {
            if other != bit && flips[other].0 >> bit & 1 == 1 {
                flips[other].0 ^= sum;
                flips[other].1 ^= letters;
            }
            other += 1;
        }
        bit += 1;
    }
    flips
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(CRC.checksum(b"123456789"), 0x31c3);
        for (key, hashed) in [
            (&b"123456789"[..], &b"123456789"[..]),
            (b"{user1000}.following", b"user1000"),
            (b"foo{}{bar}", b"foo{}{bar}"),
            (b"foo{{bar}}zap", b"{bar"),
            (b"foo{bar}{zap}", b"bar"),
            (b"foo}{bar", b"foo}{bar"),
            (b"foo}{bar}", b"bar"),
            (b"", b""),
        ] {
            assert_eq!(of(key), CRC.checksum(hashed) % SLOTS, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn each_bit_of_the_sum_has_its_letters() {
        for (bit, (flipped, letters)) in FLIPS.into_iter().enumerate() {
            let flips = (u32::from_be_bytes(LETTERS) ^ letters).to_be_bytes();
            assert_eq!((flipped, flips.map(|letter| letter.is_ascii_alphabetic())), (1 << bit, [true; 4]));
            assert_eq!(CRC.checksum(&flips), CRC.checksum(&LETTERS) ^ flipped);
        }
    }

    #[test]
    fn a_tag_stays_alone_and_what_has_none_gets_letters() {
        for (key, letters) in [
            (&b"{a}"[..], false),
            (b"}x{{}", false),
            (b"plain", true),
            (b"", true),
            (b"}", true),
            (b"\0\xff\r\n", true),
            (b"{}", true),
            (b"a{}{b}", true),
            (b"a{}{", true),
            (b"{", true),
            (b"a{b", true),
            (b"a{b{c", true),
        ] {
            let mut longer = key.to_vec();
            lengthen(&mut longer, b":end");
            let added = longer.strip_prefix(key).unwrap().strip_suffix(b":end").unwrap();
            assert_eq!(of(&longer), of(key), "{}", longer.escape_ascii());
            match added {
                [b'{', added @ .., b'}'] if letters => {
                    assert!(added.len() == 4 && added.iter().all(u8::is_ascii_alphabetic));
                }
                _ => assert!(!letters && added.is_empty(), "{}", longer.escape_ascii()),
            }
        }
    }
}
