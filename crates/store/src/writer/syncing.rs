//! The files with entries that may not be on the device yet.

use std::{io, sync::Arc};

use crate::disk::SegmentFile;

/// Files to sync, and the first failure.
#[derive(Debug, Default)]
pub(super) struct Syncing {
    /// Files with entries that were not synced.
    dirty: Vec<Arc<dyn SegmentFile>>,
    /// Files that the keeper is syncing right now.
    under_way: Vec<Arc<dyn SegmentFile>>,
    /// A failed sync outside of the keeper that is not reported to waiting callers yet.
    failure: Option<String>,
    is_wanted: bool,
}

impl Syncing {
    /// Remembers that `file` got an entry.
    pub(super) fn add(&mut self, file: &Arc<dyn SegmentFile>) {
        if !self
            .dirty
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, file))
        {
            self.dirty.push(Arc::clone(file));
        }
    }

    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Hands out the files to sync now.
    pub(super) fn start(&mut self) -> Vec<Arc<dyn SegmentFile>> {
        self.is_wanted = false;
        self.under_way = std::mem::take(&mut self.dirty);
        self.under_way.clone()
    }

    /// Takes the result for the files of `start`.
    // After a failed sync the kernel may have dropped the dirty pages and report the next one as a success, so a file is
    // never synced again.
    pub(super) fn end(&mut self, result: io::Result<()>) -> Result<(), String> {
        self.under_way.clear();
        let result = match self.failure.take() {
            Some(reason) => Err(reason),
            None => result.map_err(|error| error.to_string()),
        };
        if result.is_err() {
            self.dirty.clear();
        }
        result
    }

    /// Syncs all files, also those that the keeper is syncing.
    pub(super) fn sync_now(&mut self) -> io::Result<()> {
        let result = self
            .dirty
            .iter()
            .chain(&self.under_way)
            .try_for_each(|file| file.sync());
        self.dirty.clear();
        if let Err(error) = &result {
            self.failure = Some(error.to_string());
            self.is_wanted = true;
        }
        result
    }
}
