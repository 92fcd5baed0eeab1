//! The files that govern a project: its configuration and everything that the configuration refers to. Each file is
//! read once, so that the content that was compared with the manifest is the content that is used.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use callgate_gate::Digest;
use callgate_process::regular_file;

use crate::{
    Config, FoundPlugin, PluginDirs,
    model::PolicyChoice,
    pin_file::LOCK_FILE,
    trust::{self, Manifest},
};

/// The folders of a project whose content is found without being configured.
const FOLDERS: [&str; 2] = [".callgate", ".awf"];

/// The files that govern in a project.
#[derive(Debug, Default)]
pub(crate) struct Governing {
    manifest: Manifest,
    /// The content of the files that the gateway itself uses, by the path under which they are read.
    contents: BTreeMap<PathBuf, Vec<u8>>,
    /// The folder of the packs among them.
    packs: PathBuf,
}

impl Governing {
    /// Everything that governs beside the configuration `file`.
    pub(crate) fn of(file: &Path, content: &[u8], config: &Config) -> Self {
        let base = file.parent().unwrap_or(Path::new(""));
        let mut governing = Self::default();
        governing.note(file, content);
        if let Some(PolicyChoice::File(policy)) = &config.policy {
            governing.read(policy);
        }
        governing.read(&base.join(LOCK_FILE));
        governing.packs = packs(base, config);
        for pack in files_in(&governing.packs, &["py"]) {
            governing.read(&pack);
        }
        for plugin in config.plugins.values() {
            governing.plugin(&plugin.path);
        }
        for folder in FOLDERS {
            let folder = base.join(folder);
            governing.plugin(&folder.join("plugins.yaml"));
            for plugin in folders_in(&folder.join("plugins")) {
                governing.plugin(&plugin);
            }
            for workflow in files_in(&folder.join("workflows"), &["yaml", "yml"]) {
                governing.look(&workflow);
            }
        }
        governing
    }

    /// The digests by name.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The content of a file as it was read; `None` if it did not exist.
    pub(crate) fn content(&self, file: &Path) -> Option<&[u8]> {
        self.contents.get(file).map(Vec::as_slice)
    }

    /// The packs of a folder as they were read; `None` where the folder is not the project's.
    pub(crate) fn packs(&self, folder: &Path) -> Option<Vec<(PathBuf, Vec<u8>)>> {
        let is_pack = |file: &PathBuf| {
            file.parent() == Some(folder) && file.extension().is_some_and(|end| end == "py")
        };
        let packs = self.contents.iter().filter(|(file, _)| is_pack(file));
        let packs = packs.map(|(file, content)| (file.clone(), content.clone()));
        (folder == self.packs).then(|| packs.collect())
    }

    /// Reads a file that is used.
    fn read(&mut self, file: &Path) {
        if let Some(content) = content(file) {
            self.note(file, &content);
            self.contents.insert(file.to_owned(), content);
        }
    }

    /// Adds the digest of a file that other parts of the gateway read later.
    fn look(&mut self, file: &Path) {
        if let Some(content) = content(file) {
            self.note(file, &content);
        }
    }

    /// Everything that a plugin, or a list of plugins, depends on.
    fn plugin(&mut self, path: &Path) {
        self.look(path);
        let depends_on = match PluginDirs::depends_on(path) {
            Ok(Some(files)) => files,
            Ok(None) | Err(_) => FoundPlugin::at(path, Default::default())
                .map_or_else(|_| Vec::new(), |found| vec![found.program]),
        };
        for file in depends_on {
            self.look(&file);
        }
    }

    fn note(&mut self, file: &Path, content: &[u8]) {
        // A path whose folder does not exist names no file.
        if let Ok(name) = trust::name(file) {
            self.manifest.insert(name, Digest::of(content).to_string());
        }
    }
}

/// The folder of a project's packs.
pub(super) fn packs(base: &Path, config: &Config) -> PathBuf {
    let packs = config.code.packs.clone();
    packs.unwrap_or_else(|| base.join(".callgate/packs"))
}

fn content(file: &Path) -> Option<Vec<u8>> {
    regular_file::read(file).ok()
}

fn files_in(folder: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let is_wanted = |path: &PathBuf| {
        let end = path.extension().and_then(|end| end.to_str());
        end.is_some_and(|end| ends.contains(&end))
    };
    entries(folder).filter(is_wanted).collect()
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    entries(folder).filter(|path| path.is_dir()).collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}
