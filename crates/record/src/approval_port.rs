//! Approvals as stored, and the port of the store that keeps them.
//!
//! An approval is pending until a person decides or it expires. An approved call runs once: only a call with
//! the same binding can use the approval. Use has two steps: the store reserves the approval for one call of
//! one writer (a *claim*), and the log entry "about to forward" that names it uses it up. When a writer dies
//! between the steps, the next reader settles the claim from the writer's log.

use callgate_gate::{ApprovalId, CallId, Digest};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Check;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalStatus {
    /// Waiting for a decision.
    Pending,
    /// Approved, and not used by a call yet.
    Approved,
    Denied,
    /// The deadline passed before a decision, or before a call used the approval.
    Expired,
    /// A call has used it.
    Used,
}

impl ApprovalStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Used => "used",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The call may happen, once.
    Approve,
    Deny,
}

impl Answer {
    /// The status of an approval after this answer.
    pub fn status(self) -> ApprovalStatus {
        match self {
            Self::Approve => ApprovalStatus::Approved,
            Self::Deny => ApprovalStatus::Denied,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionChannel {
    Page,
    /// A command on this machine.
    Cli,
    Api,
}

impl DecisionChannel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Cli => "cli",
            Self::Api => "api",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approver {
    /// The token that authenticated them.
    pub principal: String,
    /// The local user. Only set by the command line, where all users share one principal.
    pub person: Option<String>,
    /// The only tenant that the approver decides for; all tenants when absent.
    pub tenant: Option<String>,
    pub way: DecisionChannel,
}

impl Approver {
    /// The approver's name in the record.
    pub fn name(&self) -> String {
        match &self.person {
            Some(person) => format!("{} ({person})", self.principal),
            None => self.principal.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    pub answer: Answer,
    /// The approver's name, see [`Approver::name`].
    pub by: String,
    pub way: DecisionChannel,
    pub at: Timestamp,
    /// The decision expires at this time.
    pub valid_until: Timestamp,
    pub record_id: CallId,
}

/// A held call as it will run, complete and unredacted. It is stored sealed, until the decision or its expiry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsealedCall {
    /// The tool, or the method of another request.
    pub tool: String,
    /// The arguments as JSON text.
    pub arguments: String,
    /// The request's other parameters, as a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<String>,
}

/// How much of a held call an approval shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallVisibility {
    /// The call that will run, with nothing replaced.
    Whole,
    /// The excerpt that stays after the decision or the expiry: the beginning, without secrets.
    Redacted,
    /// The call waits, and its sealed arguments were not opened, or cannot be. It can only be denied.
    Unreadable,
}

/// The question for a person: the call, redacted and cut as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldCallExcerpt {
    /// The first call that asked; its record has the details.
    pub record_id: CallId,
    pub tenant: String,
    /// What authenticated the caller.
    pub principal: String,
    /// The name that the caller gives itself.
    pub agent: String,
    pub session_id: String,
    /// The server that would be called.
    pub server: String,
    /// The tool, or the method of another request.
    pub tool: String,
    /// The beginning of the arguments as JSON text, without secrets.
    pub arguments: String,
    /// How long the whole arguments are.
    pub arguments_bytes: u64,
    /// Whether `arguments` is all of them, apart from secrets.
    pub arguments_whole: bool,
    /// The beginning of the request's other parameters, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<String>,
    /// SHA-256 of the tool's definition, where there is one.
    pub definition: Option<String>,
    pub rule: String,
    pub reason: String,
    /// Every scope that was asked.
    pub checks: Vec<Check>,
    /// Warnings about the tool's definition, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

impl HeldCallExcerpt {
    /// Puts the whole call in place of what is kept of it.
    pub fn reveal(&mut self, whole: UnsealedCall) {
        // The tool's name as well: names are redacted in the excerpt, because a URI can hold a password.
        self.tool = whole.tool;
        self.arguments = whole.arguments;
        self.others = whole.others;
        self.arguments_whole = true;
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub id: ApprovalId,
    pub status: ApprovalStatus,
    #[serde(flatten)]
    pub asking: HeldCallExcerpt,
    /// How much of the call `asking` and `also` show.
    pub sight: CallVisibility,
    /// The further questions that the decision covers: a gateway asks about one call in several scopes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<HeldCallExcerpt>,
    pub asked_at: Timestamp,
    /// The deadline for a decision.
    pub expires_at: Timestamp,
    pub resolution: Option<Resolution>,
    /// The call that used it.
    pub used_by: Option<CallId>,
}

/// One question as the store keeps it.
#[derive(Debug, Clone)]
pub struct StoredQuestion {
    pub asking: HeldCallExcerpt,
    /// The digest of the exact call that the answer is valid for, as text.
    pub binding: String,
    /// The sealed [`UnsealedCall`], until it is erased.
    pub sealed: Option<Vec<u8>>,
}

/// A question, with its binding and its deadlines.
#[derive(Debug, Clone)]
pub struct Question {
    pub asking: HeldCallExcerpt,
    /// The sealed [`UnsealedCall`]. The first [`SEAL_MARK_BYTES`] identify the key.
    pub sealed: Vec<u8>,
    /// Whether it may join the pending approval that it names, as a further question of the same decision.
    pub joins: bool,
    /// The digest of the exact call that the answer is valid for.
    pub binding: Digest,
    /// The approval that the caller names, if it names one.
    pub named: Option<ApprovalId>,
    /// The time for a decision.
    pub expire_after: jiff::SignedDuration,
    /// How long a decision counts.
    pub valid_for: jiff::SignedDuration,
}

/// The first bytes of a sealed call; they identify the key that sealed it.
pub const SEAL_MARK_BYTES: usize = 8;

/// An approval that is reserved for one call, which must use it or give it back.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The id to use or give back: the approval, or the further question that the call asked.
    pub id: ApprovalId,
    /// The approval that was granted.
    pub approval: ApprovalId,
}

#[derive(Debug, Clone)]
pub enum AskOutcome {
    /// The call is approved, and the approval is reserved for it.
    Claimed(Claim),
    /// Waiting for a decision.
    Pending {
        /// The approval to wait for.
        approval: Box<Approval>,
        /// Whether this question was the first.
        is_new: bool,
    },
    Denied(Box<Approval>),
    /// The caller reached its limit of open questions.
    TooMany {
        limit: usize,
    },
}

/// A filter for approvals; an absent field matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    pub status: Option<ApprovalStatus>,
    pub tenant: Option<String>,
}

impl ApprovalFilter {
    /// Undecided approvals of all tenants.
    pub fn pending() -> Self {
        Self {
            status: Some(ApprovalStatus::Pending),
            tenant: None,
        }
    }

    /// Whether an approval matches.
    pub fn includes(&self, approval: &Approval) -> bool {
        self.status.is_none_or(|status| approval.status == status)
            && self.has_tenant(&approval.asking.tenant)
    }

    /// Whether approvals of this tenant match.
    pub fn has_tenant(&self, tenant: &str) -> bool {
        self.tenant.as_ref().is_none_or(|wanted| wanted == tenant)
    }
}

#[derive(Debug, Clone)]
pub struct Resolved {
    /// The approval as it is now.
    pub approval: Approval,
    /// Whether this decision was the first; repeating it changes nothing.
    pub is_new: bool,
}

impl CallVisibility {
    /// What a backend shows of an approval; it does not open sealed calls.
    pub fn unopened(status: ApprovalStatus) -> Self {
        // Backends never see the key: the gateway seals a call before it stores it, and opens it for the approver.
        match status {
            ApprovalStatus::Pending => Self::Unreadable,
            ApprovalStatus::Approved
            | ApprovalStatus::Denied
            | ApprovalStatus::Expired
            | ApprovalStatus::Used => Self::Redacted,
        }
    }
}

impl Approval {
    /// Whether a decision is valid and new, by the same rules in every backend. `false` for a repeated decision.
    pub fn is_new_decision(
        &self,
        answer: Answer,
        by: &Approver,
    ) -> Result<bool, ResolveApprovalError> {
        let tenant = &self.asking.tenant;
        // `Unknown`, as for an id that does not exist: an approver must not learn which approvals other
        // tenants have.
        if by.tenant.as_ref().is_some_and(|own| own != tenant) {
            return Err(ResolveApprovalError::Unknown);
        }
        // Before the state is looked at: a caller that could approve its own calls would make every hold pointless.
        if self.asking.principal == by.principal {
            return Err(ResolveApprovalError::OwnCall);
        }
        match &self.resolution {
            // Not an error: two approvers may decide the same way at once, and a client may repeat a request.
            Some(known) if known.answer == answer => Ok(false),
            Some(known) => Err(ResolveApprovalError::Settled(known.answer.status())),
            None if self.status != ApprovalStatus::Pending => {
                Err(ResolveApprovalError::Settled(self.status))
            }
            None => Ok(true),
        }
    }
}

/// Why a decision was refused.
#[derive(Debug, thiserror::Error)]
pub enum ResolveApprovalError {
    /// No approval has this id, or it belongs to another tenant.
    #[error("no such approval")]
    Unknown,
    /// The opposite was decided before, or the approval expired.
    #[error("already {}", .0.as_str())]
    Settled(ApprovalStatus),
    /// The approver's token made the call.
    #[error("the token that made this call cannot approve or deny it: use another token")]
    OwnCall,
    /// The arguments cannot be shown, so an approver cannot have seen them.
    #[error(
        "cannot approve a call whose arguments cannot be shown: `seal.key` in the data folder changed since the call was held; deny it, or have the agent make the call again"
    )]
    Unseen,
    #[error(transparent)]
    Store(#[from] ApprovalsError),
}

/// Why approvals cannot be read or kept. The message is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("could not read or write approvals: {reason}")]
pub struct ApprovalsError {
    /// The path or place, and the system's error.
    pub reason: String,
}

/// Stores approvals for all processes of a backend. A change is as durable as the backend when its method
/// returns. All methods block.
pub trait Approvals: Send + Sync + std::fmt::Debug {
    /// Whether a method can take so long that a task must not call it on its own thread.
    fn blocks(&self) -> bool {
        true
    }

    /// Looks for a decision about exactly this call, or asks for one. An approval is reserved for `call`.
    // Lookup and claim are one method: between two, another call could take the same approval.
    fn ask(
        &self,
        question: &Question,
        call: CallId,
        now: Timestamp,
    ) -> Result<AskOutcome, ApprovalsError>;

    /// Marks a claimed approval as used.
    // Called after the log has the entry: that entry is the use, and a claim that a crash leaves behind is
    // settled from it.
    fn used(&self, id: &ApprovalId) -> Result<(), ApprovalsError>;

    /// Ends the claim of a call that did not run: the approval can be used again.
    fn give_back(&self, id: &ApprovalId) -> Result<(), ApprovalsError>;

    fn resolve(
        &self,
        id: &ApprovalId,
        answer: Answer,
        by: &Approver,
        now: Timestamp,
    ) -> Result<Resolved, ResolveApprovalError>;

    /// One approval, without opening its sealed call.
    fn get(&self, id: &ApprovalId, now: Timestamp) -> Result<Option<Approval>, ApprovalsError>;

    /// The questions that an approval covers, the first one first. `to_a_person` states that an approver is about
    /// to see them.
    // After that no further question joins: an approver must not approve something that was added afterwards.
    fn questions(
        &self,
        id: &ApprovalId,
        to_a_person: bool,
    ) -> Result<Vec<StoredQuestion>, ApprovalsError>;

    /// Erases expired sealed calls. A decision erases the others.
    fn erase(&self, now: Timestamp) -> Result<(), ApprovalsError>;

    /// The approvals that match, newest first; at most `limit`.
    fn list(
        &self,
        which: &ApprovalFilter,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Approval>, ApprovalsError>;

    /// The number of undecided approvals.
    fn pending(&self, now: Timestamp) -> Result<usize, ApprovalsError>;

    /// The approvals that any process asked for, decided or used after `mark`, and the current mark; without
    /// `mark`, only the current one. Cheap when nothing changed.
    fn changes(
        &self,
        mark: Option<u64>,
        now: Timestamp,
    ) -> Result<(u64, Vec<Approval>), ApprovalsError>;

    /// Decisions made before `before` that may not be on record yet.
    // The store settles which decision came first, so a decision is stored before it is logged. A gateway that
    // dies in between leaves it here for the next one.
    fn unrecorded(&self, before: Timestamp) -> Result<Vec<Approval>, ApprovalsError>;

    /// Notes that a decision is on record.
    fn recorded(&self, id: &ApprovalId) -> Result<(), ApprovalsError>;

    /// Reserves the announcement of a pending approval for this process; `false` when it was announced, or
    /// another running process will announce it.
    // All processes follow the same approvals; without this, each would notify the approvers.
    fn announce(&self, id: &ApprovalId) -> Result<bool, ApprovalsError>;
}
