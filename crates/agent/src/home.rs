//! The home of a step's agent, made from nothing in the step's folder. The user's own configuration does not apply there.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use crate::folder::Folder;

/// The home, below the step's folder.
const HOME: &str = "home";
/// The folder for temporary files, below the step's folder. OpenCode runs libraries that it unpacks there.
const TEMPORARY: &str = "tmp";
/// The folder that an agent is started in, below the step's folder.
const WORK: &str = "work";
/// The folders that programs look for their files in, below the home.
const XDG: [(&str, &str); 4] = [
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_CACHE_HOME", ".cache"),
];

/// The folders of a step's own home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnHome {
    step: PathBuf,
}

impl OwnHome {
    /// Creates the folders.
    pub(crate) fn make(folder: &Folder) -> io::Result<Self> {
        let own = Self {
            step: folder.path().to_owned(),
        };
        let below_home = XDG.map(|(_, name)| own.path().join(name));
        for path in [own.temporary(), own.work()].into_iter().chain(below_home) {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(path)?;
        }
        Ok(own)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.step.join(HOME)
    }

    /// An empty folder to start an agent in: not the work folder, whose files could configure it.
    pub(crate) fn work(&self) -> PathBuf {
        self.step.join(WORK)
    }

    /// The folders that the agent may change.
    pub(crate) fn folders(&self) -> [PathBuf; 3] {
        [self.path(), self.temporary(), self.work()]
    }

    fn temporary(&self) -> PathBuf {
        self.step.join(TEMPORARY)
    }

    /// The variables that lead programs to this home.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let pair = |name: &str, path: &Path| (name.to_owned(), path.display().to_string());
        let home = self.path();
        let mut variables = vec![pair("HOME", &home), pair("TMPDIR", &self.temporary())];
        variables.extend(XDG.map(|(name, below)| pair(name, &home.join(below))));
        variables
    }
}

/// The home in a step's folder, also if it has none of its own.
pub(crate) fn home_of(folder: &Folder) -> PathBuf {
    folder.path().join(HOME)
}

/// A file in a step's own home, by its path below the step's folder.
pub(crate) fn in_home(name: &str) -> String {
    format!("{HOME}/{name}")
}

/// A file in the folder that an agent is started in.
pub(crate) fn in_work(name: &str) -> String {
    format!("{WORK}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_of_a_steps_home_is_in_the_steps_folder() {
        let folder = Folder::make().unwrap();
        let own = OwnHome::make(&folder).unwrap();
        let variables = own.variables();
        assert_eq!(variables.len(), 6);
        for (name, path) in variables {
            let path = Path::new(&path);
            assert!(path.starts_with(folder.path()), "{name}");
            assert!(path.is_dir(), "{name}");
        }
        assert!(own.work().read_dir().unwrap().next().is_none());
    }
}
