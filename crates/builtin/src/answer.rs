//! What a tool answers: text for the model, or a failure told in text.

use callgate_wire::ToolAnswer;

use crate::{arguments::ArgumentError, roots::Refused};

/// Why a tool did not do what it was asked. The text is for the model, and says what would help.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolFailed {
    /// The arguments make no sense.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// The path is none that may be used.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The tool says why.
    #[error("{0}")]
    Told(String),
}

/// What a tool did.
pub(crate) type Done = Result<ToolAnswer, ToolFailed>;

impl ToolFailed {
    pub(crate) fn told(text: impl Into<String>) -> Self {
        Self::Told(text.into())
    }
}

/// An answer of several texts, the first of which is the matter itself.
pub(crate) fn texts(texts: impl IntoIterator<Item = String>) -> ToolAnswer {
    let content = texts.into_iter().map(callgate_wire::Content::Text);
    ToolAnswer {
        content: content.collect(),
        ..ToolAnswer::default()
    }
}

/// A failure as the model sees it.
pub(crate) fn failure(failed: &ToolFailed) -> ToolAnswer {
    ToolAnswer::failure(failed.to_string())
}
