//! What goes before calls are refused on a full disk: the index, which can be made again, and the trash.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{folder, index, retain};

/// How often this is tried: calls wait for it.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Spare {
    dir: PathBuf,
    tried: Option<Instant>,
}

impl Spare {
    /// That of a data folder.
    pub(super) fn of(dir: PathBuf) -> Self {
        Self { dir, tried: None }
    }

    /// Removes the next part. Returns whether that made room.
    pub(super) fn give_up(&mut self) -> bool {
        if self.tried.is_some_and(|tried| tried.elapsed() < EVERY) {
            return false;
        }
        let gone = if index::give_up(&self.dir) {
            "the search index"
        } else if retain::empty_trash(&folder::log_path(&self.dir)) {
            "the trash"
        } else {
            self.tried = Some(Instant::now());
            return false;
        };
        crate::log::room_made(&self.dir, gone);
        true
    }
}
