//! The exporter of spans in a build without it.

use callgate_call::{Events, Spans};
use callgate_config::Failed;

use crate::features;

/// Hands spans to a collector: this build cannot.
#[derive(Debug)]
pub(crate) enum Exporter {}

impl Exporter {
    /// Fails: an operator who configured a collector waits for spans.
    pub(crate) fn start(_address: &str, _events: Events) -> Result<Self, Failed> {
        Err(features::missing("telemetry.otlp", "otlp"))
    }

    /// The spans of calls.
    pub(crate) fn spans(&self) -> Spans {
        match *self {}
    }

    /// Sends what is left, and ends.
    pub(crate) async fn stop(self) {
        match self {}
    }
}
