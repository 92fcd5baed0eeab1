//! The process that a box is for.

use std::path::{Path, PathBuf};

use callgate_process::sandbox::is_in_every_sandbox;

/// The process in a box.
#[derive(Debug, Clone, Default)]
pub struct Occupant {
    /// The server or plugin in the activity log; `None` if it is neither.
    pub server: Option<String>,
    /// What it is, for the activity log: `server`, `agent claude`.
    pub title: String,
    /// The program as it will be started. A box contains its own program.
    pub program: PathBuf,
    /// The search path of the process, for a program without a folder.
    pub search_path: Option<String>,
    /// Folders of the process itself, which it may change: a plugin's folder for its socket, a step's home.
    pub own_folders: Vec<PathBuf>,
    /// A private folder for the proxy's socket, if there is one that lives as long as the process.
    pub folder: Option<PathBuf>,
    /// The program that it is started under, to find out whether it will have a network namespace; `None` if that is open.
    pub warden_program: Option<PathBuf>,
}

impl Occupant {
    /// The paths of the program outside of the system's folders: as it is named, and where links lead.
    pub(crate) fn program_paths(&self) -> Vec<PathBuf> {
        let Some(named) = self.named() else {
            return Vec::new();
        };
        let real = named.canonicalize().ok().filter(|real| *real != named);
        let is_own = |path: &PathBuf| !is_in_every_sandbox(path);
        [Some(named), real]
            .into_iter()
            .flatten()
            .filter(is_own)
            // A program that is missing is reported when it is started.
            .filter(|path| path.exists())
            .collect()
    }

    /// The program from the root on; `None` if it cannot be found, which is reported when it is started.
    fn named(&self) -> Option<PathBuf> {
        let has_folder = self.program.components().count() > 1;
        if has_folder || self.program.is_absolute() {
            return std::path::absolute(&self.program).ok();
        }
        let folders = std::env::split_paths(self.search_path.as_deref()?);
        let in_folder = |folder: PathBuf| Path::new(&folder).join(&self.program);
        folders.map(in_folder).find(|program| program.is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(program: &Path, search_path: &str) -> Vec<PathBuf> {
        Occupant {
            program: program.to_owned(),
            search_path: Some(search_path.to_owned()),
            ..Occupant::default()
        }
        .program_paths()
    }

    #[test]
    fn a_program_outside_of_the_system_is_found_with_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (real, link) = (root.join("real"), root.join("link"));
        std::fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let search = format!("/nowhere:{}", root.display());
        assert_eq!(
            paths(Path::new("real"), &search),
            std::slice::from_ref(&real)
        );
        assert_eq!(
            paths(Path::new("link"), &search),
            [link.clone(), real.clone()]
        );
        assert_eq!(paths(&link, ""), [link, real]);
        assert_eq!(paths(Path::new("missing"), &search), Vec::<PathBuf>::new());
        assert_eq!(paths(Path::new("/bin/sh"), ""), Vec::<PathBuf>::new());
    }
}
