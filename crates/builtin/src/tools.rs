//! One file per tool, and how files are opened and replaced.

pub(crate) mod bash;
pub(crate) mod edit;
pub(crate) mod files;
pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod read;
mod walk;
pub(crate) mod write;

use crate::arguments::Key;

/// The file that a tool is about.
pub(crate) const PATH: Key = Key("path", Some("file_path"));
