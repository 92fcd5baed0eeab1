//! The log lines of this room that are not events.

use std::{fmt::Display, io, path::Path};

use callgate_record::WriterId;

pub(crate) fn damaged(writer: WriterId, damage: &str) {
    tracing::warn!(%writer, damage, "record.damaged");
}

pub(crate) fn owed(path: &Path, error: &io::Error) {
    tracing::error!(path = %path.display(), %error, "record.owed");
}

pub(crate) fn lost(path: &Path, entries: usize, error: &io::Error) {
    tracing::error!(path = %path.display(), entries, %error, "record.lost");
}

pub(crate) fn sync_failed(path: &Path, reason: &str) {
    tracing::error!(path = %path.display(), reason, "record.sync_failed");
}

/// What the entry says stays out of the operator's log, which never shows arguments.
pub(crate) fn entry_after_the_end() {
    tracing::error!("an entry came after the end of the log and was not written");
}

pub(crate) fn head_not_written(path: &Path, error: &io::Error) {
    tracing::warn!(path = %path.display(), %error, "the newest head could not be written beside the log");
}

pub(crate) fn head_not_read(writer: WriterId, error: &impl Display) {
    tracing::warn!(%writer, %error, "the head of a living writer cannot be read");
}

pub(crate) fn lock_not_tried(writer: WriterId, error: &io::Error) {
    tracing::warn!(%writer, %error, "a writer's lock cannot be tried; whether the writer lives is unknown");
}

pub(crate) fn dead_writer_not_sealed(writer: WriterId, error: &io::Error) {
    tracing::warn!(%writer, %error, "a dead writer's chain could not be sealed");
}

pub(crate) fn damaged_segment_kept(path: &Path, error: &impl Display) {
    tracing::warn!(path = %path.display(), %error, "a damaged segment is kept as evidence and not dropped");
}

pub(crate) fn rebuilding_index(path: &Path, why: &impl Display) {
    tracing::warn!(path = %path.display(), error = %why, "rebuilding index.sqlite from the log");
}

pub(crate) fn rebuilt_index_not_filled(error: &impl Display) {
    tracing::warn!(%error, "the rebuilt index could not be filled; trying again later");
}

pub(crate) fn damaged_entry_left_out(
    writer: WriterId,
    segment: u32,
    offset: u64,
    error: &impl Display,
) {
    tracing::warn!(%writer, segment, offset, %error, "a damaged entry is left out of the index");
}
