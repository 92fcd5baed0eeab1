//! The bytes that are being worked on: requests from when they are read until nothing refers to
//! them, and answers until they are written. All doors of a gateway share one budget.
//!
//! A reservation travels inside the bytes that it is for, so that it ends exactly when they do,
//! whoever had them last.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::oneshot;

/// What a piece takes besides its own bytes.
const OVERHEAD_BYTES: usize = 128;

/// How much may be in the works at once.
///
/// Whoever waits is served in turn, so that a large request is not starved by small ones. One
/// that is larger than the whole budget waits until nothing else is there, and then goes alone.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    capacity: usize,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    held: usize,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    bytes: usize,
    granted: oneshot::Sender<Reservation>,
}

/// Bytes that are spoken for, until this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Budget,
    bytes: usize,
}

/// Somebody who may wait. Whoever gives up lets those behind have their turn.
struct InLine<'a>(&'a Budget);

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.give_back(0);
    }
}

/// Bytes and the reservation for them.
struct Held {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        let books = Mutex::default();
        Self {
            shared: Arc::new(Shared { capacity, books }),
        }
    }

    /// Waits for room for so many bytes.
    pub(crate) async fn take(&self, bytes: usize) -> Reservation {
        self.take_exactly(self.cost(bytes)).await
    }

    /// Waits for exactly so much, as a reservation that grows says it is missing.
    pub(crate) async fn take_exactly(&self, cost: usize) -> Reservation {
        // Dropped after the other end is closed, so that those behind are looked at again.
        let _place;
        let granted = {
            let mut books = self.books();
            if books.waiting.is_empty() && books.held + cost <= self.shared.capacity {
                books.held += cost;
                return self.reservation(cost);
            }
            _place = InLine(self);
            let (granted, waiting) = oneshot::channel();
            books.waiting.push_back(Waiting {
                bytes: cost,
                granted,
            });
            waiting
        };
        // Only a budget that is gone drops the other end, and this one is held here.
        granted.await.unwrap_or_else(|_| self.reservation(0))
    }

    /// Waits for room, and not for long.
    pub(crate) async fn take_within(
        &self,
        bytes: usize,
        patience: Duration,
    ) -> Option<Reservation> {
        let mut taking = pin!(self.take(bytes));
        match taking.as_mut().now_or_never() {
            Some(taken) => Some(taken),
            None => tokio::time::timeout(patience, taking).await.ok(),
        }
    }

    /// Takes room if there is some now.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Reservation> {
        let cost = self.cost(bytes);
        let mut books = self.books();
        if books.held + cost > self.shared.capacity {
            return None;
        }
        books.held += cost;
        Some(self.reservation(cost))
    }

    /// Counts what is there already and cannot be sent back. The budget may be overdrawn by it;
    /// whoever asks next then waits longer.
    pub(crate) fn hold(&self, bytes: Bytes) -> Bytes {
        let cost = bytes.len() + OVERHEAD_BYTES;
        self.books().held += cost;
        self.reservation(cost).hold(bytes)
    }

    /// How much is spoken for.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.books().held
    }

    /// What is larger than the whole budget takes all of it.
    fn cost(&self, bytes: usize) -> usize {
        (bytes + OVERHEAD_BYTES).min(self.shared.capacity)
    }

    fn reservation(&self, bytes: usize) -> Reservation {
        Reservation {
            budget: self.clone(),
            bytes,
        }
    }

    fn give_back(&self, bytes: usize) {
        let mut granted = Vec::new();
        {
            let mut books = self.books();
            books.held = books.held.saturating_sub(bytes);
            while let Some(next) = books.waiting.front() {
                if next.granted.is_closed() {
                    books.waiting.pop_front();
                    continue;
                }
                if books.held + next.bytes > self.shared.capacity {
                    break;
                }
                books.held += next.bytes;
                granted.extend(books.waiting.pop_front());
            }
        }
        // Outside of the lock: one that gave up in this moment gives its room back at once.
        for Waiting { bytes, granted } in granted {
            let _ = granted.send(self.reservation(bytes));
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        let books = self.shared.books.lock();
        books.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// The bytes that the room is for; it is given back with the last of their copies.
    pub(crate) fn hold(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held {
            bytes,
            _reservation: self,
        })
    }

    /// Gives back what is above `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let cost = self.budget.cost(bytes);
        if let Some(spare) = self.bytes.checked_sub(cost) {
            self.bytes = cost;
            self.budget.give_back(spare);
        }
    }

    /// Takes another reservation along.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// What it lacks to cover so many bytes, and `ahead` more if it has to grow anyway. Nothing,
    /// once it has the whole budget.
    pub(crate) fn missing(&self, bytes: usize, ahead: usize) -> Option<usize> {
        let is_covered = self.bytes >= self.budget.cost(bytes);
        (!is_covered).then(|| self.budget.cost(bytes + ahead) - self.bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn piece(length: usize) -> Bytes {
        Bytes::from(vec![b'x'; length])
    }

    #[test]
    fn a_reservation_ends_with_the_last_copy_of_its_bytes() {
        let budget = Budget::new(1000);
        let reserved = budget.try_take(400).expect("there is room");
        let whole = reserved.hold(piece(400));
        let part = whole.slice(10..20);
        drop(whole);
        assert_eq!(budget.held(), 400 + OVERHEAD_BYTES);
        drop(part);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn waiting_reservations_are_served_in_order() {
        let budget = Budget::new(1000);
        let first = budget.try_take(500).expect("there is room");
        let mut large = Box::pin(budget.take(800));
        let mut small = Box::pin(budget.take(1));
        assert!((&mut large).now_or_never().is_none());
        assert!(
            (&mut small).now_or_never().is_none(),
            "a small one does not pass a large one that waits"
        );
        drop(first);
        let large = large.now_or_never().expect("its turn");
        assert!((&mut small).now_or_never().is_none());
        drop(large);
        assert!(small.now_or_never().is_some());
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn abandoned_reservations_hold_no_memory_and_block_no_others() {
        let budget = Budget::new(1000);
        let first = budget.try_take(500).expect("there is room");
        let mut gave_up = Box::pin(budget.take(800));
        assert!((&mut gave_up).now_or_never().is_none());
        let mut next = Box::pin(budget.take(100));
        assert!((&mut next).now_or_never().is_none());
        drop(gave_up);
        assert!(next.now_or_never().is_some());
        drop(first);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn a_reservation_above_the_whole_budget_is_granted_alone() {
        let budget = Budget::new(1000);
        let small = budget.try_take(1).expect("there is room");
        let mut huge = Box::pin(budget.take(5000));
        assert!((&mut huge).now_or_never().is_none());
        drop(small);
        let huge = huge.now_or_never().expect("it is alone");
        assert_eq!(
            huge.missing(1_000_000, 1),
            None,
            "what takes all of it covers all"
        );
        assert!(budget.try_take(1).is_none());
        drop(huge);
        assert!(budget.try_take(1).is_some());
    }

    #[test]
    fn bytes_held_already_may_exceed_the_budget() {
        let budget = Budget::new(1000);
        let answer = budget.hold(piece(3000));
        assert_eq!(budget.held(), 3000 + OVERHEAD_BYTES);
        assert!(budget.try_take(1).is_none());
        drop(answer);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn a_reservation_shrinks_and_grows() {
        let budget = Budget::new(10_000);
        let mut reserved = budget.try_take(5000).expect("there is room");
        reserved.shrink_to(1000);
        assert_eq!(budget.held(), 1000 + OVERHEAD_BYTES);
        assert_eq!(reserved.missing(1000, 500), None);
        assert_eq!(reserved.missing(1001, 500), Some(501));
        assert_eq!(
            reserved.missing(50_000, 500),
            Some(10_000 - 1000 - OVERHEAD_BYTES),
            "no more than there is"
        );
        let more = budget.take_exactly(501).now_or_never();
        reserved.join(more.expect("there is room"));
        assert_eq!(reserved.missing(1501, 1), None);
        drop(reserved);
        assert_eq!(budget.held(), 0);
    }
}
