//! What happens, said once and told three ways: a line in the log, a count in the metrics, and an
//! event for whoever listens.
//!
//! Each thing that can happen is a struct of its own ([`calls`], [`checks`], [`approvals`], [`upstreams`], [`gateway`]), and
//! [`Events::emit`] is the only way to tell of it: nobody else writes such a line or counts it.
//! Events are kept only while somebody listens or did so a short while ago; otherwise telling
//! costs a log line that is mostly switched off and a few atomic additions.

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

use callgate_gate::{CallId, FIRST_TENANT, Who};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::watch;
use ulid::Ulid;

use crate::Metrics;
pub use listener::{Delivery, Listener};
use ring::Ring;

/// What is kept for listeners that come back. Beyond it the oldest goes, and who missed it is told.
const KEPT_BYTES: usize = 8 * 1024 * 1024;
/// How long events are kept when nobody listens any more.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// Names that hosts make up are told up to this length.
const MAX_NAME_CHARS: usize = 256;

/// Something that can happen.
pub trait Event {
    /// Its name: of the line in the log, and of the event that listeners get.
    const NAME: &'static str;

    /// Whether listeners are told; else it is only a line in the log, and perhaps a count.
    const TOLD: bool = true;

    /// Writes its line to the log.
    fn log(&self);

    /// Counts it.
    fn count(&self, _metrics: &Metrics) {}

    /// What listeners are told.
    fn shown(&self) -> Shown<'_> {
        Shown::new(Self::NAME)
    }
}

/// What listeners are told about an event.
#[derive(Debug)]
pub struct Shown<'a> {
    /// Its name.
    pub kind: &'static str,
    /// The record that tells more.
    pub record_id: Option<CallId>,
    /// Whose doing it is; `None` for the gateway's own.
    pub who: Option<&'a Who>,
    /// Whose it is, where nobody did it; else the tenant of whoever did.
    pub tenant: Option<&'a str>,
    /// The server it is about.
    pub server: Option<&'a str>,
    /// The tool, or the method of any other request.
    pub tool: Option<Cow<'a, str>>,
    /// What it was checked under.
    pub scope: Option<&'a str>,
    /// What was asked for: `server:tool`.
    pub command: Option<String>,
    /// `allow`, `deny` or `require_approval`.
    pub decision: Option<&'static str>,
    /// The rule that decided.
    pub rule: Option<&'a str>,
    /// Why.
    pub reason: Option<String>,
    /// How it came in: `stdio`, `http`, or `local` for the same process.
    pub transport: &'a str,
    /// What else there is to know.
    pub meta: Map<String, Value>,
}

impl<'a> Shown<'a> {
    /// An event of the gateway itself, with nothing more to say yet.
    pub fn new(kind: &'static str) -> Self {
        Self {
            kind,
            record_id: None,
            who: None,
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

    /// Adds something to know.
    pub fn meta(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(key.to_owned(), value.into());
        self
    }
}

/// Where everything that happens is told. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Events {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Tells the events of this process start from any other's.
    boot: String,
    metrics: Metrics,
    /// Whether events are kept. Read without the lock, so that telling nobody is nearly free.
    listening: AtomicBool,
    /// How many there were, kept or not.
    emitted: AtomicU64,
    ring: Mutex<Ring>,
    arrived: watch::Sender<u64>,
}

/// The fields in the order in which they are written.
#[derive(Serialize)]
struct Written<'a> {
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
    /// A place to tell what happens; what can be counted is counted in `metrics`.
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

    /// Tells that something happened.
    pub fn emit<E: Event>(&self, event: E) {
        event.log();
        event.count(&self.inner.metrics);
        if !E::TOLD {
            return;
        }
        if self.inner.listening.load(Ordering::Acquire) {
            self.keep(event.shown());
        } else {
            // It is numbered all the same: who comes back later is told how many were missed.
            self.inner.emitted.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Listens from now on, or from behind the event `last_id` on.
    pub fn listen(&self, last_id: Option<&str>) -> Listener {
        Listener::new(self.clone(), last_id)
    }

    fn keep(&self, shown: Shown<'_>) {
        let mut ring = self.ring();
        let n = self.inner.emitted.fetch_add(1, Ordering::AcqRel) + 1;
        if ring.has_lapsed(Instant::now(), KEPT_FOR) {
            ring.clear();
            self.inner.listening.store(false, Ordering::Release);
            return;
        }
        let kind = shown.kind;
        let data = self.written(n, shown);
        ring.push(n, kind, data.into());
        drop(ring);
        self.inner.arrived.send_replace(n);
    }

    fn written(&self, n: u64, shown: Shown<'_>) -> Vec<u8> {
        let boot = &self.inner.boot;
        let agent = shown.who.map(|who| name(&who.agent));
        let written = Written {
            r#type: shown.kind,
            timestamp: format!("{:.6}", Timestamp::now()),
            id: self.id(n),
            record_id: shown.record_id,
            tenant: shown
                .tenant
                .or(shown.who.map(|who| who.tenant.as_str()))
                .unwrap_or(FIRST_TENANT),
            agent: agent.unwrap_or("callgate"),
            session: shown.who.map_or(boot, |who| &who.session),
            server: shown.server,
            tool: shown.tool.as_deref().map(name),
            scope: shown.scope,
            command: shown.command,
            decision: shown.decision,
            rule: shown.rule,
            reason: shown.reason,
            transport: shown.transport,
            meta: shown.meta,
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

/// A name that a host made up, cut to a length.
pub(crate) fn name(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_NAME_CHARS);
    end.map_or(text, |(at, _)| &text[..at])
}
