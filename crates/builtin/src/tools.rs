//! One file per tool, and how files are opened and replaced.

pub(crate) mod bash;
pub(crate) mod edit;
pub(crate) mod files;
pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod read;
mod walk;
pub(crate) mod write;
