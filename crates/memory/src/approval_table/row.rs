//! The rows: an approval each, or a further question of one.

use callgate_gate::{ApprovalId, CallId};
use callgate_record::{
    Approval, ApprovalStatus, CallVisibility, HeldCallExcerpt, Question, Resolution,
    SEAL_MARK_BYTES, WriterId,
};
use jiff::{SignedDuration, Timestamp};

/// The stored state of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    Approved,
    Denied,
    Claimed {
        by: Option<WriterId>,
    },
    Used,
    /// Its time was seen to be over: a clock that is set back does not revive it.
    Expired,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: ApprovalId,
    /// The approval that this is a further question of.
    pub(super) under: Option<ApprovalId>,
    pub(super) binding: String,
    pub(super) asking: HeldCallExcerpt,
    pub(super) state: State,
    pub(super) asked_at: Timestamp,
    pub(super) asked_in: Option<WriterId>,
    pub(super) expires_at: Timestamp,
    pub(super) valid_for: SignedDuration,
    pub(super) resolution: Option<Resolution>,
    pub(super) used_by: Option<CallId>,
    /// Grows with every question and decision, over all rows.
    pub(super) revision: u64,
    pub(super) is_recorded: bool,
    pub(super) is_announced: bool,
    /// Whether a person has seen it.
    pub(super) is_shown: bool,
    pub(super) sealed: Option<Vec<u8>>,
}

impl Row {
    /// The id that approvers see: of a further question, that of its approval.
    pub(super) fn public_id(&self) -> &ApprovalId {
        self.under.as_ref().unwrap_or(&self.id)
    }

    /// The approval in its current state, expiry included.
    pub(super) fn as_of(&self, now: Timestamp) -> Approval {
        let valid_until = self.resolution.as_ref().map(|known| known.valid_until);
        let is_over = valid_until.unwrap_or(self.expires_at) <= now;
        let status = match self.state {
            State::Pending | State::Approved | State::Denied if is_over => ApprovalStatus::Expired,
            State::Pending => ApprovalStatus::Pending,
            State::Approved => ApprovalStatus::Approved,
            State::Denied => ApprovalStatus::Denied,
            State::Claimed { .. } | State::Used => ApprovalStatus::Used,
            State::Expired => ApprovalStatus::Expired,
        };
        Approval {
            id: self.id.clone(),
            status,
            asking: self.asking.clone(),
            sight: CallVisibility::unopened(status),
            also: Vec::new(),
            asked_at: self.asked_at,
            expires_at: self.expires_at,
            resolution: self.resolution.clone(),
            used_by: self.used_by,
        }
    }

    /// Stores the sealed call again if it is missing or was sealed with a lost key.
    // The binding is the same, so it is the same call.
    pub(super) fn seal_again(&mut self, question: &Question) {
        let mark = |sealed: &[u8]| sealed[..SEAL_MARK_BYTES.min(sealed.len())].to_vec();
        let is_readable = |sealed: &Vec<u8>| mark(sealed) == mark(&question.sealed);
        if self.state == State::Pending && !self.sealed.as_ref().is_some_and(is_readable) {
            self.sealed = Some(question.sealed.clone());
        }
    }
}

/// All rows, in the order they were asked.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    newest: u64,
}

impl Table {
    pub(super) fn next_revision(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    pub(super) fn row(&mut self, id: &ApprovalId) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.id == *id)
    }

    /// The approvals in their current state, without further questions.
    pub(super) fn approvals(&self, now: Timestamp) -> impl Iterator<Item = Approval> {
        let first = self.rows.iter().filter(|row| row.under.is_none());
        first.map(move |row| row.as_of(now))
    }

    pub(super) fn get(&self, id: &ApprovalId, now: Timestamp) -> Option<Approval> {
        self.approvals(now).find(|approval| approval.id == *id)
    }

    /// What was decided about exactly this call and still counts, else the open question about it. The
    /// approval that the caller names comes first where there are several, then the newest.
    pub(super) fn decisive(&self, question: &Question, now: Timestamp) -> Option<usize> {
        let binding = question.binding.to_string();
        let rank = |row: &Row| match row.as_of(now).status {
            ApprovalStatus::Approved if Some(row.public_id()) == question.named.as_ref() => 4,
            ApprovalStatus::Approved => 3,
            ApprovalStatus::Denied => 2,
            ApprovalStatus::Pending => 1,
            ApprovalStatus::Expired | ApprovalStatus::Used => 0,
        };
        let bound = self.rows.iter().enumerate();
        let bound = bound.filter(|(_, row)| row.binding == binding && rank(row) > 0);
        let best = bound.max_by_key(|(at, row)| (rank(row), row.asked_at, *at));
        best.map(|(at, _)| at)
    }

    /// The pending approval that a question may join: one of the same caller that no approver has seen.
    pub(super) fn joined(
        &self,
        question: &Question,
        most: usize,
        now: Timestamp,
    ) -> Option<Approval> {
        let named = question.named.as_ref().filter(|_| question.joins)?;
        let first = self
            .rows
            .iter()
            .find(|row| row.id == *named && row.under.is_none())?;
        let count = self
            .rows
            .iter()
            .filter(|row| row.public_id() == named)
            .count();
        let (own, asked) = (&first.asking, &question.asking);
        let same_caller = (&own.tenant, &own.principal, &own.agent)
            == (&asked.tenant, &asked.principal, &asked.agent);
        let approval = first.as_of(now);
        let is_open = approval.status == ApprovalStatus::Pending && !first.is_shown;
        (is_open && count < most && same_caller).then_some(approval)
    }

    /// The number of a caller's open questions.
    pub(super) fn open_of(&self, principal: &str, now: Timestamp) -> usize {
        let own = self
            .rows
            .iter()
            .filter(|row| row.asking.principal == principal);
        own.filter(|row| row.as_of(now).status == ApprovalStatus::Pending)
            .count()
    }

    /// Ends a claim: the approval is used, or can be used again.
    pub(super) fn end_claim(&mut self, id: &ApprovalId, state: State) {
        let revision = self.newest + 1;
        let row = self.row(id);
        let Some(row) = row.filter(|row| matches!(row.state, State::Claimed { .. })) else {
            return;
        };
        row.state = state;
        if state != State::Used {
            row.used_by = None;
        }
        row.revision = revision;
        self.newest = revision;
    }

    /// Stores what has expired, and erases the sealed calls of it.
    pub(super) fn erase_over(&mut self, now: Timestamp) {
        for row in &mut self.rows {
            if row.as_of(now).status == ApprovalStatus::Expired {
                row.state = State::Expired;
            }
            if row.expires_at <= now || row.state != State::Pending {
                row.sealed = None;
            }
        }
    }

    pub(super) fn forget_old(&mut self, before: Timestamp) {
        self.rows
            .retain(|row| row.asked_at >= before || !row.is_recorded);
    }
}
