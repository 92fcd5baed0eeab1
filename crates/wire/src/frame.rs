//! One JSON-RPC message: its original bytes and the positions of its parts. A message that is not clearly a
//! request, a notification, a result or an error is rejected.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::edit::Edit;
use crate::escape::{inside, key_is};
use crate::id::Id;
use crate::json::{Json, JsonKind};
use crate::message::RpcError;
use crate::rejected::Rejected;
use crate::scan::{Member, Outline, ScanError, Span, Strictness, scan};

/// A message that passed the scan and the envelope's rules. Cloning shares the bytes.
#[derive(Clone)]
pub struct Frame {
    bytes: Bytes,
    parts: Arc<Parts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// A method with an id: it expects an answer.
    Request,
    /// A method without an id.
    Notification,
    /// The answer to a request that succeeded.
    Result,
    /// The answer to a request that failed.
    Error,
}

/// Why a message was refused. The texts name no content of the message and are safe to send.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not JSON, or JSON that readers could understand differently.
    #[error("parse error: {0}")]
    Text(#[from] ScanError),
    /// JSON, but not an object.
    #[error("invalid request: not an object")]
    NotAnObject,
    /// An array where a single message is expected.
    #[error("invalid request: batches are not supported")]
    Batch,
    /// A batch without messages.
    #[error("invalid request: empty batch")]
    EmptyBatch,
    /// The `jsonrpc` member is missing or differs.
    #[error("invalid request: `jsonrpc` must be \"2.0\"")]
    Version,
    /// The id is neither a string nor an integer.
    #[error("invalid request: `id` must be a string or an integer")]
    Id,
    /// A key that some readers take for a known member, and others do not.
    #[error("invalid request: a member differs from `{member}` only in case")]
    WrongCase {
        /// The member as it is spelled in the protocol.
        member: &'static str,
    },
    /// Members of a request and of a reply in one message.
    #[error("invalid request: both a request and a reply")]
    RequestAndReply,
    /// A reply that both succeeded and failed.
    #[error("invalid request: both `result` and `error`")]
    ResultAndError,
    /// Neither a method nor an answer.
    #[error("invalid request: none of `method`, `result` and `error`")]
    NoContent,
    /// A reply without the id of its request.
    #[error("invalid request: a reply without `id`")]
    ReplyWithoutId,
    /// Parameters that are neither an object nor an array.
    #[error("invalid request: `params` must be an object or an array")]
    Params,
    /// A method that is not a string.
    #[error("invalid request: `method` must be a string")]
    Method,
}

/// Several messages in one array, as 2025-03-26 allows.
#[derive(Debug, Clone, Copy)]
pub struct Batch;

/// One message of a batch, or why it was refused and what is known of it.
pub type BatchedMessage = Result<Frame, (FrameError, Rejected)>;

struct Parts {
    outline: Outline,
    kind: FrameKind,
    id: Option<Id>,
    method: Option<Box<str>>,
    params: Option<Span>,
    result: Option<Span>,
    error: Option<Span>,
}

/// The members an envelope may have.
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The members of `params` that are read before a request is forwarded.
const INSPECTED: [&str; 4] = ["name", "arguments", "uri", "_meta"];

impl Frame {
    /// Reads one message. A text whose kind is not known beforehand may be parsed with
    /// [`Strictness::Envelope`] and, once it proves to be a request, again in full.
    pub fn parse(bytes: Bytes, strictness: Strictness) -> Result<Frame, FrameError> {
        let outline = scan(&bytes, strictness)?;
        let parts = Parts::read(&bytes, outline)?;
        Ok(Frame {
            bytes,
            parts: Arc::new(parts),
        })
    }

    pub fn kind(&self) -> FrameKind {
        self.parts.kind
    }

    /// The id; `None` for notifications and for error replies that answer no known request.
    pub fn id(&self) -> Option<&Id> {
        self.parts.id.as_ref()
    }

    /// The method, unescaped; `None` for replies.
    pub fn method(&self) -> Option<&str> {
        self.parts.method.as_deref()
    }

    /// The parameters of a request or notification.
    pub fn params(&self) -> Option<Json<'_>> {
        self.parts.params.map(|span| self.json(span))
    }

    /// The result of a successful reply.
    pub fn result(&self) -> Option<Json<'_>> {
        self.parts.result.map(|span| self.json(span))
    }

    /// The error of a failed reply.
    pub fn error(&self) -> Option<Json<'_>> {
        self.parts.error.map(|span| self.json(span))
    }

    /// A member of `params`, found without scanning `params` again.
    pub fn param(&self, key: &str) -> Option<Json<'_>> {
        self.parts.params?;
        self.find(&self.parts.outline.body, key)
    }

    /// A member of `result`, found without scanning `result` again.
    pub fn result_member(&self, key: &str) -> Option<Json<'_>> {
        self.parts.result?;
        self.find(&self.parts.outline.body, key)
    }

    /// How many characters the strings under `key` have, over all objects of the array that is a member of `result`.
    pub fn count_result_chars(&self, member: &str, key: &str) -> usize {
        if self.parts.result.is_none() {
            return 0;
        }
        let Outline {
            body, long_strings, ..
        } = &self.parts.outline;
        let Some(array) = find(&self.bytes, body, member) else {
            return 0;
        };
        self.json(array).count_chars(key, |left| {
            // Behind what is left of the array stands its bracket.
            let start = array.end - 1 - u32::try_from(left).ok()?;
            let at = long_strings.binary_search_by_key(&start, |long| long.span.start);
            at.ok().map(|at| long_strings[at])
        })
    }

    /// A member of `_meta` inside `params` or `result`.
    pub fn meta(&self, key: &str) -> Option<Json<'_>> {
        self.find(&self.parts.outline.meta, key)
    }

    /// The original bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The original bytes, without a copy.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// A part of this message as shared bytes; a value from elsewhere is copied.
    pub fn share(&self, part: Json<'_>) -> Bytes {
        let whole = self.bytes.as_ptr_range();
        let range = part.bytes().as_ptr_range();
        if whole.start <= range.start && range.end <= whole.end {
            self.bytes.slice_ref(part.bytes())
        } else {
            Bytes::copy_from_slice(part.bytes())
        }
    }

    /// Whether there are raw line breaks between tokens, which a line-based transport cannot carry.
    pub fn has_line_breaks(&self) -> bool {
        self.parts.outline.line_breaks
    }

    /// The message's length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never true: a message has at least its envelope.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Starts a change of some of the message's parts.
    pub fn edit(&self) -> Edit<'_> {
        Edit::new(self)
    }

    /// The positions of the message's parts.
    pub fn outline(&self) -> &Outline {
        &self.parts.outline
    }

    /// The position of `params` or `result`.
    pub(crate) fn body(&self) -> Option<Span> {
        self.parts.params.or(self.parts.result)
    }

    fn json(&self, span: Span) -> Json<'_> {
        Json::trusted(span.of(&self.bytes))
    }

    fn find(&self, members: &[Member], key: &str) -> Option<Json<'_>> {
        find(&self.bytes, members, key).map(|span| self.json(span))
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Frame")
            .field("kind", &self.kind())
            .field("id", &self.id())
            .field("method", &self.method())
            .field("len", &self.len())
            .finish()
    }
}

impl FrameError {
    /// The JSON-RPC code the refusal is answered with.
    pub fn code(&self) -> i64 {
        match self {
            FrameError::Text(_) => RpcError::PARSE_ERROR,
            FrameError::NotAnObject
            | FrameError::Batch
            | FrameError::EmptyBatch
            | FrameError::Version
            | FrameError::Id
            | FrameError::WrongCase { .. }
            | FrameError::RequestAndReply
            | FrameError::ResultAndError
            | FrameError::NoContent
            | FrameError::ReplyWithoutId
            | FrameError::Params
            | FrameError::Method => RpcError::INVALID_REQUEST,
        }
    }

    /// The refusal as the error that is sent.
    pub fn to_rpc(&self) -> RpcError {
        RpcError::new(self.code(), self.to_string())
    }
}

impl Batch {
    /// Takes a batch apart. Each message is judged alone, in full strictness; the whole is refused
    /// only when it is not JSON, not an array, or empty.
    pub fn parse(bytes: Bytes) -> Result<Vec<BatchedMessage>, FrameError> {
        let whole = Json::validate(&bytes, Strictness::Envelope)?;
        if whole.kind() != JsonKind::Array {
            return Err(FrameError::NotAnObject);
        }
        let frames: Vec<_> = whole
            .elements()
            .map(|element| {
                let message = bytes.slice_ref(element.bytes());
                Frame::parse(message.clone(), Strictness::Full)
                    .map_err(|error| (error, Rejected::of(&message)))
            })
            .collect();
        if frames.is_empty() {
            return Err(FrameError::EmptyBatch);
        }
        Ok(frames)
    }
}

impl Parts {
    fn read(text: &[u8], outline: Outline) -> Result<Parts, FrameError> {
        match text.get(outline.value.start as usize) {
            Some(b'{') => {}
            Some(b'[') => return Err(FrameError::Batch),
            Some(_) | None => return Err(FrameError::NotAnObject),
        }
        refuse_wrong_case(text, &outline.top, &ENVELOPE)?;
        let top = |key| find(text, &outline.top, key);
        let value = |span: Span| Json::trusted(span.of(text));
        let version = top("jsonrpc").and_then(|span| value(span).as_str());
        if version.as_deref() != Some("2.0") {
            return Err(FrameError::Version);
        }
        let (params, result, error) = (top("params"), top("result"), top("error"));
        let (id, method) = (top("id").map(value), top("method").map(value));
        let kind = kind(
            method.is_some() || params.is_some(),
            result.is_some(),
            error.is_some(),
            id.is_some(),
        )?;
        let method = match method {
            Some(method) => Some(method.as_str().ok_or(FrameError::Method)?.into()),
            None if params.is_some() => return Err(FrameError::NoContent),
            None => None,
        };
        let id = match id {
            // An error reply answers `null` when the request's own id could not be read.
            Some(id) if id.is_null() && kind == FrameKind::Error => None,
            Some(id) => Some(Id::from_json(id).ok_or(FrameError::Id)?),
            None => None,
        };
        if let Some(params) = params {
            match value(params).kind() {
                JsonKind::Object => refuse_wrong_case(text, &outline.body, &INSPECTED)?,
                JsonKind::Array => {}
                JsonKind::Null | JsonKind::Bool | JsonKind::Number | JsonKind::String => {
                    return Err(FrameError::Params);
                }
            }
        }
        Ok(Parts {
            outline,
            kind,
            id,
            method,
            params,
            result,
            error,
        })
    }
}

/// The kind of a message, from the members that are present.
fn kind(request: bool, result: bool, error: bool, id: bool) -> Result<FrameKind, FrameError> {
    match (request, result, error, id) {
        (true, false, false, true) => Ok(FrameKind::Request),
        (true, false, false, false) => Ok(FrameKind::Notification),
        (false, true, false, true) => Ok(FrameKind::Result),
        (false, false, true, true) => Ok(FrameKind::Error),
        (false, true, true, _) => Err(FrameError::ResultAndError),
        (false, true, false, false) | (false, false, true, false) => {
            Err(FrameError::ReplyWithoutId)
        }
        (true, true, _, _) | (true, _, true, _) => Err(FrameError::RequestAndReply),
        (false, false, false, _) => Err(FrameError::NoContent),
    }
}

/// The value of a member; of equal keys, which only a loose scan accepts, the last one counts.
fn find(text: &[u8], members: &[Member], key: &str) -> Option<Span> {
    members
        .iter()
        .rfind(|member| key_is(member.key.of(text), key))
        .map(|member| member.value)
}

fn refuse_wrong_case(
    text: &[u8],
    members: &[Member],
    known: &[&'static str],
) -> Result<(), FrameError> {
    for member in members {
        let raw = inside(member.key.of(text));
        if known.iter().any(|name| name.as_bytes() == raw) {
            continue;
        }
        let Some(key) = Json::trusted(member.key.of(text)).as_str() else {
            continue;
        };
        let twin = known
            .iter()
            .find(|name| **name != key && folds_to(&key, name));
        if let Some(member) = twin {
            return Err(FrameError::WrongCase { member });
        }
    }
    Ok(())
}

/// Whether a reader that ignores case would take `key` for `name`, which is lower case. The long s and the
/// Kelvin sign are the only letters outside ASCII that fold into it.
fn folds_to(key: &str, name: &str) -> bool {
    let folded = key.chars().map(|character| match character {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        _ => character.to_ascii_lowercase(),
    });
    folded.eq(name.chars())
}

#[cfg(test)]
mod tests;
