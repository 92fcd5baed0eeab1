//! Write: replaces a whole file atomically.

use std::sync::PoisonError;

use callgate_wire::ToolAnswer;

use super::files;
use crate::{answer::ToolResult, arguments::Arguments, provider::FileTools};

pub(crate) fn run(tools: &FileTools, arguments: Arguments<'_>) -> ToolResult {
    let path = arguments.path("path")?;
    let content = arguments.text("content")?;
    let at = tools.roots.place(&path)?;
    let _one_at_a_time = tools
        .changing
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    files::replace(&at, content.as_bytes())?;
    let what = format!("wrote {} bytes to `{path}`", content.len());
    Ok(ToolAnswer::text(what))
}
