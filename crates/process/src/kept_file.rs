//! Files that survive a power cut: written under another name, synced and then named, with the folder synced after it.
//!
//! Without the first sync a cut leaves an empty file under the right name, and without the second one no file.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// When a change must be on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Before the function returns.
    Now,
    /// When the kernel gets to it. A reader still sees the old content or the new one.
    Later,
}

/// Puts `bytes` at `path` as a whole, readable by its owner alone.
pub fn replace(path: &Path, bytes: &[u8], sync: Sync) -> io::Result<()> {
    let new = beside(path, "new");
    let mut file = private().truncate(true).open(&new)?;
    file.write_all(bytes)?;
    match sync {
        Sync::Now => file.sync_data()?,
        Sync::Later => {}
    }
    rename(&new, path, sync)
}

/// Puts `bytes` in place of an existing file, with its permissions and its owner, on the device when this returns. A file that
/// is not replaced is unchanged.
pub fn replace_as_it_is(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let old = fs::metadata(path)?;
    let new = beside(path, "new");
    // Not a file that something else has put there.
    let mut file = private().create_new(true).open(&new)?;
    let written = file.write_all(bytes).and_then(|()| {
        let (user, group) = (Some(old.uid()), Some(old.gid()));
        if (file.metadata()?.uid(), file.metadata()?.gid()) != (old.uid(), old.gid()) {
            std::os::unix::fs::fchown(&file, user, group)?;
        }
        file.set_permissions(old.permissions())?;
        file.sync_data()?;
        rename(&new, path, Sync::Now)
    });
    if written.is_err() {
        // The error is what counts; a file left behind refuses the next attempt.
        let _ = fs::remove_file(&new);
    }
    written
}

/// Makes a file that appears with its whole content, and is on the device when this returns. An existing file stays: of
/// two processes that make one at once, both end up with the same. `fresh` must be a part of a name that no other
/// process uses.
// A hard link fails where the name exists; a rename would replace the other process's file.
pub fn create_once(path: &Path, bytes: &[u8], fresh: &str) -> io::Result<()> {
    let new = beside(path, fresh);
    let made = private().create_new(true).open(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::hard_link(&new, path)
    });
    fs::remove_file(&new)?;
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // Also where the file was there: the process that made it may not have come to this yet.
    sync_folder(folder_of(path))
}

/// Whether a power cut can have left this content: with the file's name on the device and its content not, the file
/// is empty, or as long as it was and full of zeros.
pub fn is_cut(content: &[u8]) -> bool {
    content.iter().all(|byte| *byte == 0)
}

/// Renames a file or folder.
pub fn rename(from: &Path, to: &Path, sync: Sync) -> io::Result<()> {
    fs::rename(from, to)?;
    match sync {
        Sync::Now => {
            sync_folder(folder_of(to))?;
            if folder_of(from) != folder_of(to) {
                sync_folder(folder_of(from))?;
            }
            Ok(())
        }
        Sync::Later => Ok(()),
    }
}

/// Makes a folder, and those above it, that only the owner can enter.
pub fn create_folder(path: &Path, sync: Sync) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = folder_of(path);
    if above != path {
        create_folder(above, sync)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        // Another process made it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    match sync {
        Sync::Now => sync_folder(above),
        Sync::Later => Ok(()),
    }
}

/// Makes the names in a folder survive a power cut.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    let above = path.parent().filter(|above| *above != Path::new(""));
    above.unwrap_or(Path::new("."))
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(extension);
    path.with_file_name(name)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_made_once_keeps_its_first_content() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a/b/key");
        create_folder(folder_of(&path), Sync::Now).expect("it is made");
        for (content, fresh) in [(b"one", "1"), (b"two", "2")] {
            create_once(&path, content, fresh).expect("it is made");
            assert_eq!(fs::read(&path).expect("it is there"), b"one");
        }
        replace(&path, b"three", Sync::Now).expect("it is replaced");
        assert_eq!(fs::read(&path).expect("it is there"), b"three");
        let left = fs::read_dir(folder_of(&path)).expect("a folder").count();
        assert_eq!(left, 1, "nothing else is left there");
    }

    #[test]
    fn only_empty_files_and_zeros_count_as_cut() {
        assert!(is_cut(b"") && is_cut(&[0; 32]));
        assert!(!is_cut(b"\n") && !is_cut(b"1\n") && !is_cut(b"\0a"));
    }
}
