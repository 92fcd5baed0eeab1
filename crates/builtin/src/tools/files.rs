//! Opening and replacing files inside a root.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use cap_std::fs::{Dir, MetadataExt, OpenOptions, OpenOptionsExt};
use ulid::Ulid;

use crate::{
    answer::ToolFailed,
    roots::{PathRefused, RootedPath},
};

/// The permission bits that a replaced file keeps.
const MODE: u32 = 0o7777;

/// Opens a regular file for reading. Anything else is refused: reading a pipe or a device may never end.
pub(crate) fn open(place: &RootedPath<'_>) -> Result<File, ToolFailed> {
    let file = open_at_once(&place.root.dir, &place.inside);
    let file = file.map_err(|error| place.failed(error))?;
    let kind = file.metadata().map_err(|error| place.failed(error))?;
    if kind.is_dir() {
        return Err(ToolFailed::message(format!(
            "`{}` is a folder",
            place.as_requested()
        )));
    }
    if !kind.is_file() {
        let what = format!("`{}` is not a regular file", place.as_requested());
        return Err(ToolFailed::message(what));
    }
    Ok(place.checked(file)?)
}

/// Opens a regular file below a folder for a search. The walk saw a regular file, but it may have been replaced
/// since; what cannot be opened is skipped.
pub(crate) fn open_below(place: &RootedPath<'_>, inside: &Path) -> Option<File> {
    let file = open_at_once(&place.root.dir, &place.inside.join(inside)).ok()?;
    let is_file = file.metadata().is_ok_and(|data| data.is_file());
    is_file.then(|| place.checked(file).ok()).flatten()
}

/// Opens without blocking: opening a pipe would otherwise wait for its writer.
fn open_at_once(dir: &Dir, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    options
        .read(true)
        .custom_flags(i32::try_from(nonblocking).unwrap_or_default());
    Ok(dir.open_with(path, &options)?.into_std())
}

/// Writes `content` to a temporary file and renames it over the target, so readers see the old or the new file.
pub(crate) fn replace(place: &RootedPath<'_>, content: &[u8]) -> Result<(), ToolFailed> {
    let Some(name) = place
        .inside
        .file_name()
        .filter(|_| place.inside != Path::new("."))
    else {
        return Err(ToolFailed::message(format!(
            "`{}` is a folder",
            place.as_requested()
        )));
    };
    let failed = |error: io::Error| place.failed(error);
    let folder = place
        .inside
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let dir = match folder {
        Some(folder) => {
            place.root.dir.create_dir_all(folder).map_err(failed)?;
            place.root.dir.open_dir(folder).map_err(failed)?
        }
        None => place.root.dir.try_clone().map_err(failed)?,
    };
    // Checked on the opened folder: a symlink may have been swapped in since the path was resolved.
    let folder = place.checked(dir.try_clone().map_err(failed)?.into_std_file());
    let folder = folder?;
    if place.roots.protects_in(&folder, name) {
        return Err(PathRefused::Protected(place.as_requested().to_owned()).into());
    }
    let mode = mode_of(&dir, name, place)?;
    let fresh = format!(".callgate-{}.tmp", Ulid::generate());
    let written =
        write_new(&dir, &fresh, content, mode).and_then(|()| dir.rename(&fresh, &dir, name));
    written.map_err(|error| {
        // Best effort: the temporary file may not exist.
        let _ = dir.remove_file(&fresh);
        place.failed(error).into()
    })
}

/// The permissions of the file to be replaced; `None` if there is none.
fn mode_of(dir: &Dir, name: &OsStr, place: &RootedPath<'_>) -> Result<Option<u32>, ToolFailed> {
    let found = match dir.symlink_metadata(name) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(place.failed(error).into()),
    };
    if found.is_dir() {
        return Err(ToolFailed::message(format!(
            "`{}` is a folder",
            place.as_requested()
        )));
    }
    // Resolving the path followed symlinks, so a symlink here was swapped in since.
    if !found.is_file() {
        let what = format!("`{}` is not a regular file", place.as_requested());
        return Err(ToolFailed::message(what));
    }
    Ok(Some(found.mode() & MODE))
}

fn write_new(dir: &Dir, name: &str, content: &[u8], mode: Option<u32>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if mode.is_some() {
        // Private until the file's own mode is set: it may be narrower than the default.
        options.mode(0o600);
    }
    let mut file = dir.open_with(name, &options)?.into_std();
    file.write_all(content)?;
    if let Some(mode) = mode {
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Whether the path is a folder, looked up through the root's descriptor.
pub(crate) fn is_folder(place: &RootedPath<'_>) -> Result<bool, PathRefused> {
    let found = place.root.dir.metadata(&place.inside);
    Ok(found.map_err(|error| place.failed(error))?.is_dir())
}
