//! The newest events, up to a limit in bytes.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::Delivery;

/// The memory of an event besides its text, estimated.
const OVERHEAD_BYTES: usize = 64;

/// The newest events in the order of their numbers, and the number of listeners.
#[derive(Debug)]
pub(super) struct Ring {
    kept: VecDeque<StoredEvent>,
    bytes: usize,
    limit: usize,
    listeners: usize,
    /// When the last listener left; `None` while there is one.
    idle_since: Option<Instant>,
}

#[derive(Debug, Clone)]
pub(super) struct StoredEvent {
    /// From 1. Events without a listener have numbers too, so numbers here may be missing.
    pub(super) n: u64,
    pub(super) delivery: Delivery,
}

impl StoredEvent {
    fn bytes(&self) -> usize {
        self.delivery.frame.len() + OVERHEAD_BYTES
    }
}

impl Ring {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            bytes: 0,
            limit,
            listeners: 0,
            idle_since: None,
        }
    }

    /// Stores an event, and drops the oldest ones if there is no room.
    pub(super) fn push(&mut self, event: StoredEvent) {
        self.bytes += event.bytes();
        self.kept.push_back(event);
        while self.bytes > self.limit {
            let Some(oldest) = self.kept.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes();
        }
    }

    /// The events after number `n`.
    pub(super) fn after(&self, n: u64) -> impl Iterator<Item = &StoredEvent> {
        let start = self.kept.partition_point(|kept| kept.n <= n);
        self.kept.range(start..)
    }

    /// The number before the oldest event.
    pub(super) fn start(&self) -> Option<u64> {
        self.kept.front().map(|oldest| oldest.n - 1)
    }

    pub(super) fn listeners(&self) -> usize {
        self.listeners
    }

    pub(super) fn enter(&mut self) {
        self.listeners += 1;
        self.idle_since = None;
    }

    pub(super) fn leave(&mut self, now: Instant) {
        self.listeners -= 1;
        if self.listeners == 0 {
            self.idle_since = Some(now);
        }
    }

    /// Whether the last listener left longer ago than `patience`.
    pub(super) fn has_lapsed(&self, now: Instant, patience: Duration) -> bool {
        self.idle_since
            .is_some_and(|idle_since| now.saturating_duration_since(idle_since) >= patience)
    }

    pub(super) fn clear(&mut self) {
        // A new queue: `clear` would keep the memory.
        self.kept = VecDeque::new();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn event(n: u64, bytes: usize) -> StoredEvent {
        let delivery = Delivery {
            id: "".into(),
            kind: "x",
            tenant: None,
            data: Bytes::new(),
            frame: vec![b'x'; bytes].into(),
        };
        StoredEvent { n, delivery }
    }

    fn numbers(ring: &Ring, behind: u64) -> Vec<u64> {
        ring.after(behind).map(|kept| kept.n).collect()
    }

    #[test]
    fn the_oldest_events_are_evicted_at_the_byte_limit() {
        let mut ring = Ring::new(3 * (OVERHEAD_BYTES + 10));
        for n in 1..=5 {
            ring.push(event(n, 10));
        }
        assert_eq!(numbers(&ring, 0), [3, 4, 5]);
        assert_eq!(numbers(&ring, 4), [5]);
        assert_eq!(ring.start(), Some(2));
    }

    #[test]
    fn an_event_larger_than_the_ring_is_not_kept() {
        let mut ring = Ring::new(100);
        ring.push(event(1, 10));
        ring.push(event(2, 1000));
        assert!(numbers(&ring, 0).is_empty());
        ring.push(event(3, 10));
        assert_eq!(numbers(&ring, 0), [3]);
    }

    #[test]
    fn the_ring_lapses_some_time_after_its_last_listener_left() {
        let (mut ring, start, patience) = (Ring::new(100), Instant::now(), Duration::from_secs(9));
        ring.enter();
        ring.enter();
        ring.leave(start);
        assert!(!ring.has_lapsed(start + patience * 2, patience));
        ring.leave(start);
        assert!(!ring.has_lapsed(start + patience / 2, patience));
        assert!(ring.has_lapsed(start + patience, patience));
        ring.enter();
        assert!(!ring.has_lapsed(start + patience, patience));
    }
}
