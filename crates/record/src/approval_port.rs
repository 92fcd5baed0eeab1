//! Approvals as they are kept, and the port of whoever keeps them.
//!
//! An approval is pending until a person decides or its time is over. A yes can be taken once, by a
//! call with the same binding. Taking it has two halves: the store sets it aside for one call of one
//! writer (a *claim*), and the log entry "about to forward" that names it uses it up. When a writer
//! dies between the two, whoever looks next finds out from its log which of them it was.

use callgate_gate::{ApprovalId, CallId, Digest};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Check;

/// How an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalStatus {
    /// Nobody has decided yet.
    Pending,
    /// A person said yes, and no call has used it yet.
    Approved,
    /// A person said no.
    Denied,
    /// Its time is over: nobody decided, or nobody used the yes.
    Expired,
    /// A call has used it.
    Used,
}

impl ApprovalStatus {
    /// As it is written.
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

/// What a person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The call may happen, once.
    Approve,
    /// It may not.
    Deny,
}

impl Answer {
    /// How an approval stands once this was said.
    pub fn status(self) -> ApprovalStatus {
        match self {
            Self::Approve => ApprovalStatus::Approved,
            Self::Deny => ApprovalStatus::Denied,
        }
    }
}

/// How a person said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// On the page.
    Page,
    /// With a command on this machine.
    Cli,
    /// Over the API.
    Api,
}

impl Way {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Cli => "cli",
            Self::Api => "api",
        }
    }
}

/// Who decides, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approver {
    /// The token that authenticated them.
    pub principal: String,
    /// Who that is on this machine, where the token does not say.
    pub person: Option<String>,
    /// The only tenant that they decide for; all, where there is none.
    pub tenant: Option<String>,
    /// How they say it.
    pub way: Way,
}

impl Approver {
    /// What they are called in the record.
    pub fn name(&self) -> String {
        match &self.person {
            Some(person) => format!("{} ({person})", self.principal),
            None => self.principal.clone(),
        }
    }
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// What was said.
    pub answer: Answer,
    /// Whoever said it: their token, and who that is where the token does not say.
    pub by: String,
    /// How.
    pub way: Way,
    /// When.
    pub at: Timestamp,
    /// Until when it counts.
    pub valid_until: Timestamp,
    /// The id of its record.
    pub record_id: CallId,
}

/// A held call as it will run, with nothing left out. It is kept sealed, until the decision or the end of its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whole {
    /// The tool, or the method of another request.
    pub tool: String,
    /// The arguments as JSON text.
    pub arguments: String,
    /// What the request says beside its arguments, as a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<String>,
}

/// How much of a held call an approval shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sight {
    /// The call that will run, with nothing replaced.
    Whole,
    /// What is kept after the decision or the end of its time: the beginning, without secrets.
    Redacted,
    /// The call waits, and its sealed arguments were not opened or cannot be. It cannot be approved like that.
    Unreadable,
}

/// What is asked of a person: the call as far as it may be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asking {
    /// The call that asks first; its record tells the rest.
    pub record_id: CallId,
    /// The tenant of the caller.
    pub tenant: String,
    /// What authenticated the caller.
    pub principal: String,
    /// What the caller is called.
    pub agent: String,
    /// The session it asks in.
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
    /// What the request says beside its arguments, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<String>,
    /// SHA-256 of the tool's definition, where there is one.
    pub definition: Option<String>,
    /// The rule that asks.
    pub rule: String,
    /// Why.
    pub reason: String,
    /// Every scope that was asked.
    pub checks: Vec<Check>,
    /// What is odd about the tool's definition, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

impl Asking {
    /// Puts the whole call in place of what is kept of it.
    pub fn reveal(&mut self, whole: Whole) {
        self.tool = whole.tool;
        self.arguments = whole.arguments;
        self.others = whole.others;
        self.arguments_whole = true;
    }
}

/// An approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// How it stands.
    pub status: ApprovalStatus,
    /// What is asked.
    #[serde(flatten)]
    pub asking: Asking,
    /// How much of the call `asking` and `also` show.
    pub sight: Sight,
    /// The further questions that the decision covers: a gateway asks about one call in several scopes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Asking>,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// Until when somebody may decide.
    pub expires_at: Timestamp,
    /// What was decided.
    pub resolution: Option<Resolution>,
    /// The call that used it.
    pub used_by: Option<CallId>,
}

/// What a store keeps of one question for the approver.
#[derive(Debug, Clone)]
pub struct Kept {
    /// What may stay.
    pub asking: Asking,
    /// What the answer holds for, as it is written.
    pub binding: String,
    /// The sealed [`Whole`], until it is erased.
    pub sealed: Option<Vec<u8>>,
}

/// A question, with what it is bound to and how long it stands.
#[derive(Debug, Clone)]
pub struct Question {
    /// What a person is asked.
    pub asking: Asking,
    /// The sealed [`Whole`]. The first [`SEAL_MARK_BYTES`] say which key it was sealed with.
    pub sealed: Vec<u8>,
    /// Whether it may be put under the pending approval that it names, as a further question of the same decision.
    pub joins: bool,
    /// What the answer holds for.
    pub binding: Digest,
    /// The approval that the caller names, if it names one.
    pub named: Option<ApprovalId>,
    /// How long somebody may decide.
    pub expire_after: jiff::SignedDuration,
    /// How long a decision counts.
    pub valid_for: jiff::SignedDuration,
}

/// How many bytes of a sealed call say which key it was sealed with.
pub const SEAL_MARK_BYTES: usize = 8;

/// A yes that is set aside for one call, which must use it or give it back.
#[derive(Debug, Clone)]
pub struct Claim {
    /// What is used or given back: the approval, or the further question of it that was asked.
    pub id: ApprovalId,
    /// The approval that says yes.
    pub approval: ApprovalId,
}

/// What became of a question.
#[derive(Debug, Clone)]
pub enum Asked {
    /// There was a yes, and it is set aside.
    Claimed(Claim),
    /// Nobody has decided yet.
    Pending {
        /// The approval to wait for.
        approval: Box<Approval>,
        /// Whether this question was the first.
        is_new: bool,
    },
    /// There is a no.
    Denied(Box<Approval>),
    /// This caller has so many open questions that it may not ask another one.
    TooMany {
        /// How many it may have.
        limit: usize,
    },
}

/// Which approvals are looked for; what is left out does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Which {
    /// Those that stand so.
    pub status: Option<ApprovalStatus>,
    /// Those of a tenant.
    pub tenant: Option<String>,
}

impl Which {
    /// Those that nobody has decided about.
    pub fn pending() -> Self {
        Self {
            status: Some(ApprovalStatus::Pending),
            tenant: None,
        }
    }

    /// Whether an approval is one of them.
    pub fn includes(&self, approval: &Approval) -> bool {
        self.status.is_none_or(|status| approval.status == status)
            && self.has_tenant(&approval.asking.tenant)
    }

    /// Whether they may be this tenant's.
    pub fn has_tenant(&self, tenant: &str) -> bool {
        self.tenant.as_ref().is_none_or(|wanted| wanted == tenant)
    }
}

/// What became of a decision.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The approval as it is now.
    pub approval: Approval,
    /// Whether this decision was the first; the same one again changes nothing.
    pub is_new: bool,
}

impl Sight {
    /// What a backend shows of an approval: it opens no sealed call.
    pub fn unopened(status: ApprovalStatus) -> Self {
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
    /// Whether a decision about it counts, in every backend. `false` when the same was decided before.
    pub fn is_new_decision(
        &self,
        answer: Answer,
        by: &Approver,
    ) -> Result<bool, ResolveApprovalError> {
        let tenant = &self.asking.tenant;
        if by.tenant.as_ref().is_some_and(|own| own != tenant) {
            return Err(ResolveApprovalError::Unknown);
        }
        if self.asking.principal == by.principal {
            return Err(ResolveApprovalError::OwnCall);
        }
        match &self.resolution {
            Some(known) if known.answer == answer => Ok(false),
            Some(known) => Err(ResolveApprovalError::Settled(known.answer.status())),
            None if self.status != ApprovalStatus::Pending => {
                Err(ResolveApprovalError::Settled(self.status))
            }
            None => Ok(true),
        }
    }
}

/// Why a decision does not count.
#[derive(Debug, thiserror::Error)]
pub enum ResolveApprovalError {
    /// There is none of that id.
    #[error("there is no such approval")]
    Unknown,
    /// It was decided otherwise, or its time is over.
    #[error("it is {} already", .0.as_str())]
    Settled(ApprovalStatus),
    /// Whoever asked cannot answer.
    #[error("the token that made the call cannot decide about it")]
    OwnCall,
    /// The arguments cannot be shown, so nobody can have seen what they approve.
    #[error(
        "its arguments cannot be read, so it cannot be approved: the key `seal.key` of the data folder changed; deny it, or have the agent make the call again"
    )]
    Unseen,
    /// It cannot be kept.
    #[error(transparent)]
    Store(#[from] ApprovalsError),
}

/// Why approvals cannot be read or kept. The message is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("approvals cannot be kept: {reason}")]
pub struct ApprovalsError {
    /// What went wrong, with the place and the system's own words.
    pub reason: String,
}

/// Keeps approvals, for all processes of a backend at once. Every function is as durable as its answer:
/// where the backend outlives this process, so does what it says. Its methods block.
pub trait Approvals: Send + Sync + std::fmt::Debug {
    /// Looks for a decision about exactly this call, or asks for one. A yes is set aside for `call`.
    fn ask(
        &self,
        question: &Question,
        call: CallId,
        now: Timestamp,
    ) -> Result<Asked, ApprovalsError>;

    /// The log has the entry that uses a claimed approval up.
    fn used(&self, id: &ApprovalId) -> Result<(), ApprovalsError>;

    /// The call that claimed it did not happen: it can be used again.
    fn give_back(&self, id: &ApprovalId) -> Result<(), ApprovalsError>;

    /// Takes a person's decision.
    fn resolve(
        &self,
        id: &ApprovalId,
        answer: Answer,
        by: &Approver,
        now: Timestamp,
    ) -> Result<Resolved, ResolveApprovalError>;

    /// One approval, as far as it may be kept.
    fn get(&self, id: &ApprovalId, now: Timestamp) -> Result<Option<Approval>, ApprovalsError>;

    /// The questions that an approval covers, the first one first. With `to_a_person` they are about to be shown to
    /// somebody who may decide: no further question is put under the approval from then on.
    fn kept(&self, id: &ApprovalId, to_a_person: bool) -> Result<Vec<Kept>, ApprovalsError>;

    /// Erases the sealed calls whose time is over. Those that are decided are erased by the decision.
    fn erase(&self, now: Timestamp) -> Result<(), ApprovalsError>;

    /// The approvals that are looked for, newest first; at most `limit`.
    fn list(
        &self,
        which: &Which,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Approval>, ApprovalsError>;

    /// How many nobody has decided about.
    fn pending(&self, now: Timestamp) -> Result<usize, ApprovalsError>;

    /// What was asked, decided or used behind `mark`, by any process, and the mark of now; without a
    /// mark only that. Cheap when there is nothing new.
    fn changes(
        &self,
        mark: Option<u64>,
        now: Timestamp,
    ) -> Result<(u64, Vec<Approval>), ApprovalsError>;

    /// Decisions that are not known to be on record, made before `before`.
    fn unrecorded(&self, before: Timestamp) -> Result<Vec<Approval>, ApprovalsError>;

    /// A decision is on record.
    fn recorded(&self, id: &ApprovalId) -> Result<(), ApprovalsError>;

    /// Sets a pending approval aside to be announced by this process; `false` when it has been, or
    /// another process will.
    fn announce(&self, id: &ApprovalId) -> Result<bool, ApprovalsError>;
}
