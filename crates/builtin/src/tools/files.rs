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
    roots::{Place, Refused},
};

/// Bits of a file's mode that are kept.
const MODE: u32 = 0o7777;

/// Opens a regular file for reading. Anything else, a pipe above all, could keep its reader for ever.
pub(crate) fn open(place: &Place<'_>) -> Result<File, ToolFailed> {
    let file = open_at_once(&place.root.dir, &place.inside);
    let file = file.map_err(|error| place.failed(error))?;
    let kind = file.metadata().map_err(|error| place.failed(error))?;
    if kind.is_dir() {
        return Err(ToolFailed::told(format!("`{}` is a folder", place.asked())));
    }
    if !kind.is_file() {
        let what = format!("`{}` is not a regular file", place.asked());
        return Err(ToolFailed::told(what));
    }
    Ok(place.checked(file)?)
}

/// Opens a regular file below a folder for a search. A walk saw a regular file there, but something else may have taken
/// its place since; what cannot be used is passed over.
pub(crate) fn open_below(place: &Place<'_>, inside: &Path) -> Option<File> {
    let file = open_at_once(&place.root.dir, &place.inside.join(inside)).ok()?;
    let is_file = file.metadata().is_ok_and(|data| data.is_file());
    is_file.then(|| place.checked(file).ok()).flatten()
}

/// Opens for reading without waiting for the writer of a pipe.
fn open_at_once(dir: &Dir, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    options
        .read(true)
        .custom_flags(i32::try_from(nonblocking).unwrap_or_default());
    Ok(dir.open_with(path, &options)?.into_std())
}

/// Puts `content` where the file is, or is to be: at once, with the mode that was there.
pub(crate) fn replace(place: &Place<'_>, content: &[u8]) -> Result<(), ToolFailed> {
    let Some(name) = place
        .inside
        .file_name()
        .filter(|_| place.inside != Path::new("."))
    else {
        return Err(ToolFailed::told(format!("`{}` is a folder", place.asked())));
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
    // Where the folder is by now: a link may have been put in the way.
    let folder = place.checked(dir.try_clone().map_err(failed)?.into_std_file());
    let folder = folder?;
    if place.roots.protects_in(&folder, name) {
        return Err(Refused::Protected(place.asked().to_owned()).into());
    }
    let mode = mode_of(&dir, name, place)?;
    let fresh = format!(".callgate-{}.tmp", Ulid::generate());
    let written =
        write_new(&dir, &fresh, content, mode).and_then(|()| dir.rename(&fresh, &dir, name));
    written.map_err(|error| {
        // It may not have been made at all.
        let _ = dir.remove_file(&fresh);
        place.failed(error).into()
    })
}

/// The mode of the file that is to be replaced; `None` where there is none yet.
fn mode_of(dir: &Dir, name: &OsStr, place: &Place<'_>) -> Result<Option<u32>, ToolFailed> {
    let found = match dir.symlink_metadata(name) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(place.failed(error).into()),
    };
    if found.is_dir() {
        return Err(ToolFailed::told(format!("`{}` is a folder", place.asked())));
    }
    // A link would have been followed: it was put there a moment ago.
    if !found.is_file() {
        let what = format!("`{}` is not a regular file", place.asked());
        return Err(ToolFailed::told(what));
    }
    Ok(Some(found.mode() & MODE))
}

fn write_new(dir: &Dir, name: &str, content: &[u8], mode: Option<u32>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if mode.is_some() {
        options.mode(0o600);
    }
    let mut file = dir.open_with(name, &options)?.into_std();
    file.write_all(content)?;
    if let Some(mode) = mode {
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// The folder that a search starts in, looked at through its root.
pub(crate) fn is_folder(place: &Place<'_>) -> Result<bool, Refused> {
    let found = place.root.dir.metadata(&place.inside);
    Ok(found.map_err(|error| place.failed(error))?.is_dir())
}
