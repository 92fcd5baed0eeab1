//! How others learn what happens here: events with their log lines and counts, and spans.

use crate::{Events, Spans};

/// Where a call path tells what happens. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    /// Log lines, counts, and events for listeners.
    pub events: Events,
    /// Spans; none without an exporter.
    pub spans: Spans,
}
