//! Listeners of `/events`: each gets every event once and in order, and a gap where events are missing.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use callgate_wire::sse;
use tokio::sync::watch;

use super::{Events, ring::StoredEvent};

/// The size of one batch; a listener that is behind gets the rest with the next one.
const BATCH_BYTES: usize = 64 * 1024;

/// How often all listeners together are woken per second. With more listeners each gets its events less often and more at
/// once, so that thousands of them do not slow calls.
const WAKES_PER_SECOND: u32 = 10_000;
/// Up to this many listeners get each event at once.
const UNPACED_LISTENERS: usize = 10;

/// A listener. Events wait for it in the ring, and those that the ring drops meanwhile become a gap. A slow listener therefore
/// costs no memory of its own.
#[derive(Debug)]
pub struct Listener {
    events: Events,
    /// The number of the last event that was delivered.
    last: u64,
    /// Whether the listener gave an id that this process did not issue. It first gets a gap of unknown length.
    has_unknown_id: bool,
    arrived: watch::Receiver<u64>,
    /// When it may be woken again.
    rests_until: Option<tokio::time::Instant>,
}

/// An event as a listener gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The id to reconnect with.
    pub id: Arc<str>,
    /// The event's name, or `gap`.
    pub kind: &'static str,
    /// The tenant that it is about; none for a gap.
    pub tenant: Option<Arc<str>>,
    pub data: Bytes,
    /// All of it, as a server-sent event.
    pub frame: Bytes,
}

impl Delivery {
    pub(super) fn new(
        id: String,
        kind: &'static str,
        tenant: Option<Arc<str>>,
        data: Vec<u8>,
    ) -> Self {
        let mut frame = Vec::new();
        sse::encode(Some(kind), Some(&id), &data, &mut frame);
        Self {
            id: id.into(),
            kind,
            tenant,
            data: data.into(),
            frame: frame.into(),
        }
    }
}

impl Listener {
    pub(super) fn new(events: Events, last_id: Option<&str>) -> Self {
        let mut ring = events.ring();
        // Under the ring's lock up to `drop`, so that no event falls between the position read here and the first one kept.
        ring.enter();
        events.inner.listening.store(true, Ordering::Release);
        let emitted = events.inner.emitted.load(Ordering::Acquire);
        let (last, has_unknown_id) = match last_id {
            None => (emitted, false),
            Some(id) => match events.number(id).filter(|n| *n <= emitted) {
                Some(n) => (n, false),
                None => (ring.start().unwrap_or(emitted), true),
            },
        };
        drop(ring);
        let arrived = events.inner.arrived.subscribe();
        Self {
            events,
            last,
            has_unknown_id,
            arrived,
            rests_until: None,
        }
    }

    /// The next events; waits until there is at least one.
    pub async fn next(&mut self) -> Vec<Delivery> {
        if let Some(until) = self.rests_until {
            tokio::time::sleep_until(until).await;
        }
        loop {
            // Before fetching: an event that arrives during the fetch must wake the next wait.
            self.arrived.mark_unchanged();
            let deliveries = self.fetch();
            if !deliveries.is_empty() {
                return deliveries;
            }
            if self.arrived.changed().await.is_err() {
                return Vec::new();
            }
        }
    }

    /// The events that there are, without waiting.
    pub fn fetch(&mut self) -> Vec<Delivery> {
        let mut out = Vec::new();
        if std::mem::take(&mut self.has_unknown_id) {
            out.push(self.gap(None));
        }
        let ring = self.events.ring();
        let mut bytes = 0;
        let mut fetched: Vec<StoredEvent> = Vec::new();
        for kept in ring.after(self.last) {
            bytes += kept.delivery.frame.len();
            fetched.push(kept.clone());
            if bytes > BATCH_BYTES {
                break;
            }
        }
        // A listener that is behind does not rest.
        let rest = rest(ring.listeners()).filter(|_| bytes <= BATCH_BYTES);
        self.rests_until = rest.map(|rest| tokio::time::Instant::now() + rest);
        let emitted = self.events.inner.emitted.load(Ordering::Acquire);
        drop(ring);
        // Events were counted while none were kept, so they are missing although the ring is empty.
        if fetched.is_empty() && self.last < emitted {
            out.extend(self.skip_to(emitted));
        }
        for StoredEvent { n, delivery } in fetched {
            out.extend(self.skip_to(n - 1));
            self.last = n;
            out.push(delivery);
        }
        out
    }

    /// Continues after the event `n`; returns a gap if events before it are missing.
    fn skip_to(&mut self, n: u64) -> Option<Delivery> {
        let lost = n.checked_sub(self.last).filter(|lost| *lost > 0)?;
        self.last = n;
        self.events.metrics().events_dropped(lost);
        Some(self.gap(Some(lost)))
    }

    fn gap(&self, lost: Option<u64>) -> Delivery {
        let data = match lost {
            Some(lost) => format!(r#"{{"type":"gap","lost":{lost}}}"#),
            None => r#"{"type":"gap"}"#.to_owned(),
        };
        Delivery::new(self.events.id(self.last), "gap", None, data.into_bytes())
    }
}

/// How long a listener rests after it was woken, by how many there are.
fn rest(listeners: usize) -> Option<Duration> {
    let listeners = u32::try_from(listeners).unwrap_or(u32::MAX);
    let rest = Duration::from_secs(1) * listeners / WAKES_PER_SECOND;
    (listeners as usize > UNPACED_LISTENERS).then_some(rest)
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.events.ring().leave(Instant::now());
    }
}

impl Events {
    /// The number in an id of this process.
    fn number(&self, id: &str) -> Option<u64> {
        let number = id.strip_prefix(&self.inner.boot)?.strip_prefix('-')?;
        number.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::events::gateway::GatewayStarted;

    fn emit(events: &Events, times: usize) {
        for _ in 0..times {
            events.emit(GatewayStarted { version: "1.2.3" });
        }
    }

    fn received(listener: &mut Listener) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(deliveries) = listener.next().now_or_never() {
            let brief = |delivery: Delivery| match delivery.kind {
                "gap" => String::from_utf8_lossy(&delivery.data).into_owned(),
                _ => delivery.id.rsplit_once('-').unwrap().1.to_owned(),
            };
            all.extend(deliveries.into_iter().map(brief));
        }
        all
    }

    fn id(events: &Events, n: u64) -> String {
        events.id(n)
    }

    #[test]
    fn a_new_listener_gets_only_later_events() {
        let events = Events::default();
        emit(&events, 2);
        let mut listener = events.listen(None);
        assert_eq!(received(&mut listener), Vec::<String>::new());
        emit(&events, 2);
        assert_eq!(received(&mut listener), ["3", "4"]);
    }

    #[test]
    fn a_reconnecting_listener_gets_missed_events_once() {
        let events = Events::default();
        let mut first = events.listen(None);
        emit(&events, 2);
        assert_eq!(received(&mut first), ["1", "2"]);
        drop(first);
        emit(&events, 2);
        let mut again = events.listen(Some(&id(&events, 2)));
        assert_eq!(received(&mut again), ["3", "4"]);
    }

    #[test]
    fn events_that_were_not_kept_are_reported_as_a_gap_with_its_length() {
        let events = Events::default();
        emit(&events, 5);
        let mut listener = events.listen(Some(&id(&events, 1)));
        assert_eq!(received(&mut listener), [r#"{"type":"gap","lost":4}"#]);
        emit(&events, 1);
        assert_eq!(received(&mut listener), ["6"]);
    }

    #[test]
    fn an_unknown_last_event_id_gets_a_gap_and_the_kept_events() {
        let events = Events::default();
        let _first = events.listen(None);
        emit(&events, 2);
        for strange in ["01ARZ3NDEKTSV4RRFFQ69G5FAV-7", "x", "", &id(&events, 99)] {
            let mut listener = events.listen(Some(strange));
            assert_eq!(
                received(&mut listener),
                [r#"{"type":"gap"}"#, "1", "2"],
                "{strange}"
            );
        }
    }

    #[test]
    fn a_listener_that_falls_behind_the_ring_gets_a_gap() {
        let events = Events::default();
        let mut slow = events.listen(None);
        emit(&events, 60_000);
        let mut told = received(&mut slow).into_iter();
        let gap: serde_json::Value = serde_json::from_str(&told.next().unwrap()).unwrap();
        let lost = gap["lost"].as_u64().unwrap();
        let rest: Vec<u64> = told.map(|n| n.parse().unwrap()).collect();
        assert!(lost > 0);
        assert_eq!(rest, (lost + 1..=60_000).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn many_listeners_rest_between_batches_and_get_every_event() {
        let events = Events::default();
        let mut all: Vec<Listener> = (0..2000).map(|_| events.listen(None)).collect();
        let listener = &mut all[0];
        emit(&events, 1);
        let first = listener.next().now_or_never();
        assert_eq!(
            first.map(|all| all.len()),
            Some(1),
            "the first comes at once"
        );
        emit(&events, 1);
        assert!(listener.next().now_or_never().is_none(), "it rests");
        emit(&events, 2);
        assert_eq!(listener.next().await.len(), 3);
        emit(&events, 1);
        assert_eq!(
            listener.fetch().len(),
            1,
            "what is there can be had at once"
        );
    }

    #[test]
    fn an_event_has_all_envelope_fields() {
        let events = Events::default();
        let mut listener = events.listen(None);
        emit(&events, 1);
        let data = listener.next().now_or_never().unwrap()[0].data.clone();
        let event: serde_json::Value = serde_json::from_slice(&data).unwrap();
        let keys: Vec<&String> = event.as_object().unwrap().keys().collect();
        let expected = [
            "type",
            "timestamp",
            "id",
            "tenant",
            "agent",
            "session",
            "transport",
            "meta",
        ];
        assert_eq!(keys, expected);
        assert_eq!(event["type"], "gateway.started");
        assert_eq!(event["meta"]["version"], "1.2.3");
    }
}
