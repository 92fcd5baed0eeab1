//! Edit: replaces literal text.

mod line_ends;

use std::{io::Read, sync::PoisonError};

use callgate_wire::ToolResult;

use super::files;
use crate::{
    answer::{FileToolResult, ToolFailed},
    arguments::{ArgumentError, Arguments},
    provider::FileTools,
};

/// Larger files are refused: the whole file is held in memory twice.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

pub(crate) fn run(tools: &FileTools, arguments: Arguments<'_>) -> FileToolResult {
    let path = arguments.path("path")?;
    let (old, new) = (arguments.text("old")?, arguments.text("new")?);
    let all = arguments.flag("replace_all")?;
    if old.is_empty() {
        return Err(ArgumentError::WrongType {
            name: "old",
            expected: "a non-empty text from the file; use Write to create a file",
        }
        .into());
    }
    if old == new {
        return Err(ToolFailed::message("`old` and `new` are the same"));
    }
    let at = tools.roots.place(&path)?;
    let _one_at_a_time = tools
        .changing
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let mut before = Vec::new();
    let file = files::open(&at)?;
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut before);
    read.map_err(|error| at.failed(error))?;
    if before.len() as u64 > MAX_BYTES {
        return Err(ToolFailed::message(format!(
            "`{path}` is larger than {MAX_BYTES} bytes, the limit of Edit"
        )));
    }
    let found = line_ends::find(&before, old.as_bytes());
    match (found.len(), all) {
        (0, _) => {
            let what = format!("`old` does not occur in `{path}`");
            return Err(ToolFailed::message(what));
        }
        (1, _) | (_, true) => {}
        (several, false) => {
            return Err(ToolFailed::message(format!(
                "`old` occurs {several} times in `{path}`: include more of the surrounding text, or set `replace_all`"
            )));
        }
    }
    files::replace(&at, &line_ends::replace(&before, &found, new.as_bytes()))?;
    let times = if found.len() == 1 { "time" } else { "times" };
    let what = format!("replaced {} {times} in `{path}`", found.len());
    Ok(ToolResult::text(what))
}
