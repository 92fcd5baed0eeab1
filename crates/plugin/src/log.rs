//! The log lines of this room that are not events.

use std::io;

pub(crate) fn started(plugin: &str, version: &str) {
    tracing::debug!(plugin, version, "plugin.started");
}

pub(crate) fn started_again(plugin: &str) {
    tracing::warn!(plugin, "a plugin exited and is being restarted");
}

pub(crate) fn output(text: &str) {
    tracing::debug!(text, "plugin.output");
}

pub(crate) fn folder_not_removed(error: &io::Error) {
    tracing::debug!(%error, "could not remove a plugin's folder");
}

pub(crate) fn watching_failed() {
    tracing::error!("the task that watches a plugin panicked");
}
