//! The log lines of this room.

pub(crate) fn connection_not_on_record(what: &str) {
    tracing::info!(
        what,
        "a boxed process made a connection while no activity log was open"
    );
}
