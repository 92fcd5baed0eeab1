//! Metrics, in the format of Prometheus.
//!
//! Labels are names from the configuration and the catalog, never names that a host made up. A server that keeps listing new
//! tools cannot create series without limit: see [`MAX_SERIES`].

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use callgate_gate::Target;
use callgate_record::{Decision, Status};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// How many series of calls there may be. Calls of further tools are counted under their server, without a tool.
const MAX_SERIES: usize = 10_000;
/// In seconds, for the whole call.
const TOTAL_BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0,
];
/// In seconds, for the gateway's share of a call.
const ADDED_BUCKETS: [f64; 11] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0,
];

/// All metrics. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Registry,
    calls: Family<CallLabels, Counter>,
    /// How many label sets of `calls` were created.
    series: AtomicUsize,
    decisions: Family<ClassLabels, Counter>,
    /// The counters of `decisions`, looked up once.
    by_class: [(Decision, Counter); 3],
    total: Histogram,
    added: Histogram,
    frame_errors: Family<SideLabels, Counter>,
    events_dropped: Counter,
    upstreams: Family<UpstreamLabels, Gauge>,
    pending_approvals: Gauge,
    record_backlog: Gauge,
    index_lag: Gauge,
    /// Scrapes run one at a time: the gauges are set and then rendered, and another scrape must not clear them in between.
    scraping: Mutex<()>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// How long a call took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// From receiving the request to having the answer.
    pub total: Duration,
    /// The part of it between sending the call to its provider and having the reply.
    pub forwarded: Duration,
}

impl Latency {
    /// The rest: the gateway's own share.
    pub fn added(self) -> Duration {
        self.total.saturating_sub(self.forwarded)
    }
}

/// The sender of a malformed frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Host,
    Upstream,
}

/// The values that are read when a scrape comes.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// Each server, and its status.
    pub upstreams: Vec<(String, String)>,
    /// Calls that wait for approval.
    pub pending_approvals: usize,
    /// Record entries that could not be written yet.
    pub record_backlog: usize,
    /// Record entries of this process that are not indexed yet.
    pub index_lag: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    server: String,
    tool: String,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    class: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SideLabels {
    side: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabels {
    server: String,
    status: &'static str,
}

/// The statuses of a server; a scrape has one series for each.
const STATUSES: [&str; 4] = ["starting", "ok", "degraded", "stopped"];

impl Default for Metrics {
    fn default() -> Self {
        let decisions: Family<ClassLabels, Counter> = Family::default();
        // Counters exist from the start: `rate()` in Prometheus does not see the first increase of a new series.
        let by_class =
            [Decision::Allow, Decision::Deny, Decision::RequireApproval].map(|decision| {
                let class = decision.as_str();
                let counter = decisions.get_or_create_owned(&ClassLabels { class });
                (decision, counter)
            });
        let mut inner = Inner {
            registry: Registry::with_prefix("callgate"),
            calls: Family::default(),
            series: AtomicUsize::new(0),
            decisions,
            by_class,
            total: Histogram::new(TOTAL_BUCKETS),
            added: Histogram::new(ADDED_BUCKETS),
            frame_errors: Family::default(),
            events_dropped: Counter::default(),
            upstreams: Family::default(),
            pending_approvals: Gauge::default(),
            record_backlog: Gauge::default(),
            index_lag: Gauge::default(),
            scraping: Mutex::default(),
        };
        inner.register();
        Self {
            inner: Arc::new(inner),
        }
    }
}

impl Metrics {
    /// All metrics in the text format of Prometheus.
    pub fn render(&self, standing: &Standing) -> String {
        let inner = &*self.inner;
        let _scrape = inner
            .scraping
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        inner.set(standing);
        let mut text = String::new();
        encode(&mut text, &inner.registry).expect("writing to a string does not fail");
        text
    }

    /// Counts a finished call; `None` if it had no target.
    pub(crate) fn call(&self, target: Option<&Target>, status: Status) {
        let calls = &self.inner.calls;
        let (server, tool) = match target {
            None => (String::new(), String::new()),
            // Methods and URIs are the host's own words, so they are not labels.
            Some(
                other @ (Target::Prompt(_)
                | Target::Resource(_)
                | Target::Completion(_)
                | Target::Method { .. }),
            ) => (other.server().to_string(), String::new()),
            Some(Target::Tool(tool)) => (tool.server.to_string(), tool.name.clone()),
        };
        let mut labels = CallLabels {
            server,
            tool,
            status: status.as_str(),
        };
        // Known label sets do not count against the limit.
        if let Some(known) = calls.get(&labels) {
            known.inc();
            return;
        }
        // Two threads may both count a new label set. The limit is then reached early, which is harmless.
        if self.inner.series.fetch_add(1, Ordering::Relaxed) >= MAX_SERIES {
            labels.tool = String::new();
        }
        calls.get_or_create(&labels).inc();
    }

    pub(crate) fn decision(&self, decision: Decision) {
        let of_class = self.inner.by_class.iter().find(|(of, _)| *of == decision);
        if let Some((_, counter)) = of_class {
            counter.inc();
        }
    }

    pub(crate) fn latency(&self, latency: Latency) {
        self.inner.total.observe(latency.total.as_secs_f64());
        self.inner.added.observe(latency.added().as_secs_f64());
    }

    pub(crate) fn frame_error(&self, side: Side) {
        self.inner.frame_errors.get_or_create(&side.labels()).inc();
    }

    pub(crate) fn events_dropped(&self, events: u64) {
        self.inner.events_dropped.inc_by(events);
    }
}

impl Side {
    fn labels(self) -> SideLabels {
        let side = match self {
            Self::Host => "host",
            Self::Upstream => "upstream",
        };
        SideLabels { side }
    }
}

impl Inner {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "calls",
            "Finished calls, by server, tool and status",
            self.calls.clone(),
        );
        registry.register(
            "decisions",
            "Policy decisions, by class",
            self.decisions.clone(),
        );
        registry.register(
            "call_duration_seconds",
            "Seconds from receiving a request to having its answer",
            self.total.clone(),
        );
        registry.register(
            "added_duration_seconds",
            "Seconds of a call that the gateway itself spent",
            self.added.clone(),
        );
        registry.register(
            "frame_errors",
            "Malformed messages, by sender",
            self.frame_errors.clone(),
        );
        registry.register(
            "events_dropped",
            "Events lost to a listener of /events that fell behind",
            self.events_dropped.clone(),
        );
        registry.register(
            "upstream_state",
            "1 for the current status of a server, 0 for the others",
            self.upstreams.clone(),
        );
        registry.register(
            "pending_approvals",
            "Calls that wait for approval",
            self.pending_approvals.clone(),
        );
        registry.register(
            "record_owed_entries",
            "Record entries that could not be written yet",
            self.record_backlog.clone(),
        );
        registry.register(
            "record_index_lag_entries",
            "Record entries of this process that are not indexed yet",
            self.index_lag.clone(),
        );
        for side in [Side::Host, Side::Upstream] {
            // From the start, as above.
            drop(self.frame_errors.get_or_create(&side.labels()));
        }
    }

    fn set(&self, standing: &Standing) {
        let gauge = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.pending_approvals
            .set(gauge(standing.pending_approvals));
        self.record_backlog.set(gauge(standing.record_backlog));
        self.index_lag
            .set(i64::try_from(standing.index_lag).unwrap_or(i64::MAX));
        // A server that was removed from the configuration must not keep its last status.
        self.upstreams.clear();
        for (server, current) in &standing.upstreams {
            for status in STATUSES {
                let labels = UpstreamLabels {
                    server: server.clone(),
                    status,
                };
                let is = i64::from(status == current);
                self.upstreams.get_or_create(&labels).set(is);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use callgate_gate::ServerName;

    use super::*;

    fn method(server: &str, method: &str) -> Target {
        Target::Method {
            server: ServerName::new(server).unwrap(),
            method: method.to_owned(),
            task: None,
        }
    }

    #[test]
    fn names_invented_by_hosts_do_not_become_labels() {
        let metrics = Metrics::default();
        metrics.call(None, Status::Error);
        metrics.call(Some(&method("fs", "made/up")), Status::Success);
        let text = metrics.render(&Standing::default());
        assert!(text.contains(r#"callgate_calls_total{server="",tool="",status="error"} 1"#));
        assert!(text.contains(r#"callgate_calls_total{server="fs",tool="",status="success"} 1"#));
        assert!(!text.contains("made/up"));
    }

    #[test]
    fn a_scrape_shows_the_current_server_states() {
        let metrics = Metrics::default();
        let standing = |status: &str| Standing {
            upstreams: vec![("fs".to_owned(), status.to_owned())],
            record_backlog: 3,
            ..Standing::default()
        };
        metrics.render(&standing("starting"));
        let text = metrics.render(&standing("ok"));
        let state = |status: &str| format!(r#"upstream_state{{server="fs",status="{status}"}}"#);
        assert!(text.contains(&format!("callgate_{} 1", state("ok"))));
        assert!(text.contains(&format!("callgate_{} 0", state("starting"))));
        assert!(text.contains("callgate_record_owed_entries 3"));
        assert!(text.ends_with("# EOF\n"));
        let gone = metrics.render(&Standing::default());
        assert!(!gone.contains("server=\"fs\""));
    }

    #[test]
    fn latency_is_split_into_server_time_and_gateway_time() {
        let metrics = Metrics::default();
        let ms = Duration::from_millis;
        metrics.latency(Latency {
            total: ms(40),
            forwarded: ms(38),
        });
        let text = metrics.render(&Standing::default());
        assert!(text.contains(r#"callgate_call_duration_seconds_bucket{le="0.025"} 0"#));
        assert!(text.contains(r#"callgate_call_duration_seconds_bucket{le="0.05"} 1"#));
        assert!(text.contains(r#"callgate_added_duration_seconds_bucket{le="0.001"} 0"#));
        assert!(text.contains(r#"callgate_added_duration_seconds_bucket{le="0.0025"} 1"#));
    }
}
