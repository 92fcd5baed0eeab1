//! Where a call path reports: events with their log lines and metrics, and spans.

use crate::{Events, Spans};

/// Events and spans. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    /// Log lines, metrics, and events for listeners.
    pub events: Events,
    /// Spans; none without an exporter.
    pub spans: Spans,
}
