//! Write: replaces a whole file atomically.

use std::sync::PoisonError;

use callgate_wire::ToolResult;

use super::files;
use crate::{answer::FileToolResult, arguments::Arguments, provider::FileTools};

pub(crate) fn run(tools: &FileTools, arguments: Arguments<'_>) -> FileToolResult {
    let path = arguments.path("path")?;
    let content = arguments.text("content")?;
    let at = tools.roots.place(&path)?;
    let _one_at_a_time = tools
        .changing
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    files::replace(&at, content.as_bytes())?;
    let what = format!("wrote {} bytes to `{path}`", content.len());
    Ok(ToolResult::text(what))
}
