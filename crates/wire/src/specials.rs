//! Finds the special bytes of a string: quotes, backslashes and control characters.
//!
//! Sixty-four bytes are classified at once, with one bit for each. Text with escapes has short plain runs, and
//! going from one to the next is then a bit count and not a search.

use std::num::NonZero;

use wide::u8x16;

/// Bytes that are classified at once.
pub(crate) const BLOCK: usize = 64;
/// Bytes that are compared at once.
const LANES: usize = 16;

/// The special bytes among [`BLOCK`] bytes of a text: a bit for each, the first the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    backslashes: u64,
    /// Quotes and control characters.
    others: u64,
}

/// A [`Block`] inside a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inside {
    /// A bit for each backslash that begins an escape, up to the end.
    pub(crate) escapes: u64,
    /// The offset of the first quote or control character that is not part of an escape; [`BLOCK`] if there is
    /// none.
    pub(crate) end: usize,
}

impl Block {
    /// The block at `start`, padded with control characters beyond the end of the text.
    #[inline]
    pub(crate) fn at(text: &[u8], start: usize) -> Self {
        let rest = text.get(start..).unwrap_or_default();
        match rest.first_chunk() {
            Some(block) => Self::of(block),
            None => Self::of_last(rest),
        }
    }

    #[inline(never)]
    fn of_last(rest: &[u8]) -> Self {
        let mut block = [0; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        Self::of(&block)
    }

    #[inline]
    fn of(block: &[u8; BLOCK]) -> Self {
        let (lanes, _) = block.as_chunks::<LANES>();
        let nothing = Self {
            backslashes: 0,
            others: 0,
        };
        lanes.iter().rev().fold(nothing, |found, lane| {
            let bytes = u8x16::new(*lane);
            let backslashes = bytes.simd_eq(u8x16::splat(b'\\'));
            // With one bit flipped a quote becomes 0x20, just above the control characters.
            let turned = bytes ^ u8x16::splat(b'"' ^ 0x20);
            let others = turned.min(u8x16::splat(0x20)).simd_eq(turned);
            Self {
                backslashes: found.backslashes << LANES | u64::from(backslashes.to_bitmask()),
                others: found.others << LANES | u64::from(others.to_bitmask()),
            }
        })
    }

    pub(crate) fn specials(self) -> u64 {
        self.backslashes | self.others
    }

    /// The block as a part of a string, if its first byte is not the second one of an escape.
    #[inline]
    pub(crate) fn inside(self) -> Inside {
        let escapes = escapes_of(self.backslashes);
        let ends = self.others & !(escapes << 1);
        let before = ends.wrapping_sub(1) & !ends;
        Inside {
            escapes: escapes & before,
            end: ends.trailing_zeros() as usize,
        }
    }
}

impl Inside {
    /// The distance to the next block, which is longer if the last byte begins an escape.
    ///
    /// A branch, because that is rare and predicted well: the processor starts on the next block early.
    #[inline]
    pub(crate) fn length(self) -> usize {
        if self.escapes >> (BLOCK - 1) == 0 {
            BLOCK
        } else {
            one_longer()
        }
    }
}

#[cold]
#[inline(never)]
fn one_longer() -> usize {
    BLOCK + 1
}

/// The backslashes that begin an escape: one directly after another such backslash does not.
#[inline]
fn escapes_of(backslashes: u64) -> u64 {
    if backslashes & backslashes << 1 == 0 {
        return backslashes;
    }
    let mut escapes = 0;
    let mut left = backslashes;
    while left != 0 {
        let first = left & left.wrapping_neg();
        escapes |= first;
        left &= !(first | first << 1);
    }
    escapes
}

/// Whether a byte must be escaped in a string.
pub(crate) fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..=0x1F)
}

/// The positions of a block's set bits, in order.
#[inline]
pub(crate) fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        // Tested first: counting the zeros of something that is not zero is one instruction.
        let rest = NonZero::new(bits)?;
        bits &= bits.wrapping_sub(1);
        Some(rest.trailing_zeros() as usize)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_special_byte_is_classified() {
        for byte in 0..=u8::MAX {
            for at in [0, 15, 16, 63] {
                let mut text = [b' '; BLOCK];
                text[at] = byte;
                let block = Block::at(&text, 0);
                let bit = |is: bool| u64::from(is) << at;
                assert_eq!(block.specials(), bit(is_special(byte)), "{byte} at {at}");
                assert_eq!(block.backslashes, bit(byte == b'\\'), "{byte} at {at}");
            }
        }
    }

    /// What [`Block::inside`] finds, looking at one byte after the other.
    fn inside(text: &[u8]) -> Inside {
        let mut escapes = 0;
        let mut at = 0;
        while at < BLOCK {
            match text.get(at) {
                Some(b'\\') => {
                    escapes |= 1 << at;
                    at += 2;
                }
                Some(&byte) if !is_special(byte) => at += 1,
                Some(_) | None => return Inside { escapes, end: at },
            }
        }
        Inside {
            escapes,
            end: BLOCK,
        }
    }

    proptest! {
        #[test]
        fn a_block_classifies_its_bytes(
            text in prop::collection::vec(any::<u8>(), 0..300),
            start in any::<prop::sample::Index>(),
        ) {
            let start = start.index(text.len() + 1);
            let expected = (0..BLOCK).filter(|at| text.get(start + at).is_none_or(|byte| is_special(*byte)));
            let found: Vec<_> = places(Block::at(&text, start).specials()).collect();
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }

        #[test]
        fn escapes_and_the_closing_quote_are_found(
            text in prop::collection::vec(prop_oneof![Just(b'\\'), Just(b' '), Just(b'"'), Just(b'n')], 0..80),
            long in any::<bool>(),
        ) {
            let text = if long { [text, vec![b'\\'; BLOCK]].concat() } else { text };
            prop_assert_eq!(Block::at(&text, 0).inside(), inside(&text));
        }
    }
}
