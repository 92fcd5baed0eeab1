//! Write: a file whole, at once.

use std::sync::PoisonError;

use callgate_wire::ToolAnswer;

use super::files;
use crate::{answer::Done, arguments::Arguments, provider::Workplace};

pub(crate) fn run(place: &Workplace, arguments: Arguments<'_>) -> Done {
    let path = arguments.path("path")?;
    let content = arguments.text("content")?;
    let at = place.roots.place(&path)?;
    let _one_at_a_time = place
        .changing
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    files::replace(&at, content.as_bytes())?;
    let what = format!("wrote {} bytes to `{path}`", content.len());
    Ok(ToolAnswer::text(what))
}
