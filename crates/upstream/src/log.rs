//! The log lines of this room that are not events.

use std::{fmt::Display, io, path::Path};

use callgate_gate::{Finding, ServerName};

use crate::lane::LaneError;

pub(crate) fn late(server: &ServerName) {
    tracing::warn!(
        %server,
        "the server did not connect within `connect_wait`; it is announced when it connects"
    );
}

pub(crate) fn not_started_for_host(server: &ServerName, error: &LaneError) {
    tracing::warn!(%server, %error, "the server cannot be started in a host's name");
}

pub(crate) fn list_has_a_fault(server: &ServerName, complaint: &str) {
    tracing::warn!(%server, complaint, "the server's list has a fault");
}

pub(crate) fn shown_twice(finding: &Finding) {
    let Finding::ShownTwice {
        shown,
        kept,
        left_out,
    } = finding;
    tracing::warn!(
        shown,
        kept,
        left_out,
        "two tools or prompts have one shown name; the later is left out"
    );
}

pub(crate) fn pins_not_saved(error: &impl Display) {
    tracing::warn!(%error, "the lock cannot be written: new tools are pinned only until this gateway ends");
}

pub(crate) fn definitions_not_kept(server: &ServerName, error: &io::Error) {
    tracing::debug!(%server, %error, "the server's definitions could not be saved");
}

pub(crate) fn era_found_out(server: &ServerName, stateless: bool) {
    tracing::debug!(%server, stateless, "the server's era was found out");
}

pub(crate) fn era_not_found_out(server: &ServerName, error: &LaneError) {
    tracing::debug!(%server, %error, "the server's era could not be found out");
}

pub(crate) fn era_not_kept(server: &ServerName, error: &io::Error) {
    tracing::debug!(%server, %error, "the server's era could not be saved");
}

pub(crate) fn session_not_renewed(detail: &str) {
    tracing::debug!(detail, "an expired session could not be re-initialised");
}

pub(crate) fn reply_ignored(server: &ServerName) {
    tracing::debug!(%server, "a late or unknown reply was ignored");
}

pub(crate) fn unasked_call_not_noted(file: &Path, error: &io::Error) {
    tracing::error!(file = %file.display(), %error, "a call that the guard could not be asked about could not be added to the file");
}
