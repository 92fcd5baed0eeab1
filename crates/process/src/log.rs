//! The log lines of this room that are not events.

use std::{io, path::Path};

pub(crate) fn stderr_not_written(path: &Path, error: &io::Error) {
    tracing::warn!(path = %path.display(), %error, "could not write a server's stderr log; no more lines will be written to it");
}
