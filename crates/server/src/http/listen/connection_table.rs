//! The connections there are. When there are too many, one that has no request under way gives
//! way: of the peer that has most connections, the one that has rested longest.
//!
//! So nobody who only opens sockets keeps others out, whether or not addresses tell them apart.
//! Requests under way are never given up for new ones; when all are at work, the new one is
//! turned away.

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

/// All connections.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    limit: usize,
    /// The door closes, and every connection has to leave.
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
    /// Since when it has had no request under way.
    resting_since: Option<Instant>,
    /// Whether it has made no request yet.
    is_fresh: bool,
    left: CancellationToken,
}

/// A connection's place; free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    connections: Arc<ConnectionTable>,
    number: u64,
    left: CancellationToken,
}

/// A request under way. It is over when the body of its answer has been handed over.
#[derive(Debug)]
pub(super) struct AtWork {
    connections: Arc<ConnectionTable>,
    number: u64,
}

/// A body whose request is under way as long as it lives.
#[derive(Debug)]
pub(super) struct Attended {
    pub(super) body: Body,
    #[expect(dead_code, reason = "it is dropped with the body")]
    pub(super) attended: AtWork,
}

impl ConnectionTable {
    /// No connections yet, and so many at most.
    pub(super) fn new(limit: usize, close: CancellationToken) -> Self {
        Self {
            limit,
            close,
            slots: Mutex::default(),
        }
    }

    /// A place for a new connection; none when every other one is at work.
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

    /// Ends one connection that rests, if there is one.
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
        let mut of_peer: HashMap<IpAddr, usize> = HashMap::new();
        for taken in self.taken.values() {
            *of_peer.entry(taken.peer).or_default() += 1;
        }
        let resting = self.taken.iter().filter_map(|(number, taken)| {
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
    /// Waits until the connection has to give way, or the door closes: one wait for both, as it is looked at with every turn.
    pub(super) async fn has_left(&self) {
        self.left.cancelled().await;
    }

    /// Whether the connection has made no request yet.
    pub(super) fn is_fresh(&self) -> bool {
        let slots = self.connections.slots();
        slots
            .taken
            .get(&self.number)
            .is_some_and(|taken| taken.is_fresh)
    }

    /// Notes that a request is under way.
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
        let enter = |peer| connections.enter(peer).expect("somebody rests");
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
        let enter = |peer| connections.enter(peer).expect("somebody rests");
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
