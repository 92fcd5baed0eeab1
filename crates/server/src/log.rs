//! The log lines of this room that are not events.

use std::fmt::Display;

use crate::StdioEnd;

pub(crate) fn attached_host_gone(end: StdioEnd) {
    tracing::info!(?end, "an attached host is gone");
}

pub(crate) fn host_not_attached(error: &impl Display) {
    tracing::warn!(%error, "a host could not be attached; trying again");
}

pub(crate) fn host_turned_away(why: &str) {
    tracing::warn!(why, "a host that wanted to attach was refused");
}

pub(crate) fn notification_to_host_dropped() {
    tracing::debug!("a notification was dropped: the host does not read");
}

pub(crate) fn notification_to_server_dropped() {
    tracing::debug!("a notification was dropped: a server does not read");
}

pub(crate) fn announcements_dropped(missed: u64) {
    tracing::warn!(
        missed,
        "the host reads too slowly; announcements were dropped"
    );
}

pub(crate) fn connections_not_accepted(error: &impl Display) {
    tracing::warn!(%error, "connections cannot be accepted; closing an idle one to make room");
}

pub(crate) fn connection_ended_early(error: &impl Display) {
    tracing::debug!(%error, "a connection ended early");
}

pub(crate) fn request_panicked() {
    tracing::error!("a request could not be answered: there is a fault in the gateway");
}

pub(crate) fn approvals_unavailable(error: &dyn std::error::Error) {
    tracing::error!(%error, "approvals cannot be read or stored; an approver got no answer");
}

pub(crate) fn usage_not_read(error: &impl Display) {
    tracing::error!(%error, "the usage of tokens cannot be read");
}

pub(crate) fn export_ended_early(error: &impl Display) {
    tracing::warn!(%error, "an export ended early");
}

pub(crate) fn record_not_read(error: &impl Display) {
    tracing::error!(%error, "the record cannot be read; a query got no answer");
}

pub(crate) fn check_not_answered(error: &impl Display) {
    tracing::error!(%error, "a question of another gateway or program could not be answered");
}

pub(crate) fn held_run_not_kept(error: &impl Display) {
    tracing::error!(%error, "a script run that waits for approval could not be saved");
}
