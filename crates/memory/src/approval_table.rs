//! Approvals. Every method holds the table's one lock, so of two callers that claim one approval one gets it.

mod row;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callgate_gate::{ApprovalId, CallId};
use callgate_record::{
    Answer, Approval, ApprovalFilter, ApprovalStatus, Approvals, ApprovalsError, Approver,
    AskOutcome, Claim, Question, Resolution, ResolveApprovalError, Resolved, StoredQuestion,
    WriterId,
};
use jiff::{SignedDuration, Timestamp};
use ulid::Ulid;

use self::row::{Row, State, Table};
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
        let journal = self.journal.lock();
        let ends: Vec<(ApprovalId, State)> = table
            .rows
            .iter()
            .filter_map(|row| match row.state {
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
        at: usize,
        question: &Question,
        call: CallId,
        now: Timestamp,
    ) -> AskOutcome {
        let row = &mut table.rows[at];
        let mut approval = Box::new(row.as_of(now));
        let id = std::mem::replace(&mut approval.id, row.public_id().clone());
        match approval.status {
            ApprovalStatus::Approved => {
                row.state = State::Claimed { by: self.writer };
                row.used_by = Some(call);
                AskOutcome::Claimed(Claim {
                    id,
                    approval: approval.id,
                })
            }
            ApprovalStatus::Denied => AskOutcome::Denied(approval),
            ApprovalStatus::Pending | ApprovalStatus::Expired | ApprovalStatus::Used => {
                row.seal_again(question);
                AskOutcome::Pending {
                    approval,
                    is_new: false,
                }
            }
        }
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
        table.rows.push(row);
        Ok(approval)
    }
}

impl Approvals for MemoryApprovals {
    fn ask(
        &self,
        question: &Question,
        call: CallId,
        now: Timestamp,
    ) -> Result<AskOutcome, ApprovalsError> {
        let mut table = self.lock();
        self.settle_dead(&mut table);
        table.erase_over(now);
        if let Some(at) = table.decisive(question, now) {
            return Ok(self.answered(&mut table, at, question, call, now));
        }
        if let Some(approval) = table.joined(question, MAX_QUESTIONS, now) {
            self.insert(&mut table, question, now, Some(&approval))?;
            return Ok(AskOutcome::Pending {
                approval: Box::new(approval),
                is_new: false,
            });
        }
        if table.open_of(&question.asking.principal, now) >= OPEN_PER_PRINCIPAL {
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
        let revision = table.next_revision();
        for row in table.rows.iter_mut().filter(|row| row.public_id() == id) {
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
        for row in table.rows.iter_mut().filter(|row| row.public_id() == id) {
            row.is_shown |= to_a_person && row.under.is_none();
            kept.push(StoredQuestion {
                asking: row.asking.clone(),
                binding: row.binding.clone(),
                sealed: row.sealed.clone(),
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
            .approvals(now)
            .filter(|one| which.includes(one))
            .collect();
        found.sort_by_key(|approval| std::cmp::Reverse(approval.asked_at));
        found.truncate(limit);
        Ok(found)
    }

    fn pending(&self, now: Timestamp) -> Result<usize, ApprovalsError> {
        let table = self.lock();
        let pending = table
            .approvals(now)
            .filter(|one| one.status == ApprovalStatus::Pending);
        Ok(pending.count())
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
        let mut changed: Vec<&Row> = table
            .rows
            .iter()
            .filter(|row| row.revision > mark && row.under.is_none())
            .collect();
        changed.sort_by_key(|row| row.revision);
        let changed = changed.into_iter().map(|row| row.as_of(now)).collect();
        Ok((newest.max(mark), changed))
    }

    fn unrecorded(&self, before: Timestamp) -> Result<Vec<Approval>, ApprovalsError> {
        let table = self.lock();
        let is_owed = |row: &&Row| {
            let resolution = row.resolution.as_ref();
            !row.is_recorded && resolution.is_some_and(|resolution| resolution.at < before)
        };
        let owed = table.rows.iter().filter(is_owed);
        Ok(owed.map(|row| row.as_of(before)).collect())
    }

    fn recorded(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        let mut table = self.lock();
        if let Some(row) = table.row(id) {
            row.is_recorded = true;
        }
        Ok(())
    }

    fn announce(&self, id: &ApprovalId) -> Result<bool, ApprovalsError> {
        let mut table = self.lock();
        let pending = table.row(id).filter(|row| row.state == State::Pending);
        let Some(row) = pending.filter(|row| !row.is_announced) else {
            return Ok(false);
        };
        let is_ours = row.asked_in == self.writer
            || row
                .asked_in
                .is_none_or(|asker| !self.journal.lock().is_alive(asker));
        row.is_announced |= is_ours;
        Ok(is_ours)
    }
}
