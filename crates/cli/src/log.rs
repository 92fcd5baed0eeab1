//! The log lines of this room that are not events.

use std::fmt::Display;

use callgate_server::StdioEnd;

pub(crate) fn no_servers() {
    tracing::warn!("no servers yet: add one with --upstream NAME:COMMAND, or in callgate.yaml");
}

pub(crate) fn serving_on_stdio(policy: &str) {
    tracing::info!(policy, "serving on stdio");
}

pub(crate) fn host_gone(end: StdioEnd) {
    tracing::info!(?end, "the host is gone");
}

pub(crate) fn attached_door_failed() {
    tracing::error!("the task that serves attached hosts panicked");
}

pub(crate) fn http_door_failed() {
    tracing::error!("the task that serves HTTP panicked");
}

pub(crate) fn file_limit_not_raised(error: &impl Display) {
    tracing::warn!(%error, "the limit of open files cannot be raised");
}

pub(crate) fn attaching_taken() {
    tracing::warn!("hosts attach to another `serve` of this data folder");
}

pub(crate) fn attaching_failed(error: &impl Display) {
    tracing::warn!(%error, "hosts cannot attach to this gateway");
}
