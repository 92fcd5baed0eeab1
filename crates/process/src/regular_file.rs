//! Reading files that other programs can replace. Only regular files are read: opening a pipe would wait for a writer, and a
//! device may have no end.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;

/// Opens a regular file for reading. Never blocks, whatever kind of file is there.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(flags).open(path)?;
    // Checked on the open file: checking the path first would leave time to replace it.
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?.read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    #[test]
    fn only_regular_files_are_read_without_blocking() {
        let dir = tempfile::tempdir().expect("the temporary folder is writable");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "text").expect("it is ours");
        std::os::unix::fs::symlink(path("file"), path("link")).expect("it is ours");
        let made = Command::new("mkfifo").arg(path("pipe")).status();
        assert!(made.expect("mkfifo runs").success());
        for name in ["file", "link"] {
            assert_eq!(read(&path(name)).expect("it is a file"), b"text", "{name}");
        }
        for name in ["pipe", ""] {
            let error = read(&path(name)).expect_err("it is not a file");
            assert_eq!(error.to_string(), "not a regular file", "{name}");
        }
        let error = read(Path::new("/dev/zero")).expect_err("it is a device");
        assert_eq!(error.to_string(), "not a regular file");
        let missing = read(&path("missing")).expect_err("there is nothing");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
