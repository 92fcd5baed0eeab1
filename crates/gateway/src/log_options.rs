//! How the activity log is opened: its durability, the size of its segments, and whose chain it is.

use std::path::Path;

use callgate_config::{self as config, Settings};
use callgate_store::{Durability, LogOptions};

/// How long a process of a gateway lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    Serving,
    /// It makes a call or looks at what there is: its few entries go into the chain of an earlier such process.
    OneCommand,
}

/// The budget of the disk has room for at least so many segments, as far as they are not smaller than the least.
const SEGMENTS: u64 = 32;
const LEAST_SEGMENT_BYTES: u64 = 256 * 1024;

/// The defaults for a data folder.
pub(crate) fn plain(data_dir: &Path, durability: Durability) -> LogOptions {
    LogOptions {
        durability,
        ..LogOptions::new(data_dir, env!("CARGO_PKG_VERSION"))
    }
}

/// Those of a gateway.
pub(crate) fn of_gateway(settings: &Settings, lifetime: Lifetime) -> LogOptions {
    let mut options = plain(&settings.data_dir, durability(settings));
    let budget = settings
        .config
        .activity
        .retain
        .max_mb
        .saturating_mul(1024 * 1024);
    options.segment_bytes = options
        .segment_bytes
        .min((budget / SEGMENTS).max(LEAST_SEGMENT_BYTES));
    options.resumes = lifetime == Lifetime::OneCommand;
    options
}

fn durability(settings: &Settings) -> Durability {
    match settings.config.activity.durability {
        config::Durability::Process => Durability::Process,
        config::Durability::Power => Durability::Power,
    }
}
