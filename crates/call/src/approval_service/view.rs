//! Approvals as approvers see them: a pending call is shown whole, as it will run.
//!
//! Whole calls are stored sealed, with a key that every process of the data folder has. The store erases them with the
//! decision; afterwards an approval shows its call without secrets.

use std::sync::Arc;

use callgate_gate::ApprovalId;
use callgate_record::{
    Approval, ApprovalFilter, ApprovalStatus, Approvals, ApprovalsError, CallVisibility, Question,
    StoredQuestion, UnsealedCall,
};
use jiff::Timestamp;

use crate::seal::{Seal, SealKey};

/// A list opens sealed calls up to this many bytes in total; the others are opened one by one on their own pages.
const MAX_REVEALED_BYTES: usize = 16 * 1024 * 1024;

/// Approvals with their calls opened.
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

    /// One approval for an approver. From now on no further question joins it, because the approver has not seen that one.
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

    /// Pending approvals, newest first, at most `limit`, with their calls still sealed.
    pub fn waiting(&self, limit: usize, now: Timestamp) -> Result<Vec<Approval>, ApprovalsError> {
        self.store.list(&ApprovalFilter::pending(), limit, now)
    }

    /// Matching approvals, newest first, at most `limit`. Set `to_decide` if the list itself is what an approver decides by.
    pub fn list(
        &self,
        (which, limit): (&ApprovalFilter, usize),
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

    /// Seals the whole call into its question.
    pub(super) fn seal(
        &self,
        question: &mut Question,
        whole: &UnsealedCall,
    ) -> Result<(), ApprovalsError> {
        let bytes = serde_json::to_vec(whole).map_err(|error| ApprovalsError {
            reason: format!("could not seal the held call: {error}"),
        })?;
        // Bound to the call's digest: a sealed call moved to another row of the store does not open.
        let about = question.binding.to_string();
        question.sealed = self.seal.close_bytes(bytes, &about);
        Ok(())
    }

    /// Replaces the redacted calls of an approval with the opened ones.
    fn reveal(&self, approval: &mut Approval, to_decide: bool) -> Result<(), ApprovalsError> {
        let is_pending = approval.status == ApprovalStatus::Pending;
        // The flag tells the store that an approver sees these calls: no further question joins the approval from then on.
        let kept = self
            .store
            .questions(&approval.id, is_pending && to_decide)?;
        let mut is_whole = is_pending && !kept.is_empty();
        let mut all = Vec::with_capacity(kept.len());
        for mut one in kept {
            match self.opened(&one) {
                Some(whole) => one.asking.reveal(whole),
                // One call that cannot be opened makes the approval unreadable: it covers all of them.
                None => is_whole = false,
            }
            all.push(one.asking);
        }
        if is_whole {
            approval.sight = CallVisibility::Whole;
        }
        if !all.is_empty() {
            approval.asking = all.remove(0);
            approval.also = all;
        }
        Ok(())
    }

    fn opened(&self, kept: &StoredQuestion) -> Option<UnsealedCall> {
        let sealed = kept.sealed.as_ref()?;
        let bytes = self.seal.open_bytes(sealed, &kept.binding)?;
        serde_json::from_slice(&bytes).ok()
    }
}
