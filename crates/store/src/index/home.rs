//! Where the files of an index are: in the data folder, or in a folder of its own if that cannot be written.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use callgate_process::kept_file::{self, Sync};

#[derive(Debug)]
pub(super) enum Home {
    BesideLog(PathBuf),
    /// Removed in the end.
    Scratch(PathBuf),
}

impl Home {
    pub(super) fn beside_log(dir: &Path) -> Self {
        Self::BesideLog(dir.to_owned())
    }

    /// A folder of its own.
    pub(super) fn scratch() -> io::Result<Self> {
        let name = format!("callgate-index-{}", ulid::Ulid::generate());
        let path = std::env::temp_dir().join(name);
        kept_file::create_folder(&path, Sync::Later)?;
        Ok(Self::Scratch(path))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::BesideLog(path) | Self::Scratch(path) => path,
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        match self {
            Self::BesideLog(_) => {}
            // What cannot be removed stays in the folder for temporary files.
            Self::Scratch(path) => _ = fs::remove_dir_all(path),
        }
    }
}

/// Whether the error means that this process cannot write there.
pub(super) fn is_read_only(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
    )
}
