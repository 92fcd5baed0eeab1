//! Approvals. Every method holds the table's one lock, so of two callers that claim one approval one gets it.

mod row;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callgate_gate::{ApprovalId, CallId};
use callgate_record::{
    Answer, Approval, ApprovalFilter, ApprovalStatus, Approvals, ApprovalsError, Approver,
    AskOutcome, Claim, Question, Resolution, ResolveApprovalError, Resolved, StoredQuestion,
    WriterId,
};
use jiff::{SignedDuration, Timestamp};
use ulid::Ulid;

use self::{
    row::{Row, State},
    table::{RowNumber, Table},
};
use crate::backend::Shared;

/// Open questions that one caller may have; a further one is refused.
const OPEN_PER_PRINCIPAL: usize = 100;
/// Questions that one decision can cover. A gateway asks about a call in two scopes.
const MAX_QUESTIONS: usize = 8;
/// Approvals older than this are forgotten; their records are in the log.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24 * 30);

#[derive(Debug, Clone)]
pub(crate) struct MemoryApprovals {
    table: Arc<Mutex<Table>>,
    journal: Shared,
    /// The writer that claims; none in a process that only decides.
    writer: Option<WriterId>,
}

impl MemoryApprovals {
    pub(crate) fn new(journal: Shared) -> Self {
        Self {
            table: Arc::default(),
            journal,
            writer: None,
        }
    }

    /// The same approvals for another writer.
    pub(crate) fn of(&self, writer: Option<WriterId>) -> Self {
        Self {
            writer,
            ..self.clone()
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the claims of dead writers: used if the log has the forward, else approved again.
    fn settle_dead(&self, table: &mut Table) {
        if table.claimed().next().is_none() {
            return;
        }
        let journal = self.journal.lock();
        let ends: Vec<(ApprovalId, State)> = table
            .claimed()
            .filter_map(|(_, row)| match row.state {
                State::Claimed { by: Some(by) }
                    if Some(by) != self.writer && !journal.is_alive(by) =>
                {
                    let call = row.used_by?;
                    let forwarded = journal.was_forwarded(call);
                    let state = if forwarded {
                        State::Used
                    } else {
                        State::Approved
                    };
                    Some((row.id.clone(), state))
                }
                _ => None,
            })
            .collect();
        drop(journal);
        for (id, state) in ends {
            table.end_claim(&id, state);
        }
    }

    /// The answer of a known row to a question about exactly its call.
    fn answered(
        &self,
        table: &mut Table,
        number: RowNumber,
        (question, call): (&Question, CallId),
        now: Timestamp,
    ) -> Option<AskOutcome> {
        let row = table.row(number)?;
        let mut approval = Box::new(row.as_of(now));
        let id = std::mem::replace(&mut approval.id, row.public_id().clone());
        Some(match approval.status {
            ApprovalStatus::Approved => {
                table.change(number, |row| {
                    row.state = State::Claimed { by: self.writer };
                    row.used_by = Some(call);
                });
                AskOutcome::Claimed(Claim {
                    id,
                    approval: approval.id,
                })
            }
            ApprovalStatus::Denied => AskOutcome::Denied(approval),
            ApprovalStatus::Pending | ApprovalStatus::Expired | ApprovalStatus::Used => {
                table.change(number, |row| row.seal_again(question));
                AskOutcome::Pending {
                    approval,
                    is_new: false,
                }
            }
        })
    }

    fn insert(
        &self,
        table: &mut Table,
        question: &Question,
        now: Timestamp,
        under: Option<&Approval>,
    ) -> Result<Approval, ApprovalsError> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).map_err(|error| ApprovalsError {
            reason: format!("the operating system's random number generator failed: {error}"),
        })?;
        table.forget_old(now.saturating_sub(KEPT_FOR).unwrap_or(Timestamp::MIN));
        let ends = || {
            now.saturating_add(question.expire_after)
                .unwrap_or(Timestamp::MAX)
        };
        let row = Row {
            id: ApprovalId::from_random(bits),
            under: under.map(|approval| approval.id.clone()),
            binding: question.binding.to_string(),
            asking: question.asking.clone(),
            state: State::Pending,
            asked_at: now,
            asked_in: self.writer,
            expires_at: under.map_or_else(ends, |approval| approval.expires_at),
            valid_for: question.valid_for,
            resolution: None,
            used_by: None,
            revision: table.next_revision(),
            is_recorded: true,
            is_announced: false,
            is_shown: false,
            sealed: Some(question.sealed.clone()),
        };
        let approval = row.as_of(now);
        table.insert(row);
        Ok(approval)
    }
}

impl Approvals for MemoryApprovals {
    fn blocks(&self) -> bool {
        false
    }

    fn ask(
        &self,
        question: &Question,
        call: CallId,
        now: Timestamp,
    ) -> Result<AskOutcome, ApprovalsError> {
        let mut table = self.lock();
        self.settle_dead(&mut table);
        table.erase_over(now);
        let known = table.decisive(question, now);
        let about = (question, call);
        if let Some(outcome) =
            known.and_then(|number| self.answered(&mut table, number, about, now))
        {
            return Ok(outcome);
        }
        if let Some(approval) = table.joined(question, MAX_QUESTIONS, now) {
            self.insert(&mut table, question, now, Some(&approval))?;
            return Ok(AskOutcome::Pending {
                approval: Box::new(approval),
                is_new: false,
            });
        }
        if table.open_of(&question.asking.principal) >= OPEN_PER_PRINCIPAL {
            return Ok(AskOutcome::TooMany {
                limit: OPEN_PER_PRINCIPAL,
            });
        }
        let approval = self.insert(&mut table, question, now, None)?;
        Ok(AskOutcome::Pending {
            approval: Box::new(approval),
            is_new: true,
        })
    }

    fn used(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        self.lock().end_claim(id, State::Used);
        Ok(())
    }

    fn give_back(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        self.lock().end_claim(id, State::Approved);
        Ok(())
    }

    fn resolve(
        &self,
        id: &ApprovalId,
        answer: Answer,
        by: &Approver,
        now: Timestamp,
    ) -> Result<Resolved, ResolveApprovalError> {
        let mut table = self.lock();
        table.erase_over(now);
        let approval = table.get(id, now).ok_or(ResolveApprovalError::Unknown)?;
        if !approval.is_new_decision(answer, by)? {
            return Ok(Resolved {
                approval,
                is_new: false,
            });
        }
        let record_id = CallId(Ulid::generate());
        for number in table.rows_of(id) {
            let revision = table.next_revision();
            table.change(number, |row| {
                row.resolution = Some(Resolution {
                    answer,
                    by: by.name(),
                    way: by.way,
                    at: now,
                    valid_until: now.saturating_add(row.valid_for).unwrap_or(Timestamp::MAX),
                    record_id,
                });
                row.state = match answer {
                    Answer::Approve => State::Approved,
                    Answer::Deny => State::Denied,
                };
                row.is_recorded = row.under.is_some();
                row.sealed = None;
                row.revision = revision;
            });
        }
        let approval = table.get(id, now).unwrap_or(approval);
        Ok(Resolved {
            approval,
            is_new: true,
        })
    }

    fn get(&self, id: &ApprovalId, now: Timestamp) -> Result<Option<Approval>, ApprovalsError> {
        let mut table = self.lock();
        table.erase_over(now);
        Ok(table.get(id, now))
    }

    fn questions(
        &self,
        id: &ApprovalId,
        to_a_person: bool,
    ) -> Result<Vec<StoredQuestion>, ApprovalsError> {
        let mut table = self.lock();
        let mut kept = Vec::new();
        for number in table.rows_of(id) {
            table.change(number, |row| {
                row.is_shown |= to_a_person && row.under.is_none();
                kept.push(StoredQuestion {
                    asking: row.asking.clone(),
                    binding: row.binding.clone(),
                    sealed: row.sealed.clone(),
                });
            });
        }
        Ok(kept)
    }

    fn erase(&self, now: Timestamp) -> Result<(), ApprovalsError> {
        self.lock().erase_over(now);
        Ok(())
    }

    fn list(
        &self,
        which: &ApprovalFilter,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Approval>, ApprovalsError> {
        let mut table = self.lock();
        table.erase_over(now);
        let mut found: Vec<Approval> = table
            .approvals()
            .filter(|row| which.status.is_none_or(|status| status == row.status(now)))
            .map(|row| row.as_of(now))
            .filter(|one| which.includes(one))
            .collect();
        found.sort_by_key(|approval| std::cmp::Reverse(approval.asked_at));
        found.truncate(limit);
        Ok(found)
    }

    fn pending(&self, now: Timestamp) -> Result<usize, ApprovalsError> {
        Ok(self.lock().pending(now))
    }

    fn changes(
        &self,
        mark: Option<u64>,
        now: Timestamp,
    ) -> Result<(u64, Vec<Approval>), ApprovalsError> {
        let table = self.lock();
        let newest = table.newest();
        let Some(mark) = mark else {
            return Ok((newest, Vec::new()));
        };
        let changed = table
            .changed_after(mark)
            .map(|row| row.as_of(now))
            .collect();
        Ok((newest.max(mark), changed))
    }

    fn unrecorded(&self, before: Timestamp) -> Result<Vec<Approval>, ApprovalsError> {
        let table = self.lock();
        let is_owed = |row: &&Row| {
            let resolution = row.resolution.as_ref();
            resolution.is_some_and(|resolution| resolution.at < before)
        };
        let owed = table.unrecorded().filter(is_owed);
        Ok(owed.map(|row| row.as_of(before)).collect())
    }

    fn recorded(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        let mut table = self.lock();
        if let Some(number) = table.number_of(id) {
            table.change(number, |row| row.is_recorded = true);
        }
        Ok(())
    }

    fn announce(&self, id: &ApprovalId) -> Result<bool, ApprovalsError> {
        let mut table = self.lock();
        let Some(number) = table.number_of(id) else {
            return Ok(false);
        };
        let pending = table.row(number).filter(|row| row.state == State::Pending);
        let Some(row) = pending.filter(|row| !row.is_announced) else {
            return Ok(false);
        };
        let is_ours = row.asked_in == self.writer
            || row
                .asked_in
                .is_none_or(|asker| !self.journal.lock().is_alive(asker));
        table.change(number, |row| row.is_announced |= is_ours);
        Ok(is_ours)
    }
}
