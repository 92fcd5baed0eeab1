//! The entries of the log: one JSON line each, chained by the store.
//!
//! The store adds `hash`, `prev`, `writer`, `seq` and `at` in front; what is here is the rest.

mod chain;
mod origin;
mod raw;
mod record_type;
mod written;

use callgate_gate::{ApprovalId, CallId, Declared, Operation, Transport};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

pub use chain::{Checkpoint, Head, KeyedHead, Opened};
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

/// Everything that can stand in the log.
///
/// It is written with [`Entry::write_json`] and read back with [`Entry::from_json`].
#[derive(Debug, Clone)]
pub enum Entry {
    /// A writer began. Names the heads of all writers it knew.
    Opened(Opened),
    /// A writer ended in good order; nothing of it follows.
    Closed {},
    /// A call was refused before anything was sent, or was an agent's own and never came here.
    Refused(Box<CallEntry>),
    /// A call waits for a person.
    Held(Box<CallEntry>),
    /// Somebody asked whether a call may happen, and was answered. What they do then is not seen here.
    Checked(Box<CallEntry>),
    /// A call is about to be forwarded.
    Forwarding(Box<CallEntry>),
    /// What came of a forwarded call.
    Finished(Box<Finished>),
    /// A forwarded call of a writer that died: what came of it was not seen.
    Unknown(Unknown),
    /// A head of this chain, with a code that only the key's owner can make.
    Head(KeyedHead),
    /// Segments dropped by retention, named before they go.
    Checkpoint(Checkpoint),
    /// Something that happened to the gateway rather than to a call.
    Event(Event),
}

impl Entry {
    /// Reads an entry from a JSON object; members that belong to its line are passed over.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let Tag { kind } = serde_json::from_str(text)?;
        Self::from_json_of(kind, text)
    }

    /// The same for a reader that has seen the kind already.
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

/// What an entry says it is: the names of [`Entry`]'s variants as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// [`Entry::Opened`].
    Opened,
    /// [`Entry::Closed`].
    Closed,
    /// [`Entry::Refused`].
    Refused,
    /// [`Entry::Held`].
    Held,
    /// [`Entry::Checked`].
    Checked,
    /// [`Entry::Forwarding`].
    Forwarding,
    /// [`Entry::Finished`].
    Finished,
    /// [`Entry::Unknown`].
    Unknown,
    /// [`Entry::Head`].
    Head,
    /// [`Entry::Checkpoint`].
    Checkpoint,
    /// [`Entry::Event`].
    Event,
}

/// What policy said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Decision {
    /// It may go.
    Allow,
    /// It may not.
    Deny,
    /// A person has to say.
    RequireApproval,
}

impl Decision {
    /// As it is written in an entry.
    pub(crate) fn written(self) -> &'static str {
        match self {
            Self::Allow => "ALLOW",
            Self::Deny => "DENY",
            Self::RequireApproval => "REQUIRE_APPROVAL",
        }
    }

    /// As it is told elsewhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::RequireApproval => "require_approval",
        }
    }
}

/// How a call stands.
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
    /// Held.
    Pending,
    /// Sent, outcome not seen.
    Unknown,
    /// Cancelled before it was sent; it had no effect.
    Cancelled,
    /// An agent's own tool: seen, and not gated.
    Bypassed,
}

impl Status {
    /// As it is written.
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
    /// As it is written.
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
    /// What it said.
    pub decision: Decision,
    /// The rule that said it.
    pub rule: String,
    /// What is done to files, where the scope is about them and the tool's name says it.
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

/// What the call was said, or taken, to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// `read`, `write` or `destructive`; of a refused call what it said, and nothing where it said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_type: Option<String>,
    /// How private its data are, as it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_sensitivity: Option<String>,
    /// Why it was made, as it said; redacted.
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
    pub(crate) fn declared(declared: &Declared) -> Self {
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
    /// How long the whole was.
    pub bytes: u64,
    /// BLAKE3 of the whole, as it was forwarded: SHA-256 would cost more than all else that is done.
    pub blake3: String,
    /// The JSON value, when it fitted.
    pub value: Option<RawJson>,
    /// The beginning of the text, when the whole did not fit or is no JSON any more.
    pub text: Option<String>,
    /// Whether something was blotted out.
    #[serde(default)]
    pub redacted: bool,
}

/// An error as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The JSON-RPC code, or 0 where there was none.
    pub code: i64,
    /// The message, redacted and capped.
    pub message: String,
}

/// A call that was received, whatever became of it.
#[derive(Debug, Clone, Deserialize)]
pub struct CallEntry {
    /// The call's id, which is its record's id.
    pub id: CallId,
    /// What kind of request.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Which kind of caller, or which local pack of a script.
    pub source: Origin,
    /// Over what it came.
    pub transport: Transport,
    /// The tenant it belongs to.
    pub tenant: String,
    /// What authenticated it.
    pub principal: String,
    /// What the caller is called.
    pub agent: String,
    /// `clientInfo` of the host, as it came.
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
    /// What policy said, when it was asked.
    pub decision: Option<Decision>,
    /// The rule that said it.
    pub rule: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Every check that was made.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// What the call was taken to do.
    pub intent: Option<Intent>,
    /// The `call_tool_*` variant that it came through.
    pub tool_variant: Option<String>,
    /// What a reader of the record should know about the call.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The approval that a held call waits for, or that a forwarded one uses up.
    pub approval_id: Option<ApprovalId>,
    /// How a refused call stands; absent while it is forwarded.
    pub status: Option<Status>,
    /// What a refused caller was told.
    pub error: Option<Failed>,
}

/// What came of a forwarded call.
#[derive(Debug, Clone, Deserialize)]
pub struct Finished {
    /// The call.
    pub id: CallId,
    /// How it ended.
    pub status: Status,
    /// What is known about its effect.
    pub effect: Effect,
    /// From receiving the request to having the answer.
    pub duration_us: u64,
    /// The answer.
    pub response: Option<Body>,
    /// What went wrong.
    pub error: Option<Failed>,
}

/// The end that a later writer gives to a dead writer's call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// The call.
    pub id: CallId,
    /// The writer that died.
    pub of: WriterId,
}

/// Something that happened to the gateway, or that a person decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The record's id.
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
    /// The token of whoever decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// What was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The approval that was decided about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// The tenant that it is about; absent where it is no tenant's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}
