//! The log lines of this room that are not events.

use callgate_record::{ApprovalsError, LedgerError};

use crate::ApprovalServiceError;

pub(crate) fn pending_not_counted(error: &ApprovalServiceError) {
    tracing::warn!(%error, "pending approvals cannot be counted; 0 is shown");
}

/// The log has the use too, and the mark is derived from it later.
pub(crate) fn use_not_marked(error: &ApprovalServiceError) {
    tracing::warn!(%error, "a used approval could not be marked as used yet");
}

pub(crate) fn approval_not_given_back(error: &ApprovalServiceError) {
    tracing::warn!(%error, "an approval whose call was not made could not be given back");
}

pub(crate) fn changes_not_read(error: &ApprovalServiceError) {
    tracing::warn!(%error, "decisions of other processes cannot be read; trying again");
}

pub(crate) fn decisions_not_settled(error: &ApprovalsError) {
    tracing::warn!(%error, "decisions may be missing on record, and held calls may be kept too long");
}

pub(crate) fn settling_panicked() {
    tracing::error!("the task that puts decisions on record panicked");
}

pub(crate) fn decision_not_marked(error: &ApprovalsError) {
    tracing::warn!(%error, "a decision could not be marked as recorded; it will be recorded again");
}

pub(crate) fn approval_not_kept(error: &ApprovalServiceError) {
    tracing::error!(%error, "the request for approval could not be stored; the call is refused");
}

pub(crate) fn limits_not_read(error: &LedgerError) {
    tracing::error!(%error, "the ledger of limits cannot be read; limits are treated as used up");
}
