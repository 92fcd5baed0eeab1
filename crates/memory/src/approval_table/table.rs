//! All rows, and where to find those that a question is about: looking at each takes longer with every approval there was.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use callgate_gate::ApprovalId;
use callgate_record::{Approval, ApprovalStatus, Question};
use jiff::Timestamp;

use super::row::{Row, State};

/// The number of a row, in the order they were asked.
pub(super) type RowNumber = u64;

#[derive(Debug, Default)]
pub(super) struct Table {
    rows: BTreeMap<RowNumber, Row>,
    next: RowNumber,
    newest: u64,
    by_id: HashMap<ApprovalId, RowNumber>,
    /// The further questions of an approval.
    further: HashMap<ApprovalId, Vec<RowNumber>>,
    by_binding: HashMap<String, BTreeSet<RowNumber>>,
    by_revision: BTreeMap<u64, RowNumber>,
    /// When the time of each row runs out that still can.
    ends: BTreeSet<(Timestamp, RowNumber)>,
    claimed: BTreeSet<RowNumber>,
    unrecorded: BTreeSet<RowNumber>,
    /// How many undecided rows each caller has.
    open: HashMap<String, usize>,
}

impl Table {
    pub(super) fn next_revision(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    pub(super) fn insert(&mut self, row: Row) {
        let number = self.next;
        self.next += 1;
        self.by_id.insert(row.id.clone(), number);
        if let Some(under) = &row.under {
            self.further.entry(under.clone()).or_default().push(number);
        }
        let bound = self.by_binding.entry(row.binding.clone()).or_default();
        bound.insert(number);
        self.enter(number, &row);
        self.rows.insert(number, row);
    }

    /// Changes a row.
    pub(super) fn change(&mut self, number: RowNumber, act: impl FnOnce(&mut Row)) {
        let Some(mut row) = self.rows.remove(&number) else {
            return;
        };
        self.leave(number, &row);
        act(&mut row);
        self.enter(number, &row);
        self.rows.insert(number, row);
    }

    /// Adds a row to what depends on its state.
    fn enter(&mut self, number: RowNumber, row: &Row) {
        self.by_revision.insert(row.revision, number);
        if row.is_running() {
            self.ends.insert((row.over_at(), number));
        }
        if matches!(row.state, State::Claimed { .. }) {
            self.claimed.insert(number);
        }
        if !row.is_recorded {
            self.unrecorded.insert(number);
        }
        if row.state == State::Pending {
            let open = self.open.entry(row.asking.principal.clone()).or_default();
            *open += 1;
        }
    }

    fn leave(&mut self, number: RowNumber, row: &Row) {
        self.by_revision.remove(&row.revision);
        self.ends.remove(&(row.over_at(), number));
        self.claimed.remove(&number);
        self.unrecorded.remove(&number);
        if row.state == State::Pending
            && let Some(open) = self.open.get_mut(&row.asking.principal)
        {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&row.asking.principal);
            }
        }
    }

    pub(super) fn number_of(&self, id: &ApprovalId) -> Option<RowNumber> {
        self.by_id.get(id).copied()
    }

    pub(super) fn row(&self, number: RowNumber) -> Option<&Row> {
        self.rows.get(&number)
    }

    /// The rows of an approval: the first question, then further ones.
    pub(super) fn rows_of(&self, id: &ApprovalId) -> Vec<RowNumber> {
        let first = self.number_of(id).filter(|number| {
            let row = self.row(*number);
            row.is_some_and(|row| row.under.is_none())
        });
        let further = self.further.get(id).into_iter().flatten().copied();
        first.into_iter().chain(further).collect()
    }

    /// The rows that are approvals, without further questions.
    pub(super) fn approvals(&self) -> impl Iterator<Item = &Row> {
        self.rows.values().filter(|row| row.under.is_none())
    }

    /// How many approvals are undecided.
    pub(super) fn pending(&self, now: Timestamp) -> usize {
        let running = self.ends.range((now, RowNumber::MAX)..);
        let rows = running.filter_map(|(_, number)| self.row(*number));
        rows.filter(|row| row.under.is_none() && row.status(now) == ApprovalStatus::Pending)
            .count()
    }

    pub(super) fn claimed(&self) -> impl Iterator<Item = (RowNumber, &Row)> {
        let numbers = self.claimed.iter();
        numbers.filter_map(|number| Some((*number, self.row(*number)?)))
    }

    pub(super) fn unrecorded(&self) -> impl Iterator<Item = &Row> {
        let numbers = self.unrecorded.iter();
        numbers.filter_map(|number| self.row(*number))
    }

    /// The approvals that changed after a revision, in the order of changes.
    pub(super) fn changed_after(&self, mark: u64) -> impl Iterator<Item = &Row> {
        let changed = self.by_revision.range(mark.saturating_add(1)..);
        let rows = changed.filter_map(|(_, number)| self.row(*number));
        rows.filter(|row| row.under.is_none())
    }

    pub(super) fn get(&self, id: &ApprovalId, now: Timestamp) -> Option<Approval> {
        let row = self.row(self.number_of(id)?)?;
        row.under.is_none().then(|| row.as_of(now))
    }

    /// What was decided about exactly this call and still counts, else the open question about it. The
    /// approval that the caller names comes first where there are several, then the newest.
    pub(super) fn decisive(&self, question: &Question, now: Timestamp) -> Option<RowNumber> {
        let rank = |row: &Row| match row.status(now) {
            ApprovalStatus::Approved if Some(row.public_id()) == question.named.as_ref() => 4,
            ApprovalStatus::Approved => 3,
            ApprovalStatus::Denied => 2,
            ApprovalStatus::Pending => 1,
            ApprovalStatus::Expired | ApprovalStatus::Used => 0,
        };
        let numbers = self.by_binding.get(&question.binding.to_string())?;
        let bound = numbers.iter().filter_map(|number| {
            let row = self.row(*number)?;
            Some((rank(row), row.asked_at, *number))
        });
        let best = bound.filter(|(rank, ..)| *rank > 0).max();
        best.map(|(_, _, number)| number)
    }

    /// The pending approval that a question may join: one of the same caller that no approver has seen.
    pub(super) fn joined(
        &self,
        question: &Question,
        most: usize,
        now: Timestamp,
    ) -> Option<Approval> {
        let named = question.named.as_ref().filter(|_| question.joins)?;
        let first = self.row(self.number_of(named)?)?;
        if first.under.is_some() {
            return None;
        }
        let count = self.rows_of(named).len();
        let (own, asked) = (&first.asking, &question.asking);
        let same_caller = (&own.tenant, &own.principal, &own.agent)
            == (&asked.tenant, &asked.principal, &asked.agent);
        let is_open = first.status(now) == ApprovalStatus::Pending && !first.is_shown;
        (is_open && count < most && same_caller).then(|| first.as_of(now))
    }

    /// The number of a caller's open questions, of which none is over.
    pub(super) fn open_of(&self, principal: &str) -> usize {
        self.open.get(principal).copied().unwrap_or(0)
    }

    /// Ends a claim: the approval is used, or can be used again.
    pub(super) fn end_claim(&mut self, id: &ApprovalId, state: State) {
        let Some(number) = self.number_of(id) else {
            return;
        };
        if !self.claimed.contains(&number) {
            return;
        }
        let revision = self.next_revision();
        self.change(number, |row| {
            row.state = state;
            if state != State::Used {
                row.used_by = None;
            }
            row.revision = revision;
        });
    }

    /// Stores what has expired, and erases the sealed calls of it.
    pub(super) fn erase_over(&mut self, now: Timestamp) {
        while let Some((over_at, number)) = self.ends.first().copied()
            && over_at <= now
        {
            self.change(number, |row| {
                row.state = State::Expired;
                row.sealed = None;
            });
        }
    }

    /// Forgets rows that were asked before a time, oldest first; not those whose decision is not on record.
    pub(super) fn forget_old(&mut self, before: Timestamp) {
        while let Some((number, row)) = self.rows.first_key_value()
            && row.asked_at < before
            && row.is_recorded
        {
            let number = *number;
            self.forget(number);
        }
    }

    fn forget(&mut self, number: RowNumber) {
        let Some(row) = self.rows.remove(&number) else {
            return;
        };
        self.leave(number, &row);
        self.by_id.remove(&row.id);
        if let Some(further) = row.under.as_ref().and_then(|id| self.further.get_mut(id)) {
            further.retain(|other| *other != number);
        } else {
            self.further.remove(&row.id);
        }
        if let Some(bound) = self.by_binding.get_mut(&row.binding) {
            bound.remove(&number);
            if bound.is_empty() {
                self.by_binding.remove(&row.binding);
            }
        }
    }
}
