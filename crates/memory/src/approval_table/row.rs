//! One row: an approval, or a further question of one.

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

    /// When it is over, unless it is decided or used first.
    pub(super) fn over_at(&self) -> Timestamp {
        let decided = self.resolution.as_ref();
        decided.map_or(self.expires_at, |known| known.valid_until)
    }

    /// Whether its time can still run out.
    pub(super) fn is_running(&self) -> bool {
        match self.state {
            State::Pending | State::Approved | State::Denied => true,
            State::Claimed { .. } | State::Used | State::Expired => false,
        }
    }

    /// The status, expiry included.
    pub(super) fn status(&self, now: Timestamp) -> ApprovalStatus {
        match self.state {
            State::Pending | State::Approved | State::Denied if self.over_at() <= now => {
                ApprovalStatus::Expired
            }
            State::Pending => ApprovalStatus::Pending,
            State::Approved => ApprovalStatus::Approved,
            State::Denied => ApprovalStatus::Denied,
            State::Claimed { .. } | State::Used => ApprovalStatus::Used,
            State::Expired => ApprovalStatus::Expired,
        }
    }

    /// The approval in its current state, expiry included.
    pub(super) fn as_of(&self, now: Timestamp) -> Approval {
        let status = self.status(now);
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
