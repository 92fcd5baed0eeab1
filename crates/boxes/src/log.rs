//! The log lines of this room.

use std::path::Path;

use crate::Occupant;

pub(crate) fn connection_not_on_record(what: &str) {
    tracing::info!(
        what,
        "a boxed process made a connection while no activity log was open"
    );
}

pub(crate) fn nothing_to_read(occupant: &Occupant, path: &Path) {
    tracing::warn!(
        server = occupant.server.as_deref(),
        what = occupant.title,
        path = %path.display(),
        "a path in `read` of a box does not exist; the program starts without it"
    );
}
