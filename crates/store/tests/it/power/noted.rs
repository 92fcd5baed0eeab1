//! A disk that notes every step, and can make the folder that a power cut after any of them leaves.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use callgate_gate::CallId;
use callgate_store::{Disk, Durability, RealDisk, SegmentFile};

use super::left_over::{LeftOver, Loss};

#[derive(Debug, Clone)]
pub(crate) enum Step {
    FolderMade {
        at: PathBuf,
    },
    FileMade {
        at: PathBuf,
        id: usize,
    },
    Written {
        id: usize,
        offset: u64,
        bytes: Vec<u8>,
    },
    Cut {
        id: usize,
        length: u64,
    },
    Synced {
        id: usize,
    },
    Renamed {
        from: PathBuf,
        to: PathBuf,
    },
    Linked {
        from: PathBuf,
        to: PathBuf,
    },
    Removed {
        at: PathBuf,
    },
    FolderSynced {
        at: PathBuf,
    },
    Answered {
        id: CallId,
    },
}

#[derive(Debug)]
pub(crate) struct NotedDisk {
    root: PathBuf,
    notes: Arc<Mutex<Notes>>,
}

#[derive(Debug, Default)]
struct Notes {
    steps: Vec<Step>,
    files: usize,
    names: BTreeMap<PathBuf, usize>,
}

#[derive(Debug)]
struct NotedFile {
    id: usize,
    file: Box<dyn SegmentFile>,
    notes: Arc<Mutex<Notes>>,
}

impl Notes {
    fn make(&mut self, at: PathBuf) -> usize {
        self.files += 1;
        let id = self.files;
        self.names.insert(at.clone(), id);
        self.steps.push(Step::FileMade { at, id });
        id
    }

    /// A file under another name, with all its content.
    fn write_whole(&mut self, at: PathBuf, bytes: &[u8], is_synced: bool) {
        let id = self.make(at);
        self.steps.push(Step::Written {
            id,
            offset: 0,
            bytes: bytes.to_vec(),
        });
        if is_synced {
            self.steps.push(Step::Synced { id });
        }
    }

    fn rename(&mut self, from: PathBuf, to: PathBuf, is_synced: bool) {
        for (path, id) in std::mem::take(&mut self.names) {
            if !path.starts_with(&from) {
                self.names.insert(path, id);
                continue;
            }
            let rest = path.strip_prefix(&from).unwrap();
            let path = match rest == Path::new("") {
                true => to.clone(),
                false => to.join(rest),
            };
            self.names.insert(path, id);
        }
        self.steps.push(Step::Renamed {
            from,
            to: to.clone(),
        });
        if is_synced {
            self.sync_folder(&to);
        }
    }

    fn sync_folder(&mut self, of: &Path) {
        let at = of.parent().unwrap().to_owned();
        self.steps.push(Step::FolderSynced { at });
    }
}

impl NotedDisk {
    pub(crate) fn new(root: &Path) -> Arc<Self> {
        Arc::new(Self {
            root: root.to_owned(),
            notes: Arc::default(),
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn note_answer(&self, id: CallId) {
        self.notes().steps.push(Step::Answered { id });
    }

    pub(crate) fn steps(&self) -> usize {
        self.notes().steps.len()
    }

    /// The last step before a cut.
    pub(crate) fn step(&self, cut: usize) -> String {
        let notes = self.notes();
        let step = cut.checked_sub(1).map(|at| &notes.steps[at]);
        let mut text = format!("{step:?}");
        text.truncate(200);
        text
    }

    /// The calls that were answered before the cut.
    pub(crate) fn answered(&self, cut: usize) -> Vec<CallId> {
        let notes = self.notes();
        let answered = |step: &Step| match step {
            Step::Answered { id } => Some(*id),
            _ => None,
        };
        notes.steps[..cut].iter().filter_map(answered).collect()
    }

    /// Makes what is on the disk after a power cut behind this many steps.
    pub(crate) fn cut(&self, steps: usize, loss: Loss, into: &Path) {
        let mut left = LeftOver::new(loss, steps as u64);
        for step in &self.notes().steps[..steps] {
            left.take(step);
        }
        left.write(into);
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap()
    }

    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap().to_owned()
    }
}

impl Disk for NotedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        let mut notes = self.notes();
        let id = notes.make(self.relative(path));
        Ok(Box::new(NotedFile {
            id,
            file: RealDisk.create(path)?,
            notes: Arc::clone(&self.notes),
        }))
    }

    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        let mut notes = self.notes();
        let is_synced = durability == Durability::Power;
        let new = self.relative(&path.with_extension("new"));
        notes.write_whole(new.clone(), bytes, is_synced);
        notes.rename(new, self.relative(path), is_synced);
        RealDisk.replace(path, bytes, Durability::Process)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let at = self.relative(path);
        self.notes().steps.push(Step::FolderSynced { at });
        Ok(())
    }

    fn create_once(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut notes = self.notes();
        let (new, to) = (
            self.relative(&path.with_extension("fresh")),
            self.relative(path),
        );
        notes.write_whole(new.clone(), bytes, true);
        if !path.exists() {
            let id = notes.names[&new];
            notes.names.insert(to.clone(), id);
            notes.steps.push(Step::Linked {
                from: new.clone(),
                to: to.clone(),
            });
        }
        notes.names.remove(&new);
        notes.steps.push(Step::Removed { at: new });
        notes.sync_folder(&to);
        RealDisk.create_once(path, bytes)
    }

    fn create_folder(&self, path: &Path, durability: Durability) -> io::Result<()> {
        let mut notes = self.notes();
        let missing: Vec<_> = path.ancestors().take_while(|path| !path.exists()).collect();
        for made in missing.into_iter().rev() {
            let at = self.relative(made);
            notes.steps.push(Step::FolderMade { at: at.clone() });
            if durability == Durability::Power {
                notes.sync_folder(&at);
            }
        }
        RealDisk.create_folder(path, Durability::Process)
    }

    fn rename(&self, from: &Path, to: &Path, durability: Durability) -> io::Result<()> {
        let is_synced = durability == Durability::Power;
        self.notes()
            .rename(self.relative(from), self.relative(to), is_synced);
        RealDisk.rename(from, to, Durability::Process)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let mut notes = self.notes();
        let id = notes.names[&self.relative(path)];
        notes.steps.push(Step::Synced { id });
        Ok(())
    }
}

impl SegmentFile for NotedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut notes = self.notes.lock().unwrap();
        notes.steps.push(Step::Written {
            id: self.id,
            offset,
            bytes: bytes.to_vec(),
        });
        self.file.write_at(offset, bytes)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut notes = self.notes.lock().unwrap();
        notes.steps.push(Step::Cut {
            id: self.id,
            length,
        });
        self.file.truncate(length)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        self.file.reserve(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        let mut notes = self.notes.lock().unwrap();
        notes.steps.push(Step::Synced { id: self.id });
        Ok(())
    }
}
