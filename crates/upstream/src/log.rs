//! Log lines of this crate that are not events.

use std::{fmt::Display, io, path::Path};

use callgate_gate::{Finding, ServerName};

use crate::lane::LaneError;

pub(crate) fn late(server: &ServerName) {
    tracing::warn!(
        %server,
        "the server did not connect within `connect_wait`; hosts see its tools once it connects"
    );
}

pub(crate) fn not_started_for_host(server: &ServerName, error: &LaneError) {
    tracing::warn!(%server, %error, "could not start the server for a host");
}

pub(crate) fn list_faulty(server: &ServerName, complaint: &str) {
    tracing::warn!(%server, complaint, "the server sent a faulty list");
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
        "two tools or prompts have the same display name; the later one is hidden"
    );
}

pub(crate) fn pins_not_saved(error: &impl Display) {
    tracing::warn!(%error, "could not write the lock file; new tools are pinned only until this gateway stops");
}

pub(crate) fn definitions_not_saved(server: &ServerName, error: &io::Error) {
    tracing::debug!(%server, %error, "could not save the server's definitions");
}

pub(crate) fn era_detected(server: &ServerName, stateless: bool) {
    tracing::debug!(%server, stateless, "detected the server's protocol era");
}

pub(crate) fn era_not_detected(server: &ServerName, error: &LaneError) {
    tracing::debug!(%server, %error, "could not detect the server's protocol era");
}

pub(crate) fn era_not_saved(server: &ServerName, error: &io::Error) {
    tracing::debug!(%server, %error, "could not save the server's protocol era");
}

pub(crate) fn session_not_renewed(detail: &str) {
    tracing::debug!(detail, "could not re-initialise an expired session");
}

pub(crate) fn reply_ignored(server: &ServerName) {
    tracing::debug!(%server, "ignored a late or unknown reply");
}

pub(crate) fn unchecked_call_not_logged(file: &Path, error: &io::Error) {
    tracing::error!(file = %file.display(), %error, "could not write an unchecked call to the guard's audit file");
}
