//! A message in pieces: a large changed message shares its unchanged bytes with the original.

use std::{
    collections::{VecDeque, vec_deque},
    io::IoSlice,
};

use bytes::{Buf, Bytes};

/// Up to this length a changed message, or an unchanged range of a longer one, is copied: one piece is cheaper
/// than several.
pub(crate) const COPIED_BYTES: usize = 4 * 1024;

/// The bytes of a message, in order. None of the pieces is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces(VecDeque<Bytes>);

impl Pieces {
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// All pieces joined; a single piece is not copied.
    pub fn into_bytes(mut self) -> Bytes {
        match self.0.len() {
            0 | 1 => self.0.pop_front().unwrap_or_default(),
            _ => self.copy_to_bytes(self.remaining()),
        }
    }

    /// The same with each piece in another form.
    pub fn map(self, change: impl FnMut(Bytes) -> Bytes) -> Self {
        self.0.into_iter().map(change).collect()
    }
}

impl From<Bytes> for Pieces {
    fn from(whole: Bytes) -> Self {
        [whole].into_iter().collect()
    }
}

impl FromIterator<Bytes> for Pieces {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
        Self(pieces.collect())
    }
}

impl IntoIterator for Pieces {
    type Item = Bytes;
    type IntoIter = vec_deque::IntoIter<Bytes>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self.0.front().map_or(&[], |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let pairs = slices.iter_mut().zip(&self.0);
        pairs
            .map(|(slice, piece)| *slice = IoSlice::new(piece))
            .count()
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len(), "no reader takes more than there is");
        while let Some(piece) = self.0.front_mut().filter(|_| count > 0) {
            if count < piece.len() {
                piece.advance(count);
                return;
            }
            count -= piece.len();
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(texts: &[&'static str]) -> Pieces {
        texts.iter().copied().map(Bytes::from).collect()
    }

    #[test]
    fn pieces_are_read_as_one_text() {
        for texts in [&["ab", "", "cde", "f"][..], &["abcdef"], &["a", "bcdef"]] {
            let pieces = pieces(texts);
            assert_eq!((pieces.len(), pieces.is_empty()), (6, false));
            assert_eq!(pieces.clone().into_bytes(), "abcdef");
            for read in 0..=6 {
                let mut rest = pieces.clone();
                rest.advance(read);
                assert_eq!(rest.remaining(), 6 - read);
                assert!(b"abcdef"[read..].starts_with(rest.chunk()));
                let mut slices = [IoSlice::new(&[]); 8];
                let count = rest.chunks_vectored(&mut slices);
                let joined: Vec<u8> = slices[..count].iter().flat_map(|s| s.to_vec()).collect();
                assert_eq!(joined, b"abcdef"[read..]);
                assert_eq!(rest.into_bytes(), "abcdef"[read..]);
            }
        }
    }

    #[test]
    fn empty_pieces_are_omitted() {
        let nothing = pieces(&["", ""]);
        assert_eq!((nothing.count(), nothing.len()), (0, 0));
        assert_eq!(nothing.into_bytes(), "");
    }
}
