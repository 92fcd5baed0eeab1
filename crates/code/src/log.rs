//! The log lines of this room that are not events.

use std::fmt::Display;

pub(crate) fn worker_not_started(error: &impl Display) {
    tracing::warn!(%error, "could not start a script worker");
}
