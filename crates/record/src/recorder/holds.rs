//! Held calls on record: the question, the wait, and the decision.

use callgate_gate::{ApprovalId, BoundRequest, Call, Denied, Digest, Hold, Ruling, Target};

use super::{NotRecorded, Recorder, name};
use crate::{
    Answer, Approval, Decision, Entry, Event, Failed, HeldCallExcerpt, RecordType, Status,
};

impl Recorder {
    /// Records a call that needs approval: one that waits, or one that ends here and may be repeated.
    pub async fn held(
        &self,
        hold: &Hold,
        approval: Option<&ApprovalId>,
        status: Status,
    ) -> Result<(), NotRecorded> {
        let mut entry = self.decided(hold.call(), hold.ruling(), Decision::RequireApproval);
        entry.approval_id = approval.cloned();
        entry.status = Some(status);
        // Refused when it cannot be written, as for a forward: without a record no question and no call.
        Ok(self.take(&Entry::Held(entry)).await?)
    }

    /// Records the end of a call that waited for a decision and got none.
    pub fn ended_undecided(&self, hold: &Hold, approval: &ApprovalId, error: Failed) {
        let mut entry = self.decided(hold.call(), hold.ruling(), Decision::RequireApproval);
        entry.approval_id = Some(approval.clone());
        entry.status = Some(Status::Rejected);
        entry.error = Some(self.redacted(error));
        self.refuse(entry);
    }

    /// Records a call that was cancelled before it was sent, with the policy's decision and the approval that it
    /// waited for.
    pub fn cancelled(
        &self,
        call: &Call,
        ruling: &Ruling,
        decision: Decision,
        approval: Option<&ApprovalId>,
    ) {
        let mut entry = self.decided(call, ruling, decision);
        entry.approval_id = approval.cloned();
        entry.status = Some(Status::Cancelled);
        entry.error = Some(Failed {
            code: 0,
            message: "cancelled by the host before it was sent".to_owned(),
        });
        self.refuse(entry);
    }

    /// Records the answer to a client that asked whether a call is allowed.
    // Like "about to forward", this entry uses up the approval that the answer rests on: the gateway never sees the
    // call itself.
    pub async fn checked(
        &self,
        call: &Call,
        ruling: &Ruling,
        decision: Decision,
        approval: Option<&ApprovalId>,
    ) -> Result<(), NotRecorded> {
        let mut entry = self.decided(call, ruling, decision);
        entry.record_type = RecordType::Check;
        entry.approval_id = approval.cloned();
        entry.status = Some(match decision {
            Decision::Allow => Status::Success,
            Decision::Deny | Decision::RequireApproval => Status::Blocked,
        });
        Ok(self.take(&Entry::Checked(entry)).await?)
    }

    /// The question about a held call as stored: cut and redacted like every body on record.
    pub fn asking(&self, call: &Call, request: &BoundRequest, ruling: &Ruling) -> HeldCallExcerpt {
        let Call { attempt, target } = call;
        let identity = &attempt.host.identity;
        let definition = match target {
            Target::Tool(tool) => Some(Digest::of(&tool.descriptor)),
            Target::Prompt(_)
            | Target::Resource(_)
            | Target::Completion(_)
            | Target::Method { .. } => None,
        };
        let kept = |text: &str| self.redactor.excerpt(text.as_bytes());
        let arguments = kept(&request.arguments);
        // An excerpt is for lists and the record; an approver is shown the sealed call, whole.
        HeldCallExcerpt {
            record_id: attempt.id,
            tenant: identity.tenant.clone(),
            principal: identity.principal.clone(),
            agent: name(&identity.agent),
            session_id: identity.session.clone(),
            server: target.server().to_string(),
            tool: name(&self.redactor.text(target.name())),
            arguments: arguments.text,
            arguments_bytes: request.arguments.len() as u64,
            arguments_whole: arguments.whole,
            others: request.others.as_deref().map(|others| kept(others).text),
            definition: definition.map(|digest| digest.to_string()),
            rule: ruling.rule.clone(),
            reason: ruling.reason.clone(),
            checks: self.checks(ruling),
            flags: Vec::new(),
        }
    }

    /// Records a decision: who, how and about what. It was made already, so a failed write is retried.
    // The record's id is stored with the decision, so a decision that two gateways record makes one record.
    pub fn resolved(&self, approval: &Approval) {
        let Some(resolution) = &approval.resolution else {
            return;
        };
        let (name, verb, decision) = match resolution.answer {
            Answer::Approve => ("approval.approved", "approved", Decision::Allow),
            Answer::Deny => ("approval.denied", "denied", Decision::Deny),
        };
        let HeldCallExcerpt { server, tool, .. } = &approval.asking;
        let reason = format!(
            "{} {verb} `{server}:{tool}` ({})",
            resolution.by,
            resolution.way.as_str()
        );
        self.store.append_or_queue(Entry::Event(Event {
            id: resolution.record_id,
            record_type: RecordType::Approval,
            name: name.to_owned(),
            server: Some(server.clone()),
            reason: Some(reason),
            principal: Some(resolution.by.clone()),
            decision: Some(decision),
            approval_id: Some(approval.id.clone()),
            tenant: Some(approval.asking.tenant.clone()),
        }));
    }

    /// Records a call that a person refused, with the approval.
    pub fn refused_by_person(&self, denied: &Denied, approval: Option<&ApprovalId>) {
        let mut entry = self.decided(denied.call(), denied.ruling(), Decision::Deny);
        entry.approval_id = approval.cloned();
        entry.status = Some(Status::Rejected);
        self.refuse(entry);
    }
}
