//! The log lines of this room that are not events.

use callgate_record::{ApprovalsError, LedgerError};

use crate::ApprovalServiceError;

pub(crate) fn pending_not_counted(error: &ApprovalServiceError) {
    tracing::warn!(%error, "could not count the pending approvals; showing 0");
}

/// The log has the use too, and the mark is derived from it later.
pub(crate) fn use_not_marked(error: &ApprovalServiceError) {
    tracing::warn!(%error, "could not mark an approval as used; it will be marked from the activity log");
}

pub(crate) fn approval_not_given_back(error: &ApprovalServiceError) {
    tracing::warn!(%error, "could not release an approval whose call was not made");
}

pub(crate) fn changes_not_read(error: &ApprovalServiceError) {
    tracing::warn!(%error, "could not read the decisions of other processes; trying again");
}

pub(crate) fn decisions_not_settled(error: &ApprovalsError) {
    tracing::warn!(%error, "could not settle approvals: decisions may be missing from the activity log, and sealed calls may be stored too long");
}

pub(crate) fn settling_panicked() {
    tracing::error!("the task that records decisions panicked");
}

pub(crate) fn decision_not_marked(error: &ApprovalsError) {
    tracing::warn!(%error, "could not mark a decision as recorded; it will be recorded again");
}

pub(crate) fn approval_not_kept(error: &ApprovalServiceError) {
    tracing::error!(%error, "could not store the approval request; the call is refused");
}

pub(crate) fn limits_not_read(error: &LedgerError) {
    tracing::error!(%error, "could not read or write the usage ledger; limits are treated as used up");
}
