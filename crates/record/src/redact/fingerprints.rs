//! A quick filter: can a text contain a secret at all?
//!
//! Most bodies contain none, so this runs over every body that is stored. A general searcher for ninety words spends
//! most of its time on false candidates, because the words share their letters with plain English. Here every other pair
//! of bytes is looked up in a bitmap, four pairs at a time. A word of three or more bytes has a pair at an even and a pair at an odd offset,
//! and one of the two starts at an even offset of the text. Longer words register their rarest pairs.

/// The letters of English text, most common first.
const COMMON: &[u8] = b"etaoinsrhldcumfpgwybvkxjqz";
/// The number of buckets for case-folded pairs.
const BUCKETS: usize = 1 << 10;
/// A bit for each of 65,536 pairs.
const WORDS: usize = 1 << 10;
/// The bytes that are looked at together.
const CHUNK: usize = 8;

/// Finds out whether a text contains one of a list of words, in either case.
#[derive(Debug)]
pub(super) struct Fingerprints {
    /// One bit for each pair of bytes that one of the words registered.
    pairs: Box<[u64; WORDS]>,
    /// Where the positions of a bucket begin; those of the next bucket follow.
    starts: Box<[u16]>,
    /// Sorted by bucket.
    positions: Vec<PairPosition>,
}

/// A pair of bytes in a word.
#[derive(Debug, Clone, Copy)]
struct PairPosition {
    bucket: usize,
    word: &'static [u8],
    /// The pair's offset in the word.
    offset: usize,
}

impl Fingerprints {
    /// The filter for words in lower case, each of at least three bytes of ASCII.
    pub(super) fn new(words: &[&'static str]) -> Self {
        let mut positions: Vec<PairPosition> =
            words.iter().flat_map(|word| positions_of(word)).collect();
        positions.sort_by_key(|position| position.bucket);
        let mut pairs = Box::new([0; WORDS]);
        for position in &positions {
            // Both cases of both bytes are registered, so that the search need not fold the text's case.
            let pair = [
                position.word[position.offset],
                position.word[position.offset + 1],
            ];
            for first in [pair[0], pair[0].to_ascii_uppercase()] {
                for second in [pair[1], pair[1].to_ascii_uppercase()] {
                    let pair = u16::from_le_bytes([first, second]);
                    pairs[usize::from(pair >> 6)] |= 1 << (pair & 63);
                }
            }
        }
        let start = |bucket| positions.partition_point(|position| position.bucket < bucket) as u16;
        Self {
            pairs,
            starts: (0..=BUCKETS).map(start).collect(),
            positions,
        }
    }

    /// Whether `text` contains one of the words.
    pub(super) fn are_in(&self, text: &[u8]) -> bool {
        let (chunks, rest) = text.as_chunks::<CHUNK>();
        let mut in_chunks = chunks.iter().enumerate();
        in_chunks.any(|(at, chunk)| {
            // The four bits are combined without a branch: nearly every chunk has none, and one test skips it.
            let pairs = u64::from_le_bytes(*chunk);
            let bits = self.bit(pairs as u16)
                | self.bit((pairs >> 16) as u16)
                | self.bit((pairs >> 32) as u16)
                | self.bit((pairs >> 48) as u16);
            // A registered pair is only a hint: the words around it are compared before the text is searched.
            bits & 1 != 0 && self.stand_around(text, at * CHUNK, chunk)
        }) || self.stand_around(text, chunks.len() * CHUNK, rest)
    }

    /// The bit of a pair as the lowest bit.
    fn bit(&self, pair: u16) -> u64 {
        self.pairs[usize::from(pair >> 6)] >> (pair & 63)
    }

    /// Whether one of the pairs of `part`, which begins at an offset of `text`, is part of a word.
    #[inline(never)]
    fn stand_around(&self, text: &[u8], at: usize, part: &[u8]) -> bool {
        let (pairs, _) = part.as_chunks();
        let mut pairs = pairs.iter().enumerate();
        pairs.any(|(index, pair)| {
            self.bit(u16::from_le_bytes(*pair)) & 1 != 0
                && self.stands_at(text, at + 2 * index, *pair)
        })
    }

    /// Whether the pair at an offset is part of a word.
    fn stands_at(&self, text: &[u8], at: usize, pair: [u8; 2]) -> bool {
        let bucket = bucket(pair);
        let positions = usize::from(self.starts[bucket])..usize::from(self.starts[bucket + 1]);
        self.positions[positions].iter().any(|position| {
            let found = at
                .checked_sub(position.offset)
                .and_then(|at| text.get(at..));
            found.is_some_and(|found| {
                // Most false hints differ in the first byte.
                found
                    .first()
                    .is_some_and(|byte| byte.eq_ignore_ascii_case(&position.word[0]))
                    && found
                        .get(..position.word.len())
                        .is_some_and(|found| found.eq_ignore_ascii_case(position.word))
            })
        })
    }
}

/// The rarest pair of a word at an even offset, and the rarest at an odd one.
fn positions_of(word: &'static str) -> [PairPosition; 2] {
    let word = word.as_bytes();
    [0, 1].map(|first| {
        let offsets = (first..word.len() - 1).step_by(2);
        let commonness = |at: &usize| common(word[*at]) * common(word[*at + 1]);
        let offset = offsets.min_by_key(commonness).unwrap_or(first);
        PairPosition {
            bucket: bucket([word[offset], word[offset + 1]]),
            word,
            offset,
        }
    })
}

/// How common a byte is; what is not a letter is rare.
fn common(byte: u8) -> usize {
    let rank = COMMON.iter().position(|letter| *letter == byte);
    rank.map_or(1, |rank| COMMON.len() + 1 - rank)
}

/// The bucket of a pair, the same for both cases of a letter.
fn bucket(pair: [u8; 2]) -> usize {
    usize::from(pair[0] & 31) << 5 | usize::from(pair[1] & 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::forms::FINGERPRINTS, *};

    fn naive(text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        FINGERPRINTS.iter().any(|word| text.contains(word))
    }

    #[test]
    fn every_fingerprint_is_found_at_every_offset_and_in_either_case() {
        let filter = Fingerprints::new(FINGERPRINTS);
        for word in FINGERPRINTS {
            for before in 0..5 {
                for word in [(*word).to_owned(), word.to_ascii_uppercase()] {
                    let text = format!("{}{word}", ".".repeat(before));
                    assert!(filter.are_in(text.as_bytes()), "{text}");
                    let longer = format!("{text} and more");
                    assert!(filter.are_in(longer.as_bytes()), "{longer}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_filter_agrees_with_a_plain_search(
            parts in prop::collection::vec(
                prop_oneof![
                    "[a-zA-Z_:/. -]{0,6}",
                    prop::sample::select(FINGERPRINTS).prop_map(|word| word[1..].to_owned()),
                    prop::sample::select(FINGERPRINTS).prop_map(|word| word[..word.len() - 1].to_owned()),
                    prop::sample::select(FINGERPRINTS).prop_map(str::to_owned),
                    "[éß\u{212a}\u{17f}]{0,2}",
                ],
                0..6,
            )
        ) {
            let text = parts.concat();
            let filter = Fingerprints::new(FINGERPRINTS);
            prop_assert_eq!(filter.are_in(text.as_bytes()), naive(&text), "{}", text);
        }
    }
}
