//! The log lines of this room that are not events.

use std::fmt::Display;

use crate::StdioEnd;

pub(crate) fn attached_host_gone(end: StdioEnd) {
    tracing::info!(?end, "an attached host disconnected");
}

pub(crate) fn host_not_attached(error: &impl Display) {
    tracing::warn!(%error, "could not accept an attached host; retrying");
}

pub(crate) fn host_turned_away(why: &str) {
    tracing::warn!(why, "refused a host that tried to attach");
}

pub(crate) fn notification_to_host_dropped() {
    tracing::debug!("dropped a notification: the host is not reading");
}

pub(crate) fn notification_to_server_dropped() {
    tracing::debug!("dropped a notification: a server is not reading");
}

pub(crate) fn announcements_dropped(missed: u64) {
    tracing::warn!(missed, "dropped announcements: the host reads too slowly");
}

pub(crate) fn connections_not_accepted(error: &impl Display) {
    tracing::warn!(%error, "could not accept a connection; closing an idle one to make room");
}

pub(crate) fn connection_ended_early(error: &impl Display) {
    tracing::debug!(%error, "a connection closed early");
}

pub(crate) fn request_panicked() {
    tracing::error!("a request handler panicked; this is a bug in the gateway");
}

pub(crate) fn approvals_unavailable(error: &dyn std::error::Error) {
    tracing::error!(%error, "could not read or store approvals; an approver's request failed");
}

pub(crate) fn usage_not_read(error: &impl Display) {
    tracing::error!(%error, "could not read token usage");
}

pub(crate) fn export_ended_early(error: &impl Display) {
    tracing::warn!(%error, "an export stopped early");
}

pub(crate) fn record_not_read(error: &impl Display) {
    tracing::error!(%error, "could not read the activity log; a query failed");
}

pub(crate) fn check_not_answered(error: &impl Display) {
    tracing::error!(%error, "could not answer a check from another gateway or program");
}

pub(crate) fn held_run_not_kept(error: &impl Display) {
    tracing::error!(%error, "could not save a script run that waits for approval");
}
