//! The log lines of this room that are not events.

use std::{fmt::Display, io, path::Path};

use callgate_record::WriterId;

pub(crate) fn damaged(writer: WriterId, damage: &str) {
    tracing::warn!(%writer, damage, "record.damaged");
}

pub(crate) fn not_written_yet(path: &Path, error: &io::Error) {
    tracing::error!(path = %path.display(), %error, "record.owed");
}

pub(crate) fn lost(path: &Path, entries: usize, error: &io::Error) {
    tracing::error!(path = %path.display(), entries, %error, "record.lost");
}

pub(crate) fn sync_failed(path: &Path, reason: &str) {
    tracing::error!(path = %path.display(), reason, "record.sync_failed");
}

/// Without the entry's content: the operator's log never shows arguments.
pub(crate) fn entry_after_the_end() {
    tracing::error!("an entry arrived after the activity log was closed and was not written");
}

pub(crate) fn head_not_written(path: &Path, error: &io::Error) {
    tracing::warn!(path = %path.display(), %error, "could not write the `head` file of the activity log");
}

pub(crate) fn head_not_read(writer: WriterId, error: &impl Display) {
    tracing::warn!(%writer, %error, "could not read the head of a running writer");
}

pub(crate) fn lock_not_tried(writer: WriterId, error: &io::Error) {
    tracing::warn!(%writer, %error, "could not test a writer's lock; whether it is running is unknown");
}

pub(crate) fn dead_writer_not_sealed(writer: WriterId, error: &io::Error) {
    tracing::warn!(%writer, %error, "could not seal the chain of a dead writer");
}

pub(crate) fn damaged_segment_kept(path: &Path, error: &impl Display) {
    tracing::warn!(path = %path.display(), %error, "retention keeps a damaged segment as evidence");
}

pub(crate) fn rebuilding_index(path: &Path, why: &impl Display) {
    tracing::warn!(path = %path.display(), error = %why, "rebuilding index.sqlite from the activity log");
}

pub(crate) fn rebuilt_index_not_filled(error: &impl Display) {
    tracing::warn!(%error, "could not fill the rebuilt index; trying again later");
}

pub(crate) fn damaged_entry_left_out(
    writer: WriterId,
    segment: u32,
    offset: u64,
    error: &impl Display,
) {
    tracing::warn!(%writer, segment, offset, %error, "leaving a damaged entry out of the index");
}

pub(crate) fn room_made(dir: &Path, gone: &str) {
    tracing::warn!(path = %dir.display(), gone, "the disk is full: made room for the activity log");
}

pub(crate) fn index_not_shrunk(error: &impl Display) {
    tracing::warn!(%error, "the search index could not give room back to the disk");
}

pub(crate) fn clock_file_not_used(path: &Path, error: &io::Error) {
    tracing::warn!(path = %path.display(), %error, "ignoring what was kept about the clock; the times of entries are used instead");
}

pub(crate) fn cut_not_mended(path: &Path, error: &io::Error) {
    tracing::warn!(path = %path.display(), %error, "could not remove what a power cut left behind the last entry");
}
