//! The log lines of this room that are not events.

use std::fmt::Display;

use callgate_gate::ApprovalId;

pub(crate) fn approvals_follower_failed() {
    tracing::error!("the task that follows approvals panicked");
}

pub(crate) fn housekeeping_failed() {
    tracing::error!("the housekeeping of the record panicked");
}

pub(crate) fn background_task_failed() {
    tracing::error!("the task that follows approvals or the housekeeping of the record panicked");
}

pub(crate) fn old_records_not_dropped(error: &impl Display) {
    tracing::warn!(%error, "old records could not be dropped");
}

pub(crate) fn index_not_filled(error: &impl Display) {
    tracing::warn!(%error, "the index could not be filled; trying again later");
}

pub(crate) fn record_not_closed(error: &impl Display) {
    tracing::warn!(%error, "the record could not be closed properly; the next start closes it");
}

pub(crate) fn servers_not_stopped() {
    tracing::warn!("servers did not stop in time; their wardens kill them");
}

pub(crate) fn tokens_not_read(error: &impl Display) {
    tracing::error!(%error, "tokens cannot be read; every token is refused");
}

pub(crate) fn exporter_panicked() {
    tracing::warn!("the exporter of spans panicked while it was stopped");
}

pub(crate) fn plugin_not_started(plugin: &str, error: &str) {
    tracing::warn!(plugin, error, "a plugin could not be started");
}

pub(crate) fn operation_left_out(error: &impl Display) {
    tracing::warn!(%error, "an operation cannot be shown to models and is left out");
}

pub(crate) fn configuration_not_watched(error: &impl Display) {
    tracing::warn!(%error, "the configuration cannot be watched; changes count after a restart");
}

pub(crate) fn configuration_note(note: &str) {
    tracing::warn!("{note}");
}

pub(crate) fn reloading_failed() {
    tracing::error!("the task that reloads the configuration panicked");
}

pub(crate) fn announcing_failed() {
    tracing::error!("the task that announces approvals panicked");
}

/// Processes that share a data folder settle which of them announces an approval.
pub(crate) fn announcer_not_chosen(error: &impl Display) {
    tracing::warn!(%error, "an approval cannot be announced");
}

pub(crate) fn approval_not_announced(host: &str, approval: &ApprovalId, error: &str) {
    tracing::warn!(host, error, approval_id = %approval, "an approval could not be announced");
}
