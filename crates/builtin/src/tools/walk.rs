//! Walking a folder as ripgrep does: ignore files count, links are not followed, `.git` is left out.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use crate::{Roots, answer::ToolFailed};

/// What a walk reads in each folder.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// A longer one is none.
const MAX_IGNORE_BYTES: u64 = 1 << 20;

/// A walk that takes longer says so and answers what it has.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// Why a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    /// Everything was seen.
    Whole,
    /// Whoever looks has enough.
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

/// Shows each file below `folder` to `look`, sorted by path.
pub(crate) fn files(
    (folder, roots): (&Path, &Roots),
    given_up: &AtomicBool,
    mut look: impl FnMut(PathBuf) -> Next,
) -> WalkEnd {
    let (end, roots) = (Instant::now() + LONGEST, roots.clone());
    // The walk reads those of the folders above, too.
    let ignores = folder.ancestors().all(has_plain_ignore_files);
    let walk = WalkBuilder::new(folder)
        .hidden(false)
        .ignore(ignores)
        .git_ignore(ignores)
        // It is found through files of `.git` that may lead anywhere.
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
    // What cannot be read is not there for this search.
    for entry in walk.flatten() {
        if given_up.load(Ordering::Acquire) {
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
    WalkEnd::Whole
}

/// Whether the ignore files of a folder can be read to their end: the walk opens them by itself, and would wait for the
/// writer of a pipe and read a device for ever. A folder with another one is left out.
fn has_plain_ignore_files(folder: &Path) -> bool {
    IGNORE_FILES.iter().all(|name| {
        let file = fs::metadata(folder.join(name));
        file.map_or(true, |data| {
            data.is_file() && data.len() <= MAX_IGNORE_BYTES
        })
    })
}

/// A pattern in which `*` stays inside a folder and `**` crosses folders.
pub(crate) fn matcher(pattern: &str) -> Result<GlobMatcher, ToolFailed> {
    let built = GlobBuilder::new(pattern).literal_separator(true).build();
    let wrong = |error: globset::Error| {
        ToolFailed::told(format!("`{pattern}` is no pattern: {}", error.kind()))
    };
    Ok(built.map_err(wrong)?.compile_matcher())
}
