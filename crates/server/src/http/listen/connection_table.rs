//! The table of open connections. When it is full, the longest-idle connection of the busiest client address is closed to
//! make room.
//!
//! So a client that only opens sockets cannot keep others out, whether or not they have different addresses. A connection
//! with a request in flight is never closed for a new one; if all have one, the new connection is refused.

use std::{
    cmp::Reverse,
    collections::HashMap,
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Instant,
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(super) struct ConnectionTable {
    limit: usize,
    /// Fires when the door closes and every connection must end.
    close: CancellationToken,
    slots: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    taken: HashMap<u64, Taken, foldhash::fast::RandomState>,
    next: u64,
}

#[derive(Debug)]
struct Taken {
    peer: IpAddr,
    /// Since when it has been idle; `None` while a request is in flight.
    resting_since: Option<Instant>,
    /// Whether it has not made a request yet.
    is_fresh: bool,
    left: CancellationToken,
}

/// A connection's entry in the table, freed on drop.
#[derive(Debug)]
pub(super) struct Slot {
    connections: Arc<ConnectionTable>,
    number: u64,
    left: CancellationToken,
}

/// A request in flight. It ends when its answer's body has been passed on whole.
#[derive(Debug)]
pub(super) struct AtWork {
    connections: Arc<ConnectionTable>,
    number: u64,
}

/// A body that keeps its request in flight until it is dropped.
#[derive(Debug)]
pub(super) struct Attended {
    pub(super) body: Body,
    #[expect(dead_code, reason = "it is dropped with the body")]
    pub(super) attended: AtWork,
}

impl ConnectionTable {
    /// An empty table for at most `limit` connections.
    pub(super) fn new(limit: usize, close: CancellationToken) -> Self {
        Self {
            limit,
            close,
            slots: Mutex::default(),
        }
    }

    /// A slot for a new connection; `None` when every open one has a request in flight.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
        let mut slots = self.slots();
        if slots.taken.len() >= self.limit && !slots.make_room() {
            return None;
        }
        let number = slots.next;
        slots.next += 1;
        let left = self.close.child_token();
        let taken = Taken {
            peer,
            resting_since: Some(Instant::now()),
            is_fresh: true,
            left: left.clone(),
        };
        slots.taken.insert(number, taken);
        let connections = self.clone();
        Some(Slot {
            connections,
            number,
            left,
        })
    }

    /// Closes one idle connection, if there is one.
    pub(super) fn make_room(&self) -> bool {
        self.slots().make_room()
    }

    fn rest(&self, number: u64, since: Option<Instant>) {
        if let Some(taken) = self.slots().taken.get_mut(&number) {
            taken.resting_since = since;
            taken.is_fresh = false;
        }
    }

    fn slots(&self) -> MutexGuard<'_, Seats> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seats {
    fn make_room(&mut self) -> bool {
        // Counted when needed instead of kept per address: the table is full only under load or attack, and every
        // request would have to update a second map.
        let mut of_peer: HashMap<IpAddr, usize> = HashMap::new();
        for taken in self.taken.values() {
            *of_peer.entry(taken.peer).or_default() += 1;
        }
        let resting = self.taken.iter().filter_map(|(number, taken)| {
            // Connections with a request in flight have no idle time and are skipped.
            let longest = Reverse(taken.resting_since?);
            Some((of_peer.get(&taken.peer), longest, *number))
        });
        let Some((_, _, number)) = resting.max() else {
            return false;
        };
        if let Some(taken) = self.taken.remove(&number) {
            taken.left.cancel();
        }
        true
    }
}

impl Slot {
    /// Waits until the connection is closed to make room or the door closes. One token covers both, because it is polled with
    /// the connection every time.
    pub(super) async fn has_left(&self) {
        self.left.cancelled().await;
    }

    /// Whether the connection has not made a request yet.
    pub(super) fn is_fresh(&self) -> bool {
        let slots = self.connections.slots();
        slots
            .taken
            .get(&self.number)
            .is_some_and(|taken| taken.is_fresh)
    }

    /// Marks a request as in flight.
    pub(super) fn attend(&self) -> AtWork {
        self.connections.rest(self.number, None);
        AtWork {
            connections: self.connections.clone(),
            number: self.number,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.slots().taken.remove(&self.number);
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.connections.rest(self.number, Some(Instant::now()));
    }
}

impl HttpBody for Attended {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn the_longest_idle_connection_is_closed_first() {
        let connections = Arc::new(ConnectionTable::new(3, CancellationToken::new()));
        let enter = |peer| connections.enter(peer).expect("one is idle");
        let (first, second, third) = (enter(NEAR), enter(NEAR), enter(NEAR));
        let at_work = first.attend();
        let fourth = enter(NEAR);
        assert!(second.left.is_cancelled(), "the first is at work");
        drop(at_work);
        let _fifth = enter(NEAR);
        assert!(third.left.is_cancelled(), "the first has rested for less");
        assert!(!first.left.is_cancelled() && !fourth.left.is_cancelled());
    }

    #[test]
    fn a_connection_of_the_busiest_address_is_closed_first() {
        let connections = Arc::new(ConnectionTable::new(3, CancellationToken::new()));
        let enter = |peer| connections.enter(peer).expect("one is idle");
        let (lone, many, _other) = (enter(FAR), enter(NEAR), enter(NEAR));
        let _next = enter(FAR);
        assert!(!lone.left.is_cancelled());
        assert!(many.left.is_cancelled());
    }

    #[test]
    fn busy_connections_are_not_closed_for_new_ones() {
        let connections = Arc::new(ConnectionTable::new(2, CancellationToken::new()));
        let slots = [connections.enter(NEAR), connections.enter(NEAR)].map(Option::unwrap);
        let _at_work = slots.each_ref().map(Slot::attend);
        assert!(connections.enter(NEAR).is_none());
        assert!(!connections.make_room());
        drop(slots);
        assert!(
            connections.enter(NEAR).is_some(),
            "a place that was left is free"
        );
    }
}
