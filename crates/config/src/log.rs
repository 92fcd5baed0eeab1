//! The log lines of this room that are not events.

pub(crate) fn guard_without_key() {
    tracing::warn!("`guard` has no API key; the remote gateway may refuse to answer");
}

pub(crate) fn trusted_lock_not_replaced(error: &str) {
    tracing::warn!(
        error,
        "the list of trusted files could not be updated; it still trusts the previous lock"
    );
}
