//! Walks a folder like ripgrep: ignore files are respected, symlinks are not followed, `.git` is skipped.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use crate::{Roots, answer::ToolFailed};

const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// A folder with a longer ignore file is skipped.
const MAX_IGNORE_BYTES: u64 = 1 << 20;

/// A walk that takes longer ends, and the result says so.
pub(crate) const MAX_WALK_TIME: Duration = Duration::from_secs(60);

/// Why a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    Complete,
    /// The visitor stopped the walk.
    Enough,
    /// It took too long.
    TooLong,
}

/// What to do after a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    Stop,
}

/// Calls `look` for each file below `folder`, sorted by path.
pub(crate) fn files(
    (folder, roots): (&Path, &Roots),
    is_cancelled: &AtomicBool,
    mut look: impl FnMut(PathBuf) -> Next,
) -> WalkEnd {
    let (end, roots) = (Instant::now() + MAX_WALK_TIME, roots.clone());
    // The walker also reads the ignore files of all parent folders.
    let ignores = folder.ancestors().all(has_plain_ignore_files);
    let walk = WalkBuilder::new(folder)
        .hidden(false)
        .ignore(ignores)
        .git_ignore(ignores)
        // `.git/info/exclude` is found through files in `.git` that may point anywhere.
        .git_exclude(false)
        .require_git(false)
        .follow_links(false)
        .filter_entry(move |entry| {
            entry.file_name() != ".git"
                && !roots.protects(entry.path())
                && has_plain_ignore_files(entry.path())
        })
        .sort_by_file_path(Path::cmp)
        .build();
    // Unreadable entries are skipped: one of them should not fail the whole search.
    for entry in walk.flatten() {
        if is_cancelled.load(Ordering::Acquire) {
            return WalkEnd::Enough;
        }
        if Instant::now() >= end {
            return WalkEnd::TooLong;
        }
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if is_file && look(entry.into_path()) == Next::Stop {
            return WalkEnd::Enough;
        }
    }
    WalkEnd::Complete
}

/// Whether the ignore files of a folder are regular files of bounded size. The walker opens them itself: it would
/// block on a pipe and read a device for ever. Folders with other ignore files are skipped.
fn has_plain_ignore_files(folder: &Path) -> bool {
    IGNORE_FILES.iter().all(|name| {
        let file = fs::metadata(folder.join(name));
        file.map_or(true, |data| {
            data.is_file() && data.len() <= MAX_IGNORE_BYTES
        })
    })
}

/// A glob in which `*` stays inside a folder and `**` crosses folders.
pub(crate) fn matcher(pattern: &str) -> Result<GlobMatcher, ToolFailed> {
    let built = GlobBuilder::new(pattern).literal_separator(true).build();
    let wrong = |error: globset::Error| {
        ToolFailed::message(format!("`{pattern}` is not a valid glob: {}", error.kind()))
    };
    Ok(built.map_err(wrong)?.compile_matcher())
}
