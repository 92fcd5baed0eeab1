//! Approvals as they are shown to people who decide: a call that waits is shown whole, as it will run.
//!
//! Whole calls are kept sealed, with a key that every process of the data folder has. The store erases them with the
//! decision; from then on an approval shows what may be kept, without secrets.

use std::sync::Arc;

use callgate_gate::ApprovalId;
use callgate_record::{
    Approval, ApprovalStatus, Approvals, ApprovalsError, Kept, Question, Sight, Which, Whole,
};
use jiff::Timestamp;

use crate::seal::{Seal, SealKey};

/// A list shows whole calls until they come to this many bytes; the others are shown one by one.
const MAX_REVEALED_BYTES: usize = 16 * 1024 * 1024;

/// Shows approvals to people.
#[derive(Debug)]
pub struct ApprovalView {
    store: Arc<dyn Approvals>,
    seal: Seal,
}

impl ApprovalView {
    /// A view of a store whose calls are sealed with `key`.
    pub fn new(store: Arc<dyn Approvals>, key: &SealKey) -> Self {
        Self {
            store,
            seal: Seal::new(key),
        }
    }

    /// One approval, for a person who may decide by what is shown. No further question is put under it from then on.
    pub fn show(
        &self,
        id: &ApprovalId,
        now: Timestamp,
    ) -> Result<Option<Approval>, ApprovalsError> {
        let Some(mut approval) = self.store.get(id, now)? else {
            return Ok(None);
        };
        self.reveal(&mut approval, true)?;
        Ok(Some(approval))
    }

    /// The approvals that wait, newest first and as far as they are kept; at most `limit`.
    pub fn waiting(&self, limit: usize, now: Timestamp) -> Result<Vec<Approval>, ApprovalsError> {
        self.store.list(&Which::pending(), limit, now)
    }

    /// The approvals that are looked for, newest first; at most `limit`. With `to_decide` a person may decide by this
    /// list alone.
    pub fn list(
        &self,
        (which, limit): (&Which, usize),
        to_decide: bool,
        now: Timestamp,
    ) -> Result<Vec<Approval>, ApprovalsError> {
        let mut all = self.store.list(which, limit, now)?;
        let mut revealed = 0;
        for approval in &mut all {
            if revealed < MAX_REVEALED_BYTES {
                self.reveal(approval, to_decide)?;
                revealed += approval.asking.arguments.len();
            }
        }
        Ok(all)
    }

    /// Puts the sealed call into a question about it.
    pub(super) fn seal(
        &self,
        question: &mut Question,
        whole: &Whole,
    ) -> Result<(), ApprovalsError> {
        let bytes = serde_json::to_vec(whole).map_err(|error| ApprovalsError {
            reason: format!("a held call cannot be sealed: {error}"),
        })?;
        let about = question.binding.to_string();
        question.sealed = self.seal.close_bytes(bytes, &about);
        Ok(())
    }

    /// Puts the whole calls in place of what is kept of them, where there is something to open.
    fn reveal(&self, approval: &mut Approval, to_decide: bool) -> Result<(), ApprovalsError> {
        let is_pending = approval.status == ApprovalStatus::Pending;
        let kept = self.store.kept(&approval.id, is_pending && to_decide)?;
        let mut is_whole = is_pending && !kept.is_empty();
        let mut all = Vec::with_capacity(kept.len());
        for mut one in kept {
            match self.opened(&one) {
                Some(whole) => one.asking.reveal(whole),
                None => is_whole = false,
            }
            all.push(one.asking);
        }
        if is_whole {
            approval.sight = Sight::Whole;
        }
        if !all.is_empty() {
            approval.asking = all.remove(0);
            approval.also = all;
        }
        Ok(())
    }

    fn opened(&self, kept: &Kept) -> Option<Whole> {
        let sealed = kept.sealed.as_ref()?;
        let bytes = self.seal.open_bytes(sealed, &kept.binding)?;
        serde_json::from_slice(&bytes).ok()
    }
}
