//! The log lines of this room that are not events.

use std::fmt::Display;

pub(crate) fn worker_not_started(error: &impl Display) {
    tracing::warn!(%error, "a worker for scripts could not be started");
}
