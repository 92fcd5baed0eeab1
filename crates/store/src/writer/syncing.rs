//! Which files have entries that the device may not have yet.

use std::{io, sync::Arc};

use crate::disk::SegmentFile;

/// What is to be synced, and whether that has gone well so far.
#[derive(Debug, Default)]
pub(super) struct Syncing {
    /// Files with entries that were not synced.
    dirty: Vec<Arc<dyn SegmentFile>>,
    /// Files that the keeper is syncing right now.
    under_way: Vec<Arc<dyn SegmentFile>>,
    /// A sync that failed outside the keeper, and that those who wait have not been told of.
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

    /// Hands the files out that have to be synced now.
    pub(super) fn start(&mut self) -> Vec<Arc<dyn SegmentFile>> {
        self.is_wanted = false;
        self.under_way = std::mem::take(&mut self.dirty);
        self.under_way.clone()
    }

    /// Takes the outcome of what was handed out. After a failure nobody knows what a file has, so
    /// trying it again would prove nothing.
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

    /// Syncs everything, also what the keeper has not finished with.
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
