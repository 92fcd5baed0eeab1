//! One strict pass over a text: it validates JSON (RFC 8259) and notes the positions of the parts that are read
//! or replaced later. Text that two readers could understand differently is rejected here, before any decision
//! about the message.

use std::ops::Range;

use scanner::Scanner;

mod keys;
mod scalars;
mod scanner;

/// The deepest allowed nesting; more is rejected with [`ScanError::TooDeep`].
pub const MAX_DEPTH: u32 = 128;

/// Which part of a text must obey the rules that go beyond the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Repeated keys and lone surrogates are refused at every depth, but for lone surrogates in values inside the
    /// `arguments` of `params`: requests and list results.
    Full,
    /// They are refused among the outermost object's own members only: all other replies.
    Envelope,
}

/// A half-open range of byte offsets into the scanned text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

/// The positions of the key and the value of an object's member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The key with its quotes.
    pub key: Span,
    /// The value without the white space around it.
    pub value: Span,
}

/// The positions of the parts of a scanned text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The whole value, without white space around it.
    pub value: Span,
    /// Whether there is a raw line feed or carriage return between tokens.
    pub line_breaks: bool,
    /// Members of the outermost object.
    pub top: Vec<Member>,
    /// Members of `params` or `result`, whichever came last, when it is an object.
    pub body: Vec<Member>,
    /// Members of `_meta` inside that, when it is an object.
    pub meta: Vec<Member>,
    /// Whether some object may have a member that names a resource (`handles.rs`): false only if none has.
    pub may_name_uris: bool,
    /// The long strings, keys included, in order; none of those that contain surrogates as escapes.
    pub long_strings: Vec<LongString>,
}

/// A string of this many bytes is noted, so that its characters are counted without reading it again.
pub(crate) const LONG_STRING_BYTES: usize = 1024;

/// A long string of a scanned text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongString {
    /// The string, quotes included.
    pub span: Span,
    /// By how many bytes its escapes are longer than their characters, of which each is one.
    pub surplus: u32,
}

/// Why a text was refused; `at` is a byte offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// A byte that the grammar does not allow there.
    #[error("unexpected byte at offset {at}")]
    UnexpectedByte { at: usize },
    /// The text ends before its value does.
    #[error("text ends before the value does")]
    Unfinished,
    /// Something other than white space follows the value.
    #[error("text after the value at offset {at}")]
    TrailingText { at: usize },
    /// The bytes are not UTF-8.
    #[error("not UTF-8 at offset {at}")]
    NotUtf8 {
        /// Where the first bad sequence starts.
        at: usize,
    },
    /// The text starts with a byte order mark.
    #[error("starts with a byte order mark")]
    ByteOrderMark,
    /// A string contains an unescaped control character.
    #[error("raw control character at offset {at}")]
    ControlCharacter { at: usize },
    /// An escape names half of a surrogate pair.
    #[error("lone surrogate at offset {at}")]
    LoneSurrogate {
        /// Where the escape starts.
        at: usize,
    },
    /// An object names one key twice, compared after unescaping.
    #[error("repeated key at offset {at}")]
    RepeatedKey {
        /// The offset of the later of the two keys.
        at: usize,
    },
    /// Containers nest deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} at offset {at}")]
    TooDeep {
        /// The offset of the container that exceeds the limit.
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

/// Validates `text` as one JSON value and notes the positions of its parts.
pub fn scan(text: &[u8], strictness: Strictness) -> Result<Outline, ScanError> {
    if u32::try_from(text.len()).is_err() {
        return Err(ScanError::TooLong);
    }
    if text.starts_with(b"\xEF\xBB\xBF") {
        return Err(ScanError::ByteOrderMark);
    }
    // Most texts are ASCII, and checking that is cheaper than decoding characters.
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
