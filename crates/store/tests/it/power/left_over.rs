//! What a power cut leaves of the steps that were taken on a disk.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::noted::Step;

/// What a cut takes of what is not synced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Loss {
    All,
    Nothing,
    /// Each folder loses its newest names from some moment on, and each file some of its blocks or its end.
    Random(u64),
}

/// What is on the disk and what is not yet.
#[derive(Debug)]
pub(crate) struct LeftOver {
    loss: Loss,
    random: u64,
    files: BTreeMap<usize, FileState>,
    folders: BTreeMap<PathBuf, FolderState>,
}

#[derive(Debug, Clone, Default)]
struct FileState {
    synced: Vec<u8>,
    now: Vec<u8>,
}

/// The names in a folder after each change since its last sync; the first ones are on the disk.
#[derive(Debug, Clone)]
struct FolderState(Vec<BTreeMap<String, Named>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    File(usize),
    Folder,
}

impl Default for FolderState {
    fn default() -> Self {
        Self(vec![BTreeMap::new()])
    }
}

const BLOCK: usize = 512;

impl LeftOver {
    pub(crate) fn new(loss: Loss, cut: u64) -> Self {
        let seed = match loss {
            Loss::All | Loss::Nothing => 0,
            Loss::Random(seed) => seed,
        };
        Self {
            loss,
            random: cut * 1_000_003 + seed * 7_919 + 1,
            files: BTreeMap::new(),
            folders: BTreeMap::from([(PathBuf::new(), FolderState::default())]),
        }
    }

    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::FolderMade { at } => {
                self.folders.insert(at.clone(), FolderState::default());
                self.name(at, Some(Named::Folder));
            }
            Step::FileMade { at, id } => {
                self.files.insert(*id, FileState::default());
                self.name(at, Some(Named::File(*id)));
            }
            Step::Written { id, offset, bytes } => {
                let now = &mut self.files.get_mut(id).unwrap().now;
                let offset = usize::try_from(*offset).unwrap();
                now.resize(now.len().max(offset + bytes.len()), 0);
                now[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            Step::Cut { id, length } => {
                let length = usize::try_from(*length).unwrap();
                self.files.get_mut(id).unwrap().now.truncate(length);
            }
            Step::Synced { id } => {
                let file = self.files.get_mut(id).unwrap();
                file.synced = file.now.clone();
            }
            Step::Renamed { from, to } => {
                let named = self.named(from);
                let folder = from.parent().unwrap();
                assert_eq!(folder, to.parent().unwrap(), "one folder, so one change");
                let mut names = self.folders[folder].0.last().unwrap().clone();
                names.remove(&name(from));
                names.insert(name(to), named);
                self.folders.get_mut(folder).unwrap().0.push(names);
                if named == Named::Folder {
                    let state = self.folders.remove(from).unwrap();
                    self.folders.insert(to.clone(), state);
                }
            }
            Step::Linked { from, to } => {
                let named = self.named(from);
                self.name(to, Some(named));
            }
            Step::Removed { at } => self.name(at, None),
            Step::FolderSynced { at } => {
                let names = &mut self.folders.get_mut(at).unwrap().0;
                names.drain(..names.len() - 1);
            }
            Step::Answered { .. } => {}
        }
    }

    fn named(&self, at: &Path) -> Named {
        self.folders[at.parent().unwrap()].0.last().unwrap()[&name(at)]
    }

    fn name(&mut self, at: &Path, named: Option<Named>) {
        let versions = &mut self.folders.get_mut(at.parent().unwrap()).unwrap().0;
        let mut names = versions.last().unwrap().clone();
        match named {
            Some(named) => _ = names.insert(name(at), named),
            None => _ = names.remove(&name(at)),
        }
        versions.push(names);
    }

    pub(crate) fn write(mut self, into: &Path) {
        let folders = std::mem::take(&mut self.folders);
        self.write_folder(&folders, &PathBuf::new(), into);
    }

    fn write_folder(&mut self, folders: &BTreeMap<PathBuf, FolderState>, at: &Path, into: &Path) {
        // A folder that was renamed and whose old name the cut brought back has lost what is in it, at most.
        let Some(FolderState(versions)) = folders.get(at) else {
            return;
        };
        let version = match self.loss {
            Loss::All => 0,
            Loss::Nothing => versions.len() - 1,
            Loss::Random(_) => self.below(versions.len()),
        };
        for (name, named) in &versions[version] {
            let path = into.join(name);
            match named {
                Named::Folder => {
                    fs::create_dir(&path).unwrap();
                    self.write_folder(folders, &at.join(name), &path);
                }
                Named::File(id) => {
                    let content = self.content(*id);
                    fs::write(&path, content).unwrap();
                }
            }
        }
    }

    fn content(&mut self, id: usize) -> Vec<u8> {
        let FileState { synced, now } = self.files[&id].clone();
        match self.loss {
            Loss::All => synced,
            Loss::Nothing => now,
            Loss::Random(_) => match self.below(2) {
                0 => self.cut_off(&synced, now),
                _ => self.with_holes(&synced, now),
            },
        }
    }

    fn cut_off(&mut self, synced: &[u8], now: Vec<u8>) -> Vec<u8> {
        let lost = now.len().saturating_sub(synced.len());
        let kept = synced.len().min(now.len()) + self.below(lost + 1);
        now[..kept].to_vec()
    }

    fn with_holes(&mut self, synced: &[u8], mut now: Vec<u8>) -> Vec<u8> {
        for from in (0..now.len()).step_by(BLOCK) {
            let to = (from + BLOCK).min(now.len());
            let is_synced = synced.get(from..to) == Some(&now[from..to]);
            if is_synced || self.below(2) == 0 {
                continue;
            }
            for (at, byte) in now[from..to].iter_mut().enumerate() {
                *byte = synced.get(from + at).copied().unwrap_or(0);
            }
        }
        now
    }

    fn below(&mut self, limit: usize) -> usize {
        // A linear congruential generator: any spread will do, and a failing seed repeats.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.random >> 33).unwrap() % limit
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}
