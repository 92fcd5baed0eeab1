//! How a log is opened, and why it cannot be.

use std::{io, path::PathBuf, sync::Arc};

use callgate_record::{Clock, SystemClock};

use super::Durability;
use crate::{index::IndexError, key::KeyError, version::VersionError};

#[derive(Debug, Clone)]
pub struct LogOptions {
    pub dir: PathBuf,
    /// When an entry counts as stored.
    pub durability: Durability,
    /// How large a segment may grow before the next one begins.
    pub segment_bytes: u64,
    /// How many entries there are between two keyed heads.
    pub head_every: u64,
    /// Whether to go on with the chain of a process that has ended, if there is one that is short: for a process that writes
    /// few entries.
    pub resumes: bool,
    /// The version of the binary, for the opening entry.
    pub version: String,
    pub clock: Arc<dyn Clock>,
}

impl LogOptions {
    /// The defaults for a log in `dir`.
    pub fn new(dir: impl Into<PathBuf>, version: impl Into<String>) -> Self {
        Self {
            dir: dir.into(),
            durability: Durability::Process,
            segment_bytes: 16 * 1024 * 1024,
            head_every: 1000,
            resumes: false,
            version: version.into(),
            clock: Arc::new(SystemClock),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log has a format that this version does not know.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// The index has a format that this version does not know.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The folder cannot be made or entered.
    #[error("could not set up the activity log in `{path}`: {source}")]
    NoFolder { path: PathBuf, source: io::Error },
    #[error(transparent)]
    NoKey(#[from] KeyError),
    /// The first entries cannot be written.
    #[error("could not write the activity log in `{path}`: {source}")]
    Unwritable { path: PathBuf, source: io::Error },
}
