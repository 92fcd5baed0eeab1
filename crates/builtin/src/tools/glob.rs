//! Glob: finds files by a pattern, newest first.

use std::{
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

use super::{
    files,
    walk::{self, MAX_WALK_TIME, Next, WalkEnd},
};
use crate::{
    answer::{FileToolResult, ToolFailed, texts},
    arguments::Arguments,
    provider::FileTools,
};

/// The most files in one result.
const MAX_FILES: usize = 1000;

pub(crate) fn run(tools: &FileTools, arguments: Arguments<'_>) -> FileToolResult {
    let pattern = arguments.text("pattern")?;
    let cwd = arguments.path_or_here("cwd")?;
    let at = tools.roots.place(&cwd)?;
    if !files::is_folder(&at)? {
        let what = format!("`{}` is not a folder", at.as_requested());
        return Err(ToolFailed::message(what));
    }
    let folder = at.whole();
    let pattern = relative(&pattern, &folder).ok_or_else(|| {
        ToolFailed::message(format!(
            "`{pattern}` leads outside `{}`; pass another folder as `cwd`",
            folder.display()
        ))
    })?;
    let matcher = walk::matcher(&pattern)?;
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    let end = walk::files((&folder, &tools.roots), &tools.is_cancelled, |path| {
        let inside = path.strip_prefix(&folder).unwrap_or(&path);
        // Looked up through the root's descriptor: a folder swapped for a symlink must not reveal times outside.
        if matcher.is_match(inside)
            && let Ok(data) = at.root.dir.symlink_metadata(at.inside.join(inside))
        {
            let modified = data.modified().map(cap_std::time::SystemTime::into_std);
            found.push((modified.unwrap_or(SystemTime::UNIX_EPOCH), path));
        }
        Next::GoOn
    });
    found.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.cmp(second)));
    let total = found.len();
    found.truncate(MAX_FILES);
    let names = found.iter().map(|(_, path)| tools.roots.shown(path));
    let names: Vec<String> = names.collect();
    let text = if names.is_empty() {
        "[no file matches]".to_owned()
    } else {
        names.join("\n")
    };
    let cut = (total > MAX_FILES)
        .then(|| format!("[the newest {MAX_FILES} of {total} files; narrow the pattern]"));
    let late = (end == WalkEnd::TooLong).then(|| {
        format!(
            "[stopped after {} s; narrow the folder]",
            MAX_WALK_TIME.as_secs()
        )
    });
    Ok(texts([text].into_iter().chain(cut).chain(late)))
}

/// The pattern relative to the folder; `None` if it leads out of it.
fn relative(pattern: &str, folder: &Path) -> Option<String> {
    // By whole components: `/a/bc` is not inside `/a/b`.
    let inside = match pattern.starts_with('/') {
        true => Path::new(pattern).strip_prefix(folder).ok()?.to_str()?,
        false => pattern,
    };
    let climbs = |part: Component<'_>| matches!(part, Component::ParentDir);
    let climbs = Path::new(inside).components().any(climbs);
    (!climbs).then(|| inside.trim_start_matches("./").to_owned())
}
