//! The span exporter of a build without the feature `otlp`.

use callgate_call::{Events, Spans};
use callgate_config::Failed;

use crate::features;

/// The span exporter, which this build cannot have.
#[derive(Debug)]
pub(crate) enum Exporter {}

impl Exporter {
    /// Fails rather than dropping spans silently: the operator configured a collector.
    pub(crate) fn start(_address: &str, _events: Events) -> Result<Self, Failed> {
        Err(features::missing("telemetry.otlp", "otlp"))
    }

    /// The spans of calls.
    pub(crate) fn spans(&self) -> Spans {
        match *self {}
    }

    /// Never called: there is no value of this type.
    pub(crate) async fn stop(self) {
        match self {}
    }
}

/// Fails for every address.
pub(crate) fn check(_address: &str) -> Result<(), Failed> {
    Err(features::missing("telemetry.otlp", "otlp"))
}
