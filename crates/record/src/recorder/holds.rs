//! Held calls on record: what a person is asked, that a call waits, and what was decided.

use callgate_gate::{ApprovalId, BoundRequest, Call, Denied, Digest, Hold, Ruling, Target};

use super::{NotRecorded, Recorder, name};
use crate::{Answer, Approval, Asking, Decision, Entry, Event, Failed, RecordType, Status};

impl Recorder {
    /// Puts a call that needs a person's yes on record: one that waits for it, or one that ends here
    /// and may come again.
    pub async fn held(
        &self,
        hold: &Hold,
        approval: Option<&ApprovalId>,
        status: Status,
    ) -> Result<(), NotRecorded> {
        let mut entry = self.decided(hold.call(), hold.ruling(), Decision::RequireApproval);
        entry.approval_id = approval.cloned();
        entry.status = Some(status);
        Ok(self.take(&Entry::Held(entry)).await?)
    }

    /// Puts the end of a call on record that waited for a person in vain.
    pub fn waited_in_vain(&self, hold: &Hold, approval: &ApprovalId, error: Failed) {
        let mut entry = self.decided(hold.call(), hold.ruling(), Decision::RequireApproval);
        entry.approval_id = Some(approval.clone());
        entry.status = Some(Status::Rejected);
        entry.error = Some(self.blotted(error));
        self.store.append_owed(Entry::Refused(entry));
    }

    /// Puts a call on record that was cancelled before it was sent: what policy said to it, and the approval that it
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
        self.store.append_owed(Entry::Refused(entry));
    }

    /// Puts the answer to whoever asked whether a call may happen on record. A yes that rests on an approval
    /// uses it up by that.
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

    /// What is kept of a question about a held call: like every body on record it is cut, and secrets are left out.
    pub fn asking(&self, call: &Call, request: &BoundRequest, ruling: &Ruling) -> Asking {
        let Call { attempt, target } = call;
        let who = &attempt.host.who;
        let definition = match target {
            Target::Tool(tool) => Some(Digest::of(&tool.descriptor)),
            Target::Prompt(_)
            | Target::Resource(_)
            | Target::Completion(_)
            | Target::Method { .. } => None,
        };
        let kept = |text: &str| self.redactor.excerpt(text.as_bytes());
        let arguments = kept(&request.arguments);
        Asking {
            record_id: attempt.id,
            tenant: who.tenant.clone(),
            principal: who.principal.clone(),
            agent: name(&who.agent),
            session_id: who.session.clone(),
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

    /// Puts a person's decision on record: who, how and about what. It has been made, so it is owed;
    /// when it was put on record before, this is the same record.
    pub fn resolved(&self, approval: &Approval) {
        let Some(resolution) = &approval.resolution else {
            return;
        };
        let (name, decision) = match resolution.answer {
            Answer::Approve => ("approval.approved", Decision::Allow),
            Answer::Deny => ("approval.denied", Decision::Deny),
        };
        let Asking { server, tool, .. } = &approval.asking;
        let reason = format!(
            "{} decided about `{server}:{tool}` by {}",
            resolution.by,
            resolution.way.as_str()
        );
        self.store.append_owed(Entry::Event(Event {
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

    /// Puts a call that a person refused on record, by the approval that says so.
    pub fn refused_by_person(&self, denied: &Denied, approval: Option<&ApprovalId>) {
        let mut entry = self.decided(denied.call(), denied.ruling(), Decision::Deny);
        entry.approval_id = approval.cloned();
        entry.status = Some(Status::Rejected);
        self.store.append_owed(Entry::Refused(entry));
    }
}
