//! The entries of the log: one JSON line each, chained by the store.
//!
//! The store adds `hash`, `prev`, `writer`, `seq` and `at` in front; this module has the other members.

mod chain;
mod origin;
mod raw;
mod record_type;
mod written;

use callgate_gate::{ApprovalId, CallId, DeclaredIntent, Operation, Transport};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

pub use chain::{Checkpoint, DropReason, Head, KeyedHead, Opened};
pub use origin::Origin;
pub use raw::RawJson;
pub use record_type::RecordType;

/// One process start that writes to the log, with its own sequence and chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WriterId(pub Ulid);

impl std::fmt::Display for WriterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// All entries of the log.
///
/// It is written with [`Entry::write_json`] and read back with [`Entry::from_json`].
#[derive(Debug, Clone)]
pub enum Entry {
    /// A writer started. Names the heads of all writers that it found.
    Opened(Opened),
    /// A writer closed its chain. Only the opening of a process that goes on with the chain follows.
    Closed {},
    /// A call was refused before anything was sent, or an agent used its own tool without the gate.
    Refused(Box<CallEntry>),
    /// A call waits for a person.
    Held(Box<CallEntry>),
    /// A client asked whether a call is allowed, and got an answer. What the client does then is not visible.
    Checked(Box<CallEntry>),
    /// A call is about to be forwarded.
    Forwarding(Box<CallEntry>),
    /// The end of a forwarded call.
    Finished(Box<Finished>),
    /// The end of a dead writer's forwarded call: its outcome was not seen.
    Unknown(Unknown),
    /// A head of this chain, with a message authentication code.
    Head(KeyedHead),
    /// Segments dropped by retention, named before they go.
    Checkpoint(Checkpoint),
    /// Something that happened to the gateway rather than to a call.
    Event(Event),
}

impl Entry {
    /// Reads an entry from a JSON object; members that belong to its line are ignored.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        // Two passes instead of an internally tagged enum: serde would buffer the members to find the tag, and
        // `RawJson` cannot be read from a buffer.
        let Tag { kind } = serde_json::from_str(text)?;
        Self::from_json_of(kind, text)
    }

    /// The same for a reader that knows the kind.
    pub fn from_json_of(kind: EntryKind, text: &str) -> Result<Self, serde_json::Error> {
        Ok(match kind {
            EntryKind::Opened => Self::Opened(serde_json::from_str(text)?),
            EntryKind::Closed => Self::Closed {},
            EntryKind::Refused => Self::Refused(serde_json::from_str(text)?),
            EntryKind::Held => Self::Held(serde_json::from_str(text)?),
            EntryKind::Checked => Self::Checked(serde_json::from_str(text)?),
            EntryKind::Forwarding => Self::Forwarding(serde_json::from_str(text)?),
            EntryKind::Finished => Self::Finished(serde_json::from_str(text)?),
            EntryKind::Unknown => Self::Unknown(serde_json::from_str(text)?),
            EntryKind::Head => Self::Head(serde_json::from_str(text)?),
            EntryKind::Checkpoint => Self::Checkpoint(serde_json::from_str(text)?),
            EntryKind::Event => Self::Event(serde_json::from_str(text)?),
        })
    }
}

#[derive(Deserialize)]
struct Tag {
    kind: EntryKind,
}

/// The kind of an entry: the names of [`Entry`]'s variants in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    Opened,
    Closed,
    Refused,
    Held,
    Checked,
    Forwarding,
    Finished,
    Unknown,
    Head,
    Checkpoint,
    Event,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Decision {
    Allow,
    Deny,
    RequireApproval,
}

impl Decision {
    /// The spelling in the log.
    pub fn written(self) -> &'static str {
        match self {
            Self::Allow => "ALLOW",
            Self::Deny => "DENY",
            Self::RequireApproval => "REQUIRE_APPROVAL",
        }
    }

    /// The spelling everywhere else.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::RequireApproval => "require_approval",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Answered without an error.
    Success,
    /// Answered with an error; nothing is in doubt.
    Error,
    /// Refused by policy, intent, pin or token.
    Blocked,
    /// Refused by a limit or a person.
    Rejected,
    Pending,
    /// Sent, outcome not seen.
    Unknown,
    /// Cancelled before it was sent; it had no effect.
    Cancelled,
    /// An agent's own tool: observed, not gated.
    Bypassed,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Blocked => "blocked",
            Self::Rejected => "rejected",
            Self::Pending => "pending",
            Self::Unknown => "unknown",
            Self::Cancelled => "cancelled",
            Self::Bypassed => "bypassed",
        }
    }
}

/// What is known about a call's effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing was sent.
    None,
    /// It was sent and answered.
    Done,
    /// It was sent and the answer was not seen.
    Unknown,
}

impl Effect {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Done => "done",
            Self::Unknown => "unknown",
        }
    }
}

/// One policy check that was made for a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The scope that was asked.
    pub scope: String,
    pub decision: Decision,
    pub rule: String,
    /// The file operation, for file scopes, where the tool's name implies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The command that decided, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The paths, the one that decided first, redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The address that decided, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
}

/// The declared or inferred intent of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// `read`, `write` or `destructive`; of a refused call the text that it declared, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_type: Option<String>,
    /// The declared data sensitivity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_sensitivity: Option<String>,
    /// The declared reason, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the operation was derived instead of declared: from the server's annotations, or from the
    /// way the call was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
}

impl Intent {
    /// The intent of a call that declared none.
    pub fn inferred(operation: Operation) -> Self {
        Self {
            operation_type: Some(operation.as_str().to_owned()),
            inferred: true,
            ..Self::default()
        }
    }

    /// The intent as it was declared.
    pub(crate) fn declared(declared: &DeclaredIntent) -> Self {
        let stated = declared.operation_type.clone();
        let chosen = || {
            let chosen = declared.inferred.then(|| declared.variant.as_str());
            chosen.map(str::to_owned)
        };
        Self {
            operation_type: stated.or_else(chosen),
            data_sensitivity: declared.data_sensitivity.clone(),
            reason: declared.reason.clone(),
            inferred: declared.inferred,
        }
    }
}

/// A message body as it is kept: capped, redacted, with the digest of the whole.
#[derive(Debug, Clone, Deserialize)]
pub struct Body {
    /// The length of the whole body.
    pub bytes: u64,
    /// BLAKE3 of the whole body as forwarded: SHA-256 would cost more than all other work on it.
    pub blake3: String,
    /// The JSON value, when it fits the cap.
    pub value: Option<RawJson>,
    /// The beginning as text, when the body exceeds the cap or redaction made it invalid JSON.
    pub text: Option<String>,
    /// Whether secrets were replaced.
    #[serde(default)]
    pub redacted: bool,
}

/// An error, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The JSON-RPC code, or 0 where there was none.
    pub code: i64,
    /// The message, redacted and capped.
    pub message: String,
}

/// A received call, refused or not.
#[derive(Debug, Clone, Deserialize)]
pub struct CallEntry {
    /// The call's id, which is its record's id.
    pub id: CallId,
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// The kind of caller, or the local pack of a script.
    pub source: Origin,
    /// The transport of the request.
    pub transport: Transport,
    pub tenant: String,
    /// The principal that was authenticated.
    pub principal: String,
    /// The name that the caller gives itself.
    pub agent: String,
    /// `clientInfo` of the host, unchanged.
    pub client: Option<RawJson>,
    /// The session it came in.
    pub session_id: String,
    /// The host's own id of the request, as JSON text.
    pub request_id: Option<String>,
    /// The call that made this one.
    pub parent_id: Option<CallId>,
    /// The server it is aimed at, when that is known.
    pub server: Option<String>,
    /// The tool, or the method of another request.
    pub tool: Option<String>,
    /// The arguments, or the params of another request.
    pub arguments: Option<Body>,
    /// The policy's decision; none when the call ended before it.
    pub decision: Option<Decision>,
    pub rule: Option<String>,
    pub reason: Option<String>,
    /// Every check that was made.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// The declared or inferred intent.
    pub intent: Option<Intent>,
    /// The `call_tool_*` variant that it came through.
    pub tool_variant: Option<String>,
    /// Notes for readers of the record.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The approval that a held call waits for, or that a forwarded one uses up.
    pub approval_id: Option<ApprovalId>,
    /// The status of a refused call; absent for a forwarded one.
    pub status: Option<Status>,
    /// The error that a refused caller got.
    pub error: Option<Failed>,
}

/// The end of a forwarded call.
#[derive(Debug, Clone, Deserialize)]
pub struct Finished {
    pub id: CallId,
    pub status: Status,
    /// What is known about its effect.
    pub effect: Effect,
    /// From receiving the request to having the answer.
    pub duration_us: u64,
    pub response: Option<Body>,
    pub error: Option<Failed>,
}

/// The end that a later writer gives to a dead writer's call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    pub id: CallId,
    /// The writer that died.
    pub of: WriterId,
}

/// Something that happened to the gateway, or that a person decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub id: CallId,
    /// `server`, `system` or `approval`.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// What happened, for example `upstream.down`.
    pub name: String,
    /// The server it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// One sentence of detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The approver, for a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The approval that was decided about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// The tenant concerned; absent when the event concerns all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}
