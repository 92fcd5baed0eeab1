//! The log lines of this room.

use std::fmt::Display;

pub(crate) fn connections_not_accepted(error: &impl Display) {
    tracing::warn!(%error, "the egress proxy could not accept a connection; trying again");
}

pub(crate) fn folder_not_removed(error: &impl Display) {
    tracing::warn!(%error, "could not remove the folder of the egress proxy's socket");
}
