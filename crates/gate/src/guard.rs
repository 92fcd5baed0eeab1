//! Guards: another gateway that decides in place of the rules. Questions, answers, and what counts without an answer.
//!
//! Pure, like everything in this room: messages are built and parsed here ([`message`]) and sent by
//! `crates/upstream`.

pub mod message;

use std::{path::PathBuf, time::Duration};

use crate::{ApprovalId, Check, Digest, Kind};

/// The scope of checks by the gateway itself.
const SCOPE: &str = "gateway";

/// How the guard is queried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardOptions {
    /// Its base URL, without a trailing slash.
    pub url: String,
    /// The token that authenticates this gateway to it.
    pub api_key: Option<String>,
    /// This gateway's tenant at the guard.
    pub tenant: String,
    /// The verdict when the guard cannot be reached.
    pub fail_mode: FailMode,
    /// The deadline of one question.
    pub timeout: Duration,
    /// With [`FailMode::DenyWithAudit`], the file that lists calls the guard could not decide.
    pub audit_file: PathBuf,
}

/// One question to the guard about a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inquiry {
    /// The scope to evaluate.
    pub scope: String,
    /// `server:tool`, a method, or the command that a shell would run.
    pub command: String,
    /// The action on files, where the scope is about files and the tool's name contains a verb.
    pub action: Option<String>,
    /// A path in the arguments, where the scope is about files.
    pub path: Option<String>,
    /// A host in the arguments, where the scope is about the network.
    pub domain: Option<String>,
    /// Whether the question carries the cost. Only the last question of a call does, so cost counts once.
    pub with_cost: bool,
}

/// The guard's answers about a call: one check per question, or the reason why there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardAnswers {
    /// One check per question, in the order of the questions.
    pub checks: Vec<Check>,
    /// The approval that the call needs and its URL at the guard.
    pub approval: Option<(ApprovalId, String)>,
}

/// The verdict when the guard cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailMode {
    /// The call is denied.
    #[default]
    Deny,
    /// The call is allowed.
    Allow,
    /// The call is denied and added to a separate file.
    DenyWithAudit,
}

impl FailMode {
    /// The check of a call that the guard could not decide.
    pub fn check(self, why: &str) -> Check {
        // The rule names the mode, so the record shows that no rule was evaluated.
        let (kind, what) = match self {
            Self::Deny => (Kind::Deny, "fail_closed"),
            Self::Allow => (Kind::Allow, "fail_open"),
            Self::DenyWithAudit => (Kind::Deny, "fail_closed_audit"),
        };
        own(kind, what, &format!("the guard made no decision: {why}"))
    }
}

impl Check {
    /// The check for an answer that cannot be parsed. No fail mode allows it.
    pub fn invalid_response(why: &str) -> Self {
        // Not subject to `fail_mode`: otherwise a broken or hostile guard could turn `allow` into a bypass.
        let why = format!("the guard's response is invalid: {why}");
        own(Kind::Deny, "invalid_response", &why)
    }

    /// The check of a call whose arguments exceed the limits of a query; denied in every mode.
    pub fn too_large_to_ask() -> Self {
        // Not subject to `fail_mode` either: a caller could pad its arguments to skip the guard.
        let why = "the arguments exceed the limits of a guard query";
        own(Kind::Deny, "arguments_too_large", why)
    }

    /// The check of a call by a tenant that this gateway does not have.
    pub(crate) fn unknown_tenant() -> Self {
        own(Kind::Deny, "unknown_tenant", "unknown tenant")
    }

    /// A check from a guard's answer in one scope.
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
