//! The hashes of one writer's entries.

use std::collections::VecDeque;

use callgate_gate::Digest;
use callgate_record::{Head, KeyedHead};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

#[derive(Debug, Default)]
pub(super) struct Chain {
    /// The hashes that are kept, oldest first.
    hashes: VecDeque<Digest>,
    /// How many entries retention dropped before them.
    dropped: u64,
    /// The hash of the last dropped entry.
    dropped_hash: Option<Digest>,
    pub(super) is_closed: bool,
    pub(super) is_dead: bool,
    /// Whether a later writer has closed its calls.
    pub(super) is_sealed: bool,
}

impl Chain {
    /// Adds an entry; none once the chain is closed.
    pub(super) fn push(&mut self, body: &str) -> Option<u64> {
        if self.is_closed {
            return None;
        }
        let (seq, prev) = self.last();
        let seq = seq + 1;
        self.hashes
            .push_back(Digest::of(format!("{prev}\n{seq}\n{body}").as_bytes()));
        Some(seq)
    }

    /// The number and the hash of the last entry.
    pub(super) fn last(&self) -> (u64, String) {
        let seq = self.dropped + self.len();
        let hash = self.hashes.back().or(self.dropped_hash.as_ref());
        (seq, hash.map(ToString::to_string).unwrap_or_default())
    }

    pub(super) fn len(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// The contradiction between the chain and a head.
    pub(super) fn contradicts(&self, head: &Head) -> Option<String> {
        if head.seq <= self.dropped {
            return None;
        }
        let at = usize::try_from(head.seq - self.dropped - 1).ok();
        match at.and_then(|at| self.hashes.get(at)) {
            Some(hash) if hash.to_string() == head.hash => None,
            Some(_) => Some(format!("entry {} differs", head.seq)),
            None => Some(format!("the chain ends at entry {}", self.last().0)),
        }
    }

    /// Drops the entries before `first`; returns the number and hash of the last one, and how many were dropped.
    pub(super) fn cut_before(&mut self, first: u64) -> Option<(u64, String, u64)> {
        let mut entries = 0;
        while self.dropped + 1 < first {
            self.dropped_hash = Some(self.hashes.pop_front()?);
            self.dropped += 1;
            entries += 1;
        }
        let (seq, hash) = self.last_dropped().filter(|_| entries > 0)?;
        Some((seq, hash, entries))
    }

    /// The number and hash of the last dropped entry.
    pub(super) fn last_dropped(&self) -> Option<(u64, String)> {
        let hash = self.dropped_hash.as_ref()?;
        Some((self.dropped, hash.to_string()))
    }
}

/// A head with its authentication code.
pub(super) fn sign(key: &[u8; 32], head: Head) -> KeyedHead {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    let text = format!("{}\n{}\n{}", head.writer, head.seq, head.hash);
    let code: [u8; 32] = mac.chain_update(text).finalize().into_bytes().into();
    KeyedHead {
        mac: Digest::from_bytes(code).to_string(),
        head,
    }
}
