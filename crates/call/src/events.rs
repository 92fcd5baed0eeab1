//! Events. Each one is reported in up to three ways: a log line, a metric, and a message to listeners of `/events`.
//!
//! Each event is a struct ([`calls`], [`checks`], [`approval_events`], [`upstreams`], [`gateway`]), and [`Events::emit`] is the
//! only way to report it. Events are kept only while there is a listener, or was one recently; without one, an event costs a
//! log line that is mostly switched off and a few atomic additions.

pub mod approval_events;
pub mod calls;
pub mod cancelled;
pub mod checks;
pub mod gateway;
mod listener;
mod ring;
pub mod upstreams;

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use callgate_gate::{CallId, CallerIdentity, FIRST_TENANT};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::watch;
use ulid::Ulid;

use crate::Metrics;
pub use listener::{Delivery, Listener};
use ring::{Ring, StoredEvent};

/// The size of the ring for listeners that reconnect. Beyond it the oldest events are dropped, and a listener that missed some
/// gets a gap.
const KEPT_BYTES: usize = 8 * 1024 * 1024;
/// How long events are kept after the last listener left.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// Names that hosts make up are cut to this length.
const MAX_NAME_CHARS: usize = 256;

/// Something that is logged and counted, and reported to listeners.
pub trait Event {
    /// The name of its log line and of its message to listeners.
    const NAME: &'static str;

    /// Whether listeners get it. Otherwise it is only a log line, and perhaps a metric.
    const IS_DELIVERED: bool = true;

    fn log(&self);

    fn count(&self, _metrics: &Metrics) {}

    /// The fields for listeners.
    fn fields(&self) -> EventFields<'_> {
        EventFields::new(Self::NAME)
    }
}

/// The fields of an event for listeners.
#[derive(Debug)]
pub struct EventFields<'a> {
    pub kind: &'static str,
    /// The id of the call in the record.
    pub record_id: Option<CallId>,
    /// The caller; `None` for events of the gateway itself.
    pub identity: Option<&'a CallerIdentity>,
    /// The tenant, if it is not the caller's.
    pub tenant: Option<&'a str>,
    pub server: Option<&'a str>,
    /// The tool, or the method of any other request.
    pub tool: Option<Cow<'a, str>>,
    /// The scope of the policy that was applied.
    pub scope: Option<&'a str>,
    /// The target, as `server:tool`.
    pub command: Option<String>,
    /// `allow`, `deny` or `require_approval`.
    pub decision: Option<&'static str>,
    /// The rule that decided.
    pub rule: Option<&'a str>,
    pub reason: Option<String>,
    /// `stdio`, `http`, or `local` for the gateway process itself.
    pub transport: &'a str,
    /// The fields that only this kind of event has.
    pub meta: Map<String, Value>,
}

impl<'a> EventFields<'a> {
    /// An event of the gateway itself, without further fields.
    pub fn new(kind: &'static str) -> Self {
        Self {
            kind,
            record_id: None,
            identity: None,
            tenant: None,
            server: None,
            tool: None,
            scope: None,
            command: None,
            decision: None,
            rule: None,
            reason: None,
            transport: "local",
            meta: Map::new(),
        }
    }

    /// Adds a field to `meta`.
    pub fn meta(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(key.to_owned(), value.into());
        self
    }
}

/// The sink of all events. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Events {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// The id of this process start. Event ids begin with it, so that a listener's last id of an earlier start is recognised.
    boot: String,
    metrics: Metrics,
    /// Whether events are kept. Read without the lock, so that events without a listener are nearly free.
    listening: AtomicBool,
    /// How many events there were, kept or not.
    emitted: AtomicU64,
    ring: Mutex<Ring>,
    arrived: watch::Sender<u64>,
}

/// An event as JSON. The order of the fields is the order on the wire.
#[derive(Serialize)]
struct EventJson<'a> {
    r#type: &'static str,
    timestamp: String,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    record_id: Option<CallId>,
    tenant: &'a str,
    agent: &'a str,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    transport: &'a str,
    meta: Map<String, Value>,
}

impl Events {
    /// A sink that updates `metrics`.
    pub fn new(metrics: Metrics) -> Self {
        Self {
            inner: Arc::new(Inner {
                boot: Ulid::generate().to_string(),
                metrics,
                listening: AtomicBool::new(false),
                emitted: AtomicU64::new(0),
                ring: Mutex::new(Ring::new(KEPT_BYTES)),
                arrived: watch::Sender::new(0),
            }),
        }
    }

    /// Logs and counts an event, and passes it to listeners.
    pub fn emit<E: Event>(&self, event: E) {
        event.log();
        event.count(&self.inner.metrics);
        if !E::IS_DELIVERED {
            return;
        }
        if self.inner.listening.load(Ordering::Acquire) {
            self.keep(event.fields());
        } else {
            // Numbered all the same, so that a listener that reconnects later learns how many it missed.
            self.inner.emitted.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Listens to events from now on, or to those after the event `last_id`.
    pub fn listen(&self, last_id: Option<&str>) -> Listener {
        Listener::new(self.clone(), last_id)
    }

    fn keep(&self, fields: EventFields<'_>) {
        let mut ring = self.ring();
        // Numbered under the ring's lock, so that events are stored in the order of their numbers.
        let n = self.inner.emitted.fetch_add(1, Ordering::AcqRel) + 1;
        // The last listener has not returned in time: events are only counted again, until the next listener comes.
        if ring.has_lapsed(Instant::now(), KEPT_FOR) {
            ring.clear();
            self.inner.listening.store(false, Ordering::Release);
            return;
        }
        ring.push(StoredEvent {
            n,
            delivery: self.delivery(n, fields),
        });
        // Announced without the lock, which the woken listeners take at once.
        drop(ring);
        self.inner.arrived.send_replace(n);
    }

    /// The event as listeners get it, written once for all of them.
    fn delivery(&self, n: u64, fields: EventFields<'_>) -> Delivery {
        let kind = fields.kind;
        let id = self.id(n);
        let tenant = tenant(&fields).into();
        let data = self.to_json(n, fields);
        Delivery::new(id, kind, Some(tenant), data)
    }

    fn to_json(&self, n: u64, fields: EventFields<'_>) -> Vec<u8> {
        let boot = &self.inner.boot;
        let agent = fields.identity.map(|identity| name(&identity.agent));
        let written = EventJson {
            r#type: fields.kind,
            timestamp: format!("{:.6}", Timestamp::now()),
            id: self.id(n),
            record_id: fields.record_id,
            tenant: tenant(&fields),
            agent: agent.unwrap_or("callgate"),
            session: fields.identity.map_or(boot, |identity| &identity.session),
            server: fields.server,
            tool: fields.tool.as_deref().map(name),
            scope: fields.scope,
            command: fields.command,
            decision: fields.decision,
            rule: fields.rule,
            reason: fields.reason,
            transport: fields.transport,
            meta: fields.meta,
        };
        serde_json::to_vec(&written).expect("an event is made of strings and JSON values")
    }

    fn id(&self, n: u64) -> String {
        format!("{}-{n}", self.inner.boot)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.inner
            .ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new(Metrics::default())
    }
}

/// The tenant that an event is about.
fn tenant<'a>(fields: &EventFields<'a>) -> &'a str {
    let of_caller = fields.identity.map(|identity| identity.tenant.as_str());
    fields.tenant.or(of_caller).unwrap_or(FIRST_TENANT)
}

/// Cuts a name that a host made up: it goes into log lines and events.
pub(crate) fn name(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_NAME_CHARS);
    end.map_or(text, |(at, _)| &text[..at])
}
