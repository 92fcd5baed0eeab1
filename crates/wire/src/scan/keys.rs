//! Finds repeated keys of an object without comparing every pair and without a hash table per object. The keys
//! of all open objects are on one stack. Hashes are seeded, and keys with equal hashes are sorted, so no choice
//! of keys makes the search quadratic.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;

use crate::escape::unescape_bytes;
use crate::scan::Span;

/// Up to this many keys every pair is compared; above it the keys are sorted by hash.
const FEW: usize = 12;

/// The keys of all open objects, the innermost object's last.
pub(super) struct Keys {
    seen: Vec<KeyEntry>,
    /// Where each open object's keys start in `seen`.
    starts: Vec<usize>,
    seed: RandomState,
}

#[derive(Clone, Copy)]
struct KeyEntry {
    hash: u64,
    key: Span,
}

impl Keys {
    /// With room for what most messages hold: growing from nothing costs twice as much.
    pub(super) fn new() -> Self {
        Self {
            seen: Vec::with_capacity(8),
            starts: Vec::with_capacity(4),
            seed: RandomState::default(),
        }
    }

    pub(super) fn open_object(&mut self) {
        self.starts.push(self.seen.len());
    }

    /// Adds a key of the innermost object; `key` covers its quotes.
    pub(super) fn add(&mut self, text: &[u8], key: Span, escaped: bool) {
        let mut hasher = self.seed.build_hasher();
        if escaped {
            hasher.write(&content(text, key));
        } else {
            hasher.write(body(text, key));
        }
        let hash = hasher.finish();
        self.seen.push(KeyEntry { hash, key });
    }

    /// Removes the innermost object's keys; the error is the offset of a repeated one.
    pub(super) fn close_object(&mut self, text: &[u8]) -> Result<(), usize> {
        let start = self.starts.pop().unwrap_or(0);
        let keys = &mut self.seen[start..];
        let repeated = if keys.len() <= FEW {
            repeated_among_few(text, keys)
        } else {
            repeated_among_many(text, keys)
        };
        self.seen.truncate(start);
        match repeated {
            Some(key) => Err(key.start as usize),
            None => Ok(()),
        }
    }
}

fn repeated_among_few(text: &[u8], keys: &[KeyEntry]) -> Option<Span> {
    for (index, later) in keys.iter().enumerate() {
        let repeats = |earlier: &KeyEntry| {
            earlier.hash == later.hash && content(text, earlier.key) == content(text, later.key)
        };
        if keys[..index].iter().any(repeats) {
            return Some(later.key);
        }
    }
    None
}

fn repeated_among_many(text: &[u8], keys: &mut [KeyEntry]) -> Option<Span> {
    keys.sort_unstable_by_key(|seen| seen.hash);
    keys.chunk_by(|left, right| left.hash == right.hash)
        .filter(|run| run.len() > 1)
        .find_map(|run| repeated_in_run(text, run))
}

fn repeated_in_run(text: &[u8], run: &[KeyEntry]) -> Option<Span> {
    let mut contents: Vec<_> = run
        .iter()
        .map(|seen| (content(text, seen.key), seen.key))
        .collect();
    contents
        .sort_unstable_by(|left, right| (&left.0, left.1.start).cmp(&(&right.0, right.1.start)));
    contents
        .windows(2)
        .find(|pair| pair[0].0 == pair[1].0)
        .map(|pair| pair[1].1)
}

fn body(text: &[u8], key: Span) -> &[u8] {
    &text[key.start as usize + 1..key.end as usize - 1]
}

fn content(text: &[u8], key: Span) -> Cow<'_, [u8]> {
    let body = body(text, key);
    // Keys are added only where lone surrogates were refused, so the fallback is never taken.
    unescape_bytes(body).unwrap_or(Cow::Borrowed(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen_with_one_hash(text: &[u8], keys: &[(u32, u32)]) -> Option<u32> {
        let keys: Vec<_> = keys
            .iter()
            .map(|&(start, end)| KeyEntry {
                hash: 7,
                key: Span { start, end },
            })
            .collect();
        repeated_in_run(text, &keys).map(|span| span.start)
    }

    #[test]
    fn equal_hashes_are_decided_by_content() {
        let text = br#""a""b""a""\u0061""#;
        assert_eq!(seen_with_one_hash(text, &[(0, 3), (3, 6)]), None);
        assert_eq!(seen_with_one_hash(text, &[(0, 3), (3, 6), (6, 9)]), Some(6));
        assert_eq!(
            seen_with_one_hash(text, &[(0, 3), (3, 6), (9, 17)]),
            Some(9)
        );
    }
}
