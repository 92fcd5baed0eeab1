//! The memory budget for data in flight: requests from when they are read until nothing refers to them, and answers
//! until they are written. All doors of a gateway share one budget.
//!
//! A reservation is stored inside the `Bytes` that it covers, so it is released exactly with their last copy.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::oneshot;

/// Bookkeeping overhead counted per message: without it, a flood of tiny messages would be nearly free.
const OVERHEAD_BYTES: usize = 128;

/// A limit on bytes in flight.
///
/// Waiters are served in order, so small requests cannot starve a large one. A request larger than the whole budget
/// waits until nothing else is in flight and then runs alone.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    capacity: usize,
    state: Mutex<BudgetState>,
}

#[derive(Debug, Default)]
struct BudgetState {
    held: usize,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    bytes: usize,
    granted: oneshot::Sender<Reservation>,
}

/// Reserved bytes, released on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Budget,
    bytes: usize,
}

/// A place in the queue. Dropping it re-checks the queue, so a waiter that gives up does not block those behind it.
struct QueuePlace<'a>(&'a Budget);

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.release(0);
    }
}

/// Bytes with the reservation that covers them.
struct CountedBytes {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Budget {
    pub(crate) fn new(capacity: usize) -> Self {
        let state = Mutex::default();
        Self {
            shared: Arc::new(Shared { capacity, state }),
        }
    }

    /// Waits for room for a message of `bytes`, plus overhead.
    pub(crate) async fn take(&self, bytes: usize) -> Reservation {
        self.take_exactly(self.cost(bytes)).await
    }

    /// Waits for exactly `cost`, the result of [`Reservation::missing`].
    pub(crate) async fn take_exactly(&self, cost: usize) -> Reservation {
        // Declared first, so it is dropped last: the receiver must be closed before the queue is re-checked, or
        // this waiter would be granted room that it no longer wants.
        let _place;
        let granted = {
            let mut state = self.state();
            // Nothing overtakes the queue, even if it would fit: otherwise small requests starve a large one.
            if state.waiting.is_empty() && state.held + cost <= self.shared.capacity {
                state.held += cost;
                return self.reservation(cost);
            }
            _place = QueuePlace(self);
            let (granted, waiting) = oneshot::channel();
            state.waiting.push_back(Waiter {
                bytes: cost,
                granted,
            });
            waiting
        };
        // The sender is dropped only with the budget, and `self` keeps the budget alive.
        granted.await.unwrap_or_else(|_| self.reservation(0))
    }

    /// Waits for room, at most `patience`.
    pub(crate) async fn take_within(
        &self,
        bytes: usize,
        patience: Duration,
    ) -> Option<Reservation> {
        let mut taking = pin!(self.take(bytes));
        // Polled once before a timer is made: there is nearly always room, and timers take a lock that all
        // threads share.
        match taking.as_mut().now_or_never() {
            Some(taken) => Some(taken),
            None => tokio::time::timeout(patience, taking).await.ok(),
        }
    }

    /// Takes room if it is free now, ahead of waiters. For messages that are dropped otherwise.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Reservation> {
        let cost = self.cost(bytes);
        let mut state = self.state();
        if state.held + cost > self.shared.capacity {
            return None;
        }
        state.held += cost;
        Some(self.reservation(cost))
    }

    /// Counts bytes that are already in memory and cannot be refused. This may overdraw the budget; later requests then
    /// wait longer.
    pub(crate) fn hold(&self, bytes: Bytes) -> Bytes {
        let cost = bytes.len() + OVERHEAD_BYTES;
        self.state().held += cost;
        self.reservation(cost).hold(bytes)
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.state().held
    }

    /// What a message counts as. One larger than the budget counts as the whole budget; otherwise it would wait forever.
    fn cost(&self, bytes: usize) -> usize {
        (bytes + OVERHEAD_BYTES).min(self.shared.capacity)
    }

    fn reservation(&self, bytes: usize) -> Reservation {
        Reservation {
            budget: self.clone(),
            bytes,
        }
    }

    fn release(&self, bytes: usize) {
        let mut granted = Vec::new();
        {
            let mut state = self.state();
            state.held = state.held.saturating_sub(bytes);
            while let Some(next) = state.waiting.front() {
                // The waiter gave up. It is removed here and not when it gives up, because finding it would mean
                // searching the queue.
                if next.granted.is_closed() {
                    state.waiting.pop_front();
                    continue;
                }
                if state.held + next.bytes > self.shared.capacity {
                    break;
                }
                state.held += next.bytes;
                granted.extend(state.waiting.pop_front());
            }
        }
        // Sent outside of the lock: if the waiter has just given up, the reservation drops right here and locks again.
        for Waiter { bytes, granted } in granted {
            let _ = granted.send(self.reservation(bytes));
        }
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// Attaches the reservation to `bytes`. It is released with their last copy.
    pub(crate) fn hold(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(CountedBytes {
            bytes,
            _reservation: self,
        })
    }

    /// Releases what exceeds `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let cost = self.budget.cost(bytes);
        if let Some(spare) = self.bytes.checked_sub(cost) {
            self.bytes = cost;
            self.budget.release(spare);
        }
    }

    /// Merges another reservation into this one.
    pub(crate) fn join(&mut self, mut other: Self) {
        // Taken, so that dropping `other` does not release the bytes a second time.
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// What the reservation lacks to cover `bytes`, plus `ahead` so that it does not have to grow for every piece. `None` when
    /// it is sufficient or already the whole budget.
    pub(crate) fn missing(&self, bytes: usize, ahead: usize) -> Option<usize> {
        let is_covered = self.bytes >= self.budget.cost(bytes);
        (!is_covered).then(|| self.budget.cost(bytes + ahead) - self.bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.release(self.bytes);
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
