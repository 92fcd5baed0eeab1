//! Tool results: text for the model, or a failure as text.

use callgate_wire::ToolResult;

use crate::{arguments::ArgumentError, roots::PathRefused};

/// Why a tool failed. The text is written for the model and says what to do instead.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolFailed {
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// The path is outside of the roots, protected or malformed.
    #[error(transparent)]
    Path(#[from] PathRefused),
    #[error("{0}")]
    Message(String),
}

pub(crate) type FileToolResult = Result<ToolResult, ToolFailed>;

impl ToolFailed {
    pub(crate) fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }
}

/// A result of several text blocks: the content first, then notes about it.
pub(crate) fn texts(texts: impl IntoIterator<Item = String>) -> ToolResult {
    let content = texts.into_iter().map(callgate_wire::Content::Text);
    ToolResult {
        content: content.collect(),
        ..ToolResult::default()
    }
}

/// A failure as the model sees it.
pub(crate) fn failure(failed: &ToolFailed) -> ToolResult {
    ToolResult::failure(failed.to_string())
}
