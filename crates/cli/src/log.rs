//! The log lines of this room that are not events.

use std::fmt::Display;

use callgate_server::StdioEnd;

pub(crate) fn no_servers() {
    tracing::warn!(
        "no servers configured: add one with --server NAME:COMMAND, or in callgate.yaml"
    );
}

pub(crate) fn serving_on_stdio(policy: &str) {
    tracing::info!(policy, "serving on stdio");
}

pub(crate) fn host_gone(end: StdioEnd) {
    tracing::info!(?end, "the host disconnected");
}

pub(crate) fn attached_door_failed() {
    tracing::error!("the task that serves attached hosts panicked");
}

pub(crate) fn http_door_failed() {
    tracing::error!("the task that serves HTTP panicked");
}

pub(crate) fn file_limit_not_raised(error: &impl Display) {
    tracing::warn!(%error, "could not raise the limit of open files; fewer connections can be open at once");
}

pub(crate) fn attaching_taken() {
    tracing::warn!("another `serve` already accepts attached hosts for this data folder");
}

pub(crate) fn attaching_failed(error: &impl Display) {
    tracing::warn!(%error, "could not open the socket for attached hosts; `callgate stdio` starts its own servers");
}
