//! Where a string stops being plain: the next quote, backslash or control character.
//!
//! Sixty-four bytes are looked at in one go and kept as a bit each. Text with escapes has short plain runs,
//! and whoever goes from one to the next mostly finds it in the bits that are there already.

use wide::u8x16;

/// How many bytes are looked at in one go.
const BLOCK: usize = 64;
/// How many bytes are compared in one go.
const LANES: usize = 16;

/// The special bytes of one text, found as they are asked for.
#[derive(Debug)]
pub(crate) struct Specials<'a> {
    text: &'a [u8],
    /// Where the block begins that `marks` tells of.
    start: usize,
    /// A bit for each special byte of the block, the first the lowest.
    marks: u64,
}

impl<'a> Specials<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Self {
        Self {
            text,
            start: 0,
            marks: marks_at(text, 0),
        }
    }

    /// The first special byte at `from` or behind it; the text's length when there is none.
    #[inline]
    pub(crate) fn next(&mut self, from: usize) -> usize {
        let mut at = from;
        loop {
            let ahead = at.wrapping_sub(self.start);
            if ahead < BLOCK {
                let marks = self.marks >> ahead;
                if marks != 0 {
                    return (at + marks.trailing_zeros() as usize).min(self.text.len());
                }
                at = self.start + BLOCK;
            }
            if at >= self.text.len() {
                return self.text.len();
            }
            self.start = at;
            self.marks = marks_at(self.text, at);
        }
    }
}

/// The marks of the block at `start`. Behind the end of the text everything is marked.
fn marks_at(text: &[u8], start: usize) -> u64 {
    let rest = text.get(start..).unwrap_or_default();
    if let Some(block) = rest.first_chunk() {
        return marks_of(block);
    }
    let mut block = [0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    marks_of(&block)
}

fn marks_of(block: &[u8; BLOCK]) -> u64 {
    let quote = u8x16::splat(b'"');
    let backslash = u8x16::splat(b'\\');
    let last_control = u8x16::splat(0x1F);
    let (lanes, _) = block.as_chunks::<LANES>();
    lanes.iter().rev().fold(0, |marks, lane| {
        let bytes = u8x16::new(*lane);
        let is_control = bytes.min(last_control).simd_eq(bytes);
        let special = bytes.simd_eq(quote) | bytes.simd_eq(backslash) | is_control;
        marks << LANES | u64::from(special.to_bitmask())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_special(byte: u8) -> bool {
        matches!(byte, b'"' | b'\\' | 0..=0x1F)
    }

    #[test]
    fn every_byte_is_told_apart() {
        for byte in 0..=u8::MAX {
            for at in [0, 15, 16, 63, 64, 99] {
                let mut text = [b' '; 100];
                text[at] = byte;
                let expected = if is_special(byte) { at } else { 100 };
                assert_eq!(Specials::of(&text).next(0), expected, "{byte} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_special_byte_is_found_wherever_one_asks_from(
            text in prop::collection::vec(prop_oneof![3 => b' '..=0xFF, 1 => any::<u8>()], 0..300),
            asked in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
        ) {
            let mut specials = Specials::of(&text);
            for from in asked {
                let from = from.index(text.len() + 1);
                let behind = text[from..].iter().position(|&byte| is_special(byte));
                let expected = behind.map_or(text.len(), |found| from + found);
                prop_assert_eq!(specials.next(from), expected);
            }
        }
    }
}
