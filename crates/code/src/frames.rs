//! What gateway and worker say to each other: a length, then a JSON text.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::Limits;

/// A longer frame is an error for a worker; how much one may say is told by the limits of its run.
pub(crate) const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// The worker's exit code when a script used more than its CPU time.
pub(crate) const OUT_OF_CPU: i32 = 87;
/// The worker's exit code when the interpreter itself failed.
pub(crate) const BROKEN: i32 = 88;

/// What a worker is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// Run this.
    Start(Box<Start>),
    /// What came of a call.
    Answer {
        /// The call's number.
        id: u32,
        outcome: Outcome,
    },
}

/// A run as a worker gets it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// The script, as its author sees its lines.
    pub(crate) source: String,
    /// The names that stand for servers, and for our own packs.
    pub(crate) packs: Vec<String>,
    /// Packs that are scripts themselves.
    pub(crate) local: Vec<LocalPack>,
    pub(crate) limits: Limits,
    /// The one moment that the script sees, in microseconds since 1970.
    pub(crate) now_us: i64,
}

/// A pack that is a script: its top-level functions are its tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalPack {
    /// The name that scripts use.
    pub name: String,
    /// Its text.
    pub source: String,
}

/// A call that a script makes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostCall {
    /// Counts from 0 within a run.
    pub id: u32,
    /// Whose tool it is; empty for a function of no pack.
    pub pack: String,
    /// The tool or function as it was written.
    pub tool: String,
    /// Arguments by place, a JSON array.
    pub args: Box<RawValue>,
    /// Arguments by name, a JSON object.
    pub kwargs: Box<RawValue>,
    /// The local pack that makes the call.
    pub via: Option<String>,
}

/// What came of a call, as the script sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Outcome {
    /// A value, as JSON.
    Value(Box<RawValue>),
    /// An exception of this kind.
    Raised {
        /// The exception's class; an unknown one becomes a `RuntimeError`.
        kind: String,
        /// What it says.
        message: String,
    },
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromWorker {
    /// It waits for a script.
    Ready,
    /// The script makes a call.
    Call(HostCall),
    /// The script ended.
    Done(Done),
    /// The script did not end well, or was not begun.
    Failed(Failed),
}

/// What came of a script that ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) printed: String,
    /// The value of its last expression, or what it returned.
    pub(crate) value: Option<Box<RawValue>>,
    /// Otherwise what it assigned, in order.
    pub(crate) names: Vec<(String, Box<RawValue>)>,
    /// How it wants its result shown.
    pub(crate) form: Option<Form>,
}

/// How a result is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// JSON in one line.
    Json,
    /// JSON for people.
    JsonForPeople,
    /// YAML.
    Yaml,
    /// Text as it is, everything else as JSON.
    Raw,
}

impl Form {
    /// The form that a script means.
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

/// Why a script did not end well.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failed {
    pub(crate) printed: String,
    /// What is wrong, and what to do.
    pub(crate) message: String,
    /// The line in the script.
    pub(crate) line: Option<u32>,
    /// Whether it reached a limit. Its worker is not used again: what the script took may not all be given back.
    pub(crate) is_spent: bool,
}

/// A frame as bytes.
pub(crate) fn encode<T: Serialize>(frame: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, frame)?;
    let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Takes the first frame out of what was read; `None` while it is not whole. One of more than `most` bytes is no frame.
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

/// What was read is no frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;
