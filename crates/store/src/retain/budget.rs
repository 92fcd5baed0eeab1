//! The budget for the disk: what the log, its index and its trash may take together.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use callgate_record::{DiskUse, DropReason, RetentionLimits};

use super::trash;
use crate::{folder, index};

/// Retention begins when this part of the budget is left, so that what is written until it looks again has room.
const LEFT: u64 = 16;
/// A small budget keeps more room: one filling of the index can write this much.
const LEFT_BYTES: u64 = 1024 * 1024;
const MOST_LEFT: u64 = 4;
/// It looks again after this part of the budget was written.
const STEP: u64 = 64;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Above this, room is made.
    pub(crate) high: u64,
    /// Down to this.
    low: u64,
    /// How much is written between two looks.
    pub(crate) step: u64,
}

impl Budget {
    pub(crate) fn of(limits: RetentionLimits) -> Self {
        let all = limits.max_bytes();
        let left = (all / LEFT).max(LEFT_BYTES.min(all / MOST_LEFT));
        Self {
            high: all - left,
            low: all - left - all / LEFT,
            step: all / STEP,
        }
    }
}

/// What has to go.
#[derive(Debug)]
pub(super) struct Excess {
    bytes: u64,
    used: DiskUse,
}

impl Excess {
    /// Nothing unless `used` is over the budget.
    pub(super) fn over(budget: Budget, used: DiskUse) -> Self {
        let is_over = used.total() > budget.high;
        let bytes = used.total().saturating_sub(budget.low);
        Self {
            bytes: if is_over { bytes } else { 0 },
            used,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.bytes > 0
    }

    /// So many bytes of the log were dropped.
    pub(super) fn dropped(&mut self, bytes: u64, why: DropReason) {
        match why {
            // The rows of these entries go with them: their room is used again.
            DropReason::Size => {
                let of_index = u128::from(self.used.index) * u128::from(bytes)
                    / u128::from(self.used.log.max(bytes).max(1));
                let of_index = u64::try_from(of_index).unwrap_or(u64::MAX);
                self.bytes = self.bytes.saturating_sub(bytes.saturating_add(of_index));
            }
            // They are in the trash.
            DropReason::Age => {}
        }
    }
}

/// What the record in a data folder takes of the disk.
pub(crate) fn disk_use(dir: &Path) -> io::Result<DiskUse> {
    let root = folder::log_path(dir);
    let trash = size(&trash::path(&root))?;
    Ok(DiskUse {
        log: size(&root)?.saturating_sub(trash),
        index: index::bytes(dir),
        trash,
    })
}

/// The blocks of all files and folders below a path; none without one.
fn size(path: &Path) -> io::Result<u64> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if gone(&error) => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry?;
        let data = match entry.metadata() {
            Ok(data) => data,
            // Retention or another process has removed it meanwhile.
            Err(error) if gone(&error) => continue,
            Err(error) => return Err(error),
        };
        bytes += data.blocks() * 512;
        if data.is_dir() {
            bytes += size(&entry.path())?;
        }
    }
    Ok(bytes)
}
