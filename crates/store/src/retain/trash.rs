//! The trash: segments that age has dropped, for a day.
//!
//! `activity/trash/<when>/<writer>/` has the segments; that of a writer of which nothing was left has the files beside
//! them too. `<when>` is in microseconds.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use callgate_record::{Restored, TRASH_TIME};
use jiff::Timestamp;

use super::{RetainError, remove, stuck};
use crate::{
    disk::Files,
    folder::{self, Folder},
    line, read, segment,
};

/// The prefix of a folder that is being put back; other processes ignore such folders.
const RETURNING: &str = ".returning-";

#[derive(Debug)]
pub(super) struct Trash {
    root: PathBuf,
    path: PathBuf,
    files: Files,
}

impl Trash {
    /// The trash of the log in `root`.
    pub(super) fn in_log(root: &Path, files: &Files) -> Self {
        Self {
            root: root.to_owned(),
            path: path(root),
            files: files.clone(),
        }
    }

    /// Removes the trash of a log; returns whether there was any.
    pub(super) fn remove_all(root: &Path) -> bool {
        let path = path(root);
        path.exists() && fs::remove_dir_all(path).is_ok()
    }

    /// Moves a segment here.
    pub(super) fn take(
        &mut self,
        now: Timestamp,
        folder: &Folder,
        segment: &Path,
    ) -> Result<(), RetainError> {
        let to = self.place(now, folder)?;
        self.move_into(segment, &to)
    }

    /// Moves the files here that are beside the segments of a whole chain.
    pub(super) fn take_rest(&mut self, now: Timestamp, folder: &Folder) -> Result<(), RetainError> {
        let to = self.place(now, folder)?;
        for file in [folder.head_path(), folder.seal_path()] {
            if file.exists() {
                self.move_into(&file, &to)?;
            }
        }
        Ok(())
    }

    /// Removes what has been here for long enough.
    pub(super) fn purge(&mut self, now: Timestamp) -> Result<(), RetainError> {
        let mut is_empty = true;
        for (when, path) in self.batches()? {
            if now.duration_since(when) >= TRASH_TIME {
                remove(&path, fs::remove_dir_all)?;
            } else {
                is_empty = false;
            }
        }
        if is_empty {
            self.sweep_returning()?;
        }
        Ok(())
    }

    /// Removes what a process that died was putting back, once the rest of it is gone from the trash.
    fn sweep_returning(&self) -> Result<(), RetainError> {
        let names = folder::names(&self.root).map_err(|source| stuck(&self.root, source))?;
        let returning = names.iter().filter(|name| name.starts_with(RETURNING));
        returning
            .into_iter()
            .try_for_each(|name| remove(&self.root.join(name), fs::remove_dir_all))
    }

    /// Removes everything.
    pub(super) fn empty(&mut self) -> Result<(), RetainError> {
        remove(&self.path, fs::remove_dir_all)
    }

    /// Moves everything back to where it was.
    pub(super) fn put_back(&mut self) -> Result<Restored, RetainError> {
        let mut restored = Restored::default();
        // The newest first: it has the files that a whole chain needs.
        for (_, batch) in self.batches()?.into_iter().rev() {
            for folder in Folder::list(&batch).map_err(|source| stuck(&batch, source))? {
                self.put_back_writer(&folder, &mut restored)?;
            }
            remove(&batch, fs::remove_dir_all)?;
        }
        Ok(restored)
    }

    fn put_back_writer(&self, from: &Folder, restored: &mut Restored) -> Result<(), RetainError> {
        let to = self.root.join(from.writer.to_string());
        let is_whole = !to.exists();
        // A folder without its seal would be taken for that of a dead writer, so it gets its name at the end.
        let into = if is_whole {
            let into = self.root.join(format!("{RETURNING}{}", from.writer));
            self.files
                .create_folder(&into)
                .map_err(|source| stuck(&into, source))?;
            for file in [from.head_path(), from.seal_path()] {
                if file.exists() {
                    self.move_into(&file, &into)?;
                }
            }
            into
        } else {
            to.clone()
        };
        let segments = from
            .segments()
            .map_err(|source| stuck(&from.path, source))?;
        // The newest first, so that the chain never has a gap.
        for found in segments.into_iter().rev() {
            restored.entries +=
                entries(&found.path).map_err(|source| stuck(&found.path, source))?;
            restored.bytes += fs::metadata(&found.path).map_or(0, |data| data.len());
            if !into.join(segment::name(found.number)).exists() {
                self.move_into(&found.path, &into)?;
            }
        }
        if is_whole {
            self.files
                .rename(&into, &to)
                .map_err(|source| stuck(&into, source))?;
        }
        Ok(())
    }

    /// The folders in it and when they were made, oldest first.
    fn batches(&self) -> Result<Vec<(Timestamp, PathBuf)>, RetainError> {
        let names = folder::names(&self.path).map_err(|source| stuck(&self.path, source))?;
        let batch = |name: String| {
            let when = Timestamp::from_microsecond(name.parse().ok()?).ok()?;
            Some((when, self.path.join(name)))
        };
        let mut batches: Vec<_> = names.into_iter().filter_map(batch).collect();
        batches.sort();
        Ok(batches)
    }

    fn move_into(&self, file: &Path, folder: &Path) -> Result<(), RetainError> {
        let to = folder.join(file.file_name().unwrap_or_default());
        let moved = self.files.rename(file, &to);
        moved.map_err(|source| stuck(file, source))
    }

    fn place(&self, now: Timestamp, folder: &Folder) -> Result<PathBuf, RetainError> {
        let batch = self.path.join(now.as_microsecond().to_string());
        let place = batch.join(folder.writer.to_string());
        self.files
            .create_folder(&place)
            .map_err(|source| stuck(&place, source))?;
        Ok(place)
    }
}

/// Where the trash of a log is.
pub(crate) fn path(root: &Path) -> PathBuf {
    root.join("trash")
}

/// How many entries a segment has.
fn entries(path: &Path) -> io::Result<u64> {
    let (Some(first), Some(last)) = (read::first_line(path)?, read::last_line(path)?) else {
        return Ok(0);
    };
    let first = line::parse_unchecked(&first)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(last.seq.saturating_sub(first.front.seq) + 1)
}
