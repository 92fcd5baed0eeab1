//! The private folder for temporary files of a sandbox that shares the system's own.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// How many names are tried before something else must be wrong.
const ATTEMPTS: u32 = 100;

/// A folder that is removed with its owner.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn make() -> io::Result<Self> {
        let parent = std::env::temp_dir();
        let own = std::process::id();
        // The name need not be secret: a folder that is there already is not used.
        for attempt in 0..ATTEMPTS {
            let path = parent.join(format!("callgate-sandbox-{own}-{attempt}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If this fails, an empty or small folder stays behind in the system's folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
