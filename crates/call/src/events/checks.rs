//! Events of checks, answered and asked. None has arguments.

use callgate_gate::{ApprovalId, Call, Ruling};
use callgate_record::Decision;

use super::{
    Event, EventFields,
    calls::{decided, log_decision, of_call},
};
use crate::Metrics;

/// A check was answered. Its server and tool are names from outside, so they are not metric labels.
#[derive(Debug)]
pub struct CheckServed<'a> {
    pub call: &'a Call,
    /// The scope of the question.
    pub scope: &'a str,
    pub decision: Decision,
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

    fn fields(&self) -> EventFields<'_> {
        let Call { attempt, target } = self.call;
        EventFields {
            scope: Some(self.scope),
            ..decided(Self::NAME, attempt, target, self.decision, self.ruling)
        }
    }
}

/// A checked call needs approval.
#[derive(Debug)]
pub struct CheckNeedsApproval<'a> {
    pub call: &'a Call,
    /// The rule that requires approval.
    pub ruling: &'a Ruling,
    pub approval: &'a ApprovalId,
    /// The page where it is decided.
    pub url: &'a str,
}

impl Event for CheckNeedsApproval<'_> {
    const NAME: &'static str = "approval_required";

    fn log(&self) {
        let Call { attempt, target } = self.call;
        log_decision(Self::NAME, attempt, target, self.ruling);
    }

    fn fields(&self) -> EventFields<'_> {
        let Call { attempt, target } = self.call;
        let decision = Decision::RequireApproval;
        decided(Self::NAME, attempt, target, decision, self.ruling)
            .meta("approval_id", self.approval.as_str())
            .meta("approval_url", self.url)
    }
}

/// The guard could not be asked about a call, and its failure mode decided.
#[derive(Debug)]
pub struct GuardUnavailable<'a> {
    pub call: &'a Call,
    pub rule: &'a str,
    pub error: &'a str,
    /// The decision of the failure mode.
    pub decision: Decision,
}

impl Event for GuardUnavailable<'_> {
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

    fn fields(&self) -> EventFields<'_> {
        let Call { attempt, target } = self.call;
        EventFields {
            decision: Some(self.decision.as_str()),
            rule: Some(self.rule),
            reason: Some(self.error.to_owned()),
            ..of_call(Self::NAME, attempt, target)
        }
    }
}
