//! The log lines of this room that are not events.

use std::fmt::Display;

use callgate_gate::ApprovalId;

pub(crate) fn approvals_follower_failed() {
    tracing::error!("the task that follows approvals panicked");
}

pub(crate) fn housekeeping_failed() {
    tracing::error!("the housekeeping of the activity log panicked");
}

pub(crate) fn background_task_failed() {
    tracing::error!(
        "the task that follows approvals or the housekeeping of the activity log panicked"
    );
}

pub(crate) fn old_records_not_dropped(error: &impl Display) {
    tracing::warn!(%error, "could not delete old records; trying again later");
}

pub(crate) fn index_not_filled(error: &impl Display) {
    tracing::warn!(%error, "could not update the index; trying again later");
}

pub(crate) fn record_not_closed(error: &impl Display) {
    tracing::warn!(%error, "could not close the activity log; the next start closes it");
}

pub(crate) fn servers_not_stopped() {
    tracing::warn!("some servers did not stop in time; their wardens kill them");
}

pub(crate) fn tokens_not_read(error: &impl Display) {
    tracing::error!(%error, "cannot read the tokens; every token is refused");
}

#[cfg(feature = "otlp")]
pub(crate) fn exporter_panicked() {
    tracing::warn!("the span exporter panicked during shutdown");
}

#[cfg(feature = "plugins")]
pub(crate) fn plugin_not_started(plugin: &str, error: &str) {
    tracing::warn!(plugin, error, "could not start a plugin");
}

#[cfg(feature = "plugins")]
pub(crate) fn operation_left_out(error: &impl Display) {
    tracing::warn!(%error, "skipping an operation that cannot be offered to models");
}

pub(crate) fn configuration_not_watched(error: &impl Display) {
    tracing::warn!(%error, "cannot watch the configuration; changes take effect after a restart");
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

pub(crate) fn publishing_failed() {
    tracing::error!("the task that publishes heads of the activity log panicked");
}

pub(crate) fn heads_not_published(what: &str) {
    tracing::warn!("{what}");
}

/// Processes that share a data folder agree on the one that announces an approval.
pub(crate) fn announcer_not_chosen(error: &impl Display) {
    tracing::warn!(%error, "could not determine which process announces an approval");
}

pub(crate) fn approval_not_announced(host: &str, approval: &ApprovalId, error: &str) {
    tracing::warn!(host, error, approval_id = %approval, "could not announce an approval to a webhook");
}
