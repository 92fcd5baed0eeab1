//! The protocol between gateway and worker: length-prefixed JSON.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::Limits;

/// The longest frame that a worker accepts. Frames from a worker are bounded by the limits of its run.
#[cfg(feature = "interpreter")]
pub(crate) const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// The worker's exit code when a script used more than its CPU time.
pub(crate) const EXIT_OUT_OF_CPU: i32 = 87;
/// The worker's exit code when the interpreter itself failed.
pub(crate) const EXIT_INTERPRETER_FAILED: i32 = 88;

/// Frames to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    Start(Box<Start>),
    Answer { id: u32, outcome: Outcome },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// The script with its author's line numbers.
    pub(crate) source: String,
    /// The names of all packs: servers, built-in packs and local packs.
    pub(crate) packs: Vec<String>,
    /// The packs that are scripts themselves.
    pub(crate) local: Vec<LocalPack>,
    pub(crate) limits: Limits,
    /// The script's fixed clock, in microseconds since 1970.
    pub(crate) now_us: i64,
}

/// A pack that is a script: its top-level functions are its tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalPack {
    /// The name that scripts use.
    pub name: String,
    pub source: String,
}

/// A call that a script makes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostCall {
    /// Counts from 0 within a run.
    pub id: u32,
    /// The tool's pack; empty for a function without a pack.
    pub pack: String,
    /// The tool or function as the script wrote it.
    pub tool: String,
    /// Positional arguments, a JSON array.
    pub args: Box<RawValue>,
    /// Keyword arguments, a JSON object.
    pub kwargs: Box<RawValue>,
    /// The local pack that makes the call.
    pub via: Option<String>,
}

/// The outcome of a call, as the script sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Outcome {
    /// A value, as JSON.
    Value(Box<RawValue>),
    /// An exception of this kind.
    Raised {
        /// The exception's class; an unknown one becomes a `RuntimeError`.
        kind: String,
        message: String,
    },
}

/// Frames from a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromWorker {
    /// The worker waits for a script.
    Ready,
    /// The script makes a call.
    Call(HostCall),
    Done(Done),
    /// The script failed, or was refused before it ran.
    Failed(Failed),
}

/// The result of a script that ran to its end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) printed: String,
    /// The value of its last expression, or what it returned.
    pub(crate) value: Option<Box<RawValue>>,
    /// Without a value: the names that it assigned, in order.
    pub(crate) names: Vec<(String, Box<RawValue>)>,
    /// The result format that the script chose.
    pub(crate) form: Option<Form>,
}

/// The format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// JSON in one line.
    Json,
    /// Indented JSON.
    JsonForPeople,
    Yaml,
    /// Strings unquoted, everything else as JSON.
    Raw,
}

#[cfg(feature = "interpreter")]
impl Form {
    /// The format of that name.
    pub(crate) fn of(word: &str) -> Option<Self> {
        Some(match word {
            "json" => Self::Json,
            "json_h" => Self::JsonForPeople,
            "yml" | "yaml" => Self::Yaml,
            "raw" => Self::Raw,
            _ => return None,
        })
    }
}

/// Why a script failed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failed {
    pub(crate) printed: String,
    /// What went wrong, and what to do.
    pub(crate) message: String,
    /// The line in the script.
    pub(crate) line: Option<u32>,
    /// Whether a limit was reached. Such a worker is not reused: the script's memory may not all be freed.
    pub(crate) is_spent: bool,
}

pub(crate) fn encode<T: Serialize>(frame: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, frame)?;
    let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Takes the first frame out of the buffer; `None` if it is incomplete. A frame of more than `most` bytes is refused
/// by its length prefix, before its body is buffered.
pub(crate) fn take<T: DeserializeOwned>(
    read: &mut Vec<u8>,
    most: usize,
) -> Result<Option<T>, Unreadable> {
    let Some(head) = read.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*head) as usize;
    if length > most {
        return Err(Unreadable);
    }
    let Some(body) = read.get(4..4 + length) else {
        return Ok(None);
    };
    let frame = serde_json::from_slice(body).map_err(|_| Unreadable)?;
    read.drain(..4 + length);
    Ok(Some(frame))
}

/// The bytes are not a valid frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;
