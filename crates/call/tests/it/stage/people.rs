//! People who decide about held calls, in memory.

use std::sync::Mutex;

use callgate_gate::{ApprovalId, CallId, Digest};
use callgate_record::{
    Answer, Approval, ApprovalFilter, ApprovalStatus, Approvals, ApprovalsError, Approver,
    AskOutcome, CallVisibility, Claim, Question, Resolution, ResolveApprovalError, Resolved,
    StoredQuestion,
};
use jiff::{SignedDuration, Timestamp};
use ulid::Ulid;

/// Keeps approvals as a store would, and notes what became of them.
#[derive(Debug, Default)]
pub(crate) struct People {
    rows: Mutex<Vec<Row>>,
    pub(crate) notes: Mutex<Vec<String>>,
}

#[derive(Debug, Clone)]
struct Row {
    approval: Approval,
    binding: Digest,
    sealed: Vec<u8>,
    revision: u64,
}

impl People {
    /// The newest approval.
    pub(crate) fn newest(&self) -> Option<Approval> {
        let rows = self.rows.lock().unwrap();
        rows.last().map(|row| row.approval.clone())
    }

    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.to_owned());
    }

    fn set(&self, id: &ApprovalId, status: ApprovalStatus, note: &str) {
        self.note(note);
        let mut rows = self.rows.lock().unwrap();
        let revision = rows.iter().map(|row| row.revision).max().unwrap_or(0) + 1;
        let row = rows.iter_mut().find(|row| row.approval.id == *id).unwrap();
        row.approval.status = status;
        row.revision = revision;
    }
}

impl Approvals for People {
    fn ask(
        &self,
        question: &Question,
        _call: CallId,
        now: Timestamp,
    ) -> Result<AskOutcome, ApprovalsError> {
        let mut rows = self.rows.lock().unwrap();
        let found = rows.iter_mut().rev().find(|row| {
            row.binding == question.binding && row.approval.status != ApprovalStatus::Used
        });
        if let Some(row) = found {
            let approval = Box::new(row.approval.clone());
            return Ok(match approval.status {
                ApprovalStatus::Approved => {
                    row.approval.status = ApprovalStatus::Used;
                    AskOutcome::Claimed(Claim {
                        id: approval.id.clone(),
                        approval: approval.id,
                    })
                }
                ApprovalStatus::Denied => AskOutcome::Denied(approval),
                _ => AskOutcome::Pending {
                    approval,
                    is_new: false,
                },
            });
        }
        let revision = rows.iter().map(|row| row.revision).max().unwrap_or(0) + 1;
        let approval = Approval {
            id: ApprovalId::from_random([u8::try_from(rows.len()).unwrap(); 16]),
            status: ApprovalStatus::Pending,
            asking: question.asking.clone(),
            sight: CallVisibility::Unreadable,
            also: Vec::new(),
            asked_at: now,
            expires_at: now + question.expire_after,
            resolution: None,
            used_by: None,
        };
        rows.push(Row {
            approval: approval.clone(),
            binding: question.binding,
            sealed: question.sealed.clone(),
            revision,
        });
        Ok(AskOutcome::Pending {
            approval: Box::new(approval),
            is_new: true,
        })
    }

    fn used(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        self.set(id, ApprovalStatus::Used, "used");
        Ok(())
    }

    fn give_back(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        self.set(id, ApprovalStatus::Approved, "given back");
        Ok(())
    }

    fn resolve(
        &self,
        id: &ApprovalId,
        answer: Answer,
        by: &Approver,
        now: Timestamp,
    ) -> Result<Resolved, ResolveApprovalError> {
        self.set(id, answer.status(), "resolved");
        let mut rows = self.rows.lock().unwrap();
        let row = rows.iter_mut().find(|row| row.approval.id == *id).unwrap();
        row.approval.resolution = Some(Resolution {
            answer,
            by: by.principal.clone(),
            way: by.way,
            at: now,
            valid_until: now + SignedDuration::from_secs(300),
            record_id: CallId(Ulid::generate()),
        });
        Ok(Resolved {
            approval: row.approval.clone(),
            is_new: true,
        })
    }

    fn get(&self, id: &ApprovalId, _now: Timestamp) -> Result<Option<Approval>, ApprovalsError> {
        let rows = self.rows.lock().unwrap();
        let found = rows.iter().find(|row| row.approval.id == *id);
        Ok(found.map(|row| row.approval.clone()))
    }

    fn questions(
        &self,
        id: &ApprovalId,
        _to_a_person: bool,
    ) -> Result<Vec<StoredQuestion>, ApprovalsError> {
        let rows = self.rows.lock().unwrap();
        let found = rows.iter().filter(|row| row.approval.id == *id);
        let kept = |row: &Row| StoredQuestion {
            asking: row.approval.asking.clone(),
            binding: row.binding.to_string(),
            sealed: Some(row.sealed.clone()),
        };
        Ok(found.map(kept).collect())
    }

    fn erase(&self, _now: Timestamp) -> Result<(), ApprovalsError> {
        Ok(())
    }

    fn list(
        &self,
        _which: &ApprovalFilter,
        _limit: usize,
        _now: Timestamp,
    ) -> Result<Vec<Approval>, ApprovalsError> {
        let rows = self.rows.lock().unwrap();
        Ok(rows.iter().map(|row| row.approval.clone()).collect())
    }

    fn pending(&self, _now: Timestamp) -> Result<usize, ApprovalsError> {
        Ok(self.rows.lock().unwrap().len())
    }

    fn changes(
        &self,
        mark: Option<u64>,
        _now: Timestamp,
    ) -> Result<(u64, Vec<Approval>), ApprovalsError> {
        let rows = self.rows.lock().unwrap();
        let newest = rows.iter().map(|row| row.revision).max().unwrap_or(0);
        let behind = |row: &&Row| mark.is_some_and(|mark| row.revision > mark);
        let changed = rows.iter().filter(behind);
        Ok((newest, changed.map(|row| row.approval.clone()).collect()))
    }

    fn unrecorded(&self, _before: Timestamp) -> Result<Vec<Approval>, ApprovalsError> {
        Ok(Vec::new())
    }

    fn recorded(&self, _id: &ApprovalId) -> Result<(), ApprovalsError> {
        Ok(())
    }

    fn announce(&self, _id: &ApprovalId) -> Result<bool, ApprovalsError> {
        Ok(false)
    }
}
