//! One strict pass over a text: it validates JSON (RFC 8259) and notes where the parts stand that
//! are looked at or spliced later. What two readers could understand differently is refused here,
//! before anything decides on the message.

use std::ops::Range;

use scanner::Scanner;

mod keys;
mod scalars;
mod scanner;

/// Containers may nest this deep; one more is refused with [`ScanError::TooDeep`].
pub const MAX_DEPTH: u32 = 128;

/// How much of a text is held to the rules that go beyond the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Repeated keys and lone surrogates are refused at every depth: requests and list results.
    Full,
    /// They are refused among the outermost object's own members only: all other replies.
    Envelope,
}

/// A half-open range of byte offsets into the scanned text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

/// One member of an object: where its key and its value stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The key with its quotes.
    pub key: Span,
    /// The value without the white space around it.
    pub value: Span,
}

/// Where the parts of a scanned text stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The whole value, without white space around it.
    pub value: Span,
    /// Whether a raw line feed or carriage return stands between tokens.
    pub line_breaks: bool,
    /// Members of the outermost object.
    pub top: Vec<Member>,
    /// Members of `params` or `result`, whichever came last, when it is an object.
    pub body: Vec<Member>,
    /// Members of `_meta` inside that, when it is an object.
    pub meta: Vec<Member>,
}

/// Why a text was refused; `at` is a byte offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// A byte that the grammar does not allow there.
    #[error("unexpected byte at offset {at}")]
    UnexpectedByte {
        /// Where it stands.
        at: usize,
    },
    /// The text ends before its value does.
    #[error("text ends before the value does")]
    Unfinished,
    /// Something other than white space follows the value.
    #[error("text after the value at offset {at}")]
    TrailingText {
        /// Where it starts.
        at: usize,
    },
    /// The bytes are not UTF-8.
    #[error("not UTF-8 at offset {at}")]
    NotUtf8 {
        /// Where the first bad sequence starts.
        at: usize,
    },
    /// The text starts with a byte order mark.
    #[error("starts with a byte order mark")]
    ByteOrderMark,
    /// A control character stands unescaped inside a string.
    #[error("raw control character at offset {at}")]
    ControlCharacter {
        /// Where it stands.
        at: usize,
    },
    /// An escape names half of a surrogate pair.
    #[error("lone surrogate at offset {at}")]
    LoneSurrogate {
        /// Where the escape starts.
        at: usize,
    },
    /// An object names one key twice, compared after unescaping.
    #[error("repeated key at offset {at}")]
    RepeatedKey {
        /// Where the later of two equal keys stands.
        at: usize,
    },
    /// Containers nest deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} at offset {at}")]
    TooDeep {
        /// Where the container that is one too many opens.
        at: usize,
    },
    /// The text is longer than a span can express.
    #[error("longer than 4 GiB")]
    TooLong,
}

impl Span {
    /// The part of `text` that the span covers.
    pub fn of(self, text: &[u8]) -> &[u8] {
        &text[self.range()]
    }

    /// The span as a range of `usize`.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Validates `text` as one JSON value and notes where its parts stand.
pub fn scan(text: &[u8], strictness: Strictness) -> Result<Outline, ScanError> {
    if u32::try_from(text.len()).is_err() {
        return Err(ScanError::TooLong);
    }
    if text.starts_with(b"\xEF\xBB\xBF") {
        return Err(ScanError::ByteOrderMark);
    }
    // Most texts are ASCII, and seeing that costs less than reading characters.
    if !text.is_ascii()
        && let Err(error) = std::str::from_utf8(text)
    {
        let at = error.valid_up_to();
        return Err(ScanError::NotUtf8 { at });
    }
    Scanner::new(text, strictness).run()
}

#[cfg(test)]
mod tests;
