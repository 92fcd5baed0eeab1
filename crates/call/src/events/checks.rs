//! What is asked of others and answered to them. Arguments are never among what is told.

use callgate_gate::{ApprovalId, Call, Ruling};
use callgate_record::Decision;

use super::{
    Event, Shown,
    calls::{decided, log_decision, of_call},
};
use crate::Metrics;

/// Somebody asked whether a call may happen, and was answered. Nobody here knows a server or tool of that
/// name, so it is counted under no label.
#[derive(Debug)]
pub struct CheckServed<'a> {
    /// What was asked about.
    pub call: &'a Call,
    /// The scope that was asked.
    pub scope: &'a str,
    /// What was answered.
    pub decision: Decision,
    /// The rule that says it.
    pub ruling: &'a Ruling,
}

impl Event for CheckServed<'_> {
    const NAME: &'static str = "check";

    fn log(&self) {
        tracing::debug!(
            record_id = %self.call.attempt.id,
            scope = self.scope,
            decision = self.decision.as_str(),
            rule = self.ruling.rule,
            "{}", Self::NAME
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.decision(self.decision);
    }

    fn shown(&self) -> Shown<'_> {
        let Call { attempt, target } = self.call;
        Shown {
            scope: Some(self.scope),
            ..decided(Self::NAME, attempt, target, self.decision, self.ruling)
        }
    }
}

/// Somebody asked whether a call may happen, and it needs a person's yes.
#[derive(Debug)]
pub struct CheckNeedsApproval<'a> {
    /// What was asked about.
    pub call: &'a Call,
    /// The rule that asks for a person.
    pub ruling: &'a Ruling,
    /// What is asked for.
    pub approval: &'a ApprovalId,
    /// Where it is given.
    pub url: &'a str,
}

impl Event for CheckNeedsApproval<'_> {
    const NAME: &'static str = "approval_required";

    fn log(&self) {
        let Call { attempt, target } = self.call;
        log_decision(Self::NAME, attempt, target, self.ruling);
    }

    fn shown(&self) -> Shown<'_> {
        let Call { attempt, target } = self.call;
        let decision = Decision::RequireApproval;
        decided(Self::NAME, attempt, target, decision, self.ruling)
            .meta("approval_id", self.approval.as_str())
            .meta("approval_url", self.url)
    }
}

/// Another gateway could not be asked about a call, and what is set for that counts.
#[derive(Debug)]
pub struct FailedToAsk<'a> {
    /// The call.
    pub call: &'a Call,
    /// The rule that counts.
    pub rule: &'a str,
    /// What went wrong.
    pub error: &'a str,
    /// What counts in place of an answer.
    pub decision: Decision,
}

impl Event for FailedToAsk<'_> {
    const NAME: &'static str = "fail_mode";

    fn log(&self) {
        let Call { attempt, target } = self.call;
        tracing::warn!(
            record_id = %attempt.id,
            server = %target.server(),
            tool = &*target.label(),
            rule = self.rule,
            error = self.error,
            "{}", Self::NAME
        );
    }

    fn shown(&self) -> Shown<'_> {
        let Call { attempt, target } = self.call;
        Shown {
            decision: Some(self.decision.as_str()),
            rule: Some(self.rule),
            reason: Some(self.error.to_owned()),
            ..of_call(Self::NAME, attempt, target)
        }
    }
}
