//! Asking another gateway in place of rules: what is asked about a call, what was answered, and what counts
//! when there is no answer.
//!
//! Pure, like everything in this room: the messages are made and read here ([`message`]), and who sends
//! them is somebody else's business.

pub mod message;

use std::{path::PathBuf, time::Duration};

use crate::{ApprovalId, Check, Digest, Kind};

/// The scope under which the gateway itself speaks.
const SCOPE: &str = "gateway";

/// How another gateway is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardOptions {
    /// Where it is, without a slash at its end.
    pub url: String,
    /// What it knows this gateway by.
    pub api_key: Option<String>,
    /// The tenant over there.
    pub tenant: String,
    /// What counts when it cannot be asked.
    pub fail_mode: FailMode,
    /// How long one question may take.
    pub timeout: Duration,
    /// The file that calls are written to which could not be asked about, where the mode wants one.
    pub audit_file: PathBuf,
}

/// One question to another gateway about a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inquiry {
    /// The scope that is asked.
    pub scope: String,
    /// `server:tool`, a method, or the command that a shell would run.
    pub command: String,
    /// What is done to files, where the scope is about them and the tool's name says it.
    pub action: Option<String>,
    /// A path in the arguments, where the scope is about files.
    pub path: Option<String>,
    /// A host in the arguments, where the scope is about the network.
    pub domain: Option<String>,
    /// Whether it says what the call costs: the last of several does, as cost is judged last.
    pub with_cost: bool,
}

/// What another gateway said to a call: one check per question, or why there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guarded {
    /// What was said, in the order of the questions.
    pub checks: Vec<Check>,
    /// The approval that the call needs, and where it is given: over there.
    pub approval: Option<(ApprovalId, String)>,
}

/// What counts when another gateway cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailMode {
    /// No.
    #[default]
    Deny,
    /// Yes.
    Allow,
    /// No, and it is also written to a file of its own.
    DenyWithAudit,
}

impl FailMode {
    /// What is said to a call about which nobody could be asked.
    pub fn check(self, why: &str) -> Check {
        let (kind, what) = match self {
            Self::Deny => (Kind::Deny, "fail_closed"),
            Self::Allow => (Kind::Allow, "fail_open"),
            Self::DenyWithAudit => (Kind::Deny, "fail_closed_audit"),
        };
        own(kind, what, &format!("the guard could not be asked: {why}"))
    }
}

impl Check {
    /// What is said to a call when the answer about it is not understood; no mode makes that a yes.
    pub fn invalid_response(why: &str) -> Self {
        let why = format!("the guard's answer is not understood: {why}");
        own(Kind::Deny, "invalid_response", &why)
    }

    /// What is said to a call whose arguments are too large to be asked about, in every mode.
    pub fn too_large_to_ask() -> Self {
        let why = "the arguments are too large to ask the guard about";
        own(Kind::Deny, "arguments_too_large", why)
    }

    /// What is said to a call of a tenant that this gateway does not have.
    pub(crate) fn unknown_tenant() -> Self {
        own(Kind::Deny, "unknown_tenant", "there is no such tenant")
    }

    /// What a guard said in a scope.
    pub fn of_guard(scope: &str, kind: Kind, rule: &str, reason: &str) -> Self {
        Self {
            scope: scope.to_owned(),
            kind,
            rule: rule.to_owned(),
            reason: reason.to_owned(),
            hash: Digest::of(rule.as_bytes()),
            judged: None,
        }
    }
}

fn own(kind: Kind, what: &str, reason: &str) -> Check {
    let rule = format!("{}:{SCOPE}:{what}", kind.as_str());
    Check::of_guard(SCOPE, kind, &rule, reason)
}
