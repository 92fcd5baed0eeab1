//! Making files, folders and mounts in the new root folder.

use std::ffi::CStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_bind_recursive};

pub(super) fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), make_folder)
}

/// Mostly only the folder itself is missing, or nothing.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => Ok(()),
        Err(_) => fs::create_dir_all(path),
    }
}

pub(super) fn make_file(path: &Path) -> io::Result<()> {
    let make = || OpenOptions::new().create(true).append(true).open(path);
    make().or_else(|_| make_parent(path).and_then(|()| make()))?;
    Ok(())
}

/// With all mounts below, because a user namespace may not uncover what a mount covers.
pub(super) fn bind(source: &Path, target: &Path) -> io::Result<()> {
    Ok(mount_bind_recursive(source, target)?)
}

pub(super) fn file_system(kind: &str, target: impl AsRef<Path>, options: &CStr) -> io::Result<()> {
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if kind != "tmpfs" {
        flags |= MountFlags::NOEXEC;
    }
    if kind == "devpts" {
        flags -= MountFlags::NODEV;
    }
    Ok(mount(kind, target.as_ref(), kind, flags, options)?)
}
