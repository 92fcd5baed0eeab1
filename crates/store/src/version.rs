//! The format of the log, a number in the file `activity/version`. A log of a newer format is left alone: this
//! version could misread it, and the newer one could misread its entries.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use callgate_process::kept_file;

use crate::{
    disk::{self, Disk},
    folder,
};

/// The format that this version reads and writes.
const FORM: u64 = 1;

/// Why this version cannot use the log of a data folder.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// A newer version made it.
    #[error(
        "the activity log was written by a newer callgate: `{path}` gives format {found}, and this version reads formats up to {known}; upgrade callgate"
    )]
    Newer {
        path: PathBuf,
        found: u64,
        known: u64,
    },
    /// The file does not hold a format number.
    #[error("`{path}` is malformed: expected a format number such as `{FORM}`")]
    Malformed { path: PathBuf },
    /// There is a second log, under the folder's old name. Reading only one would leave calls out in silence.
    #[error(
        "there are two activity logs, `{log}` and `{old}`: an older callgate wrote to this data folder after a newer one; stop every gateway on it, and move one of the two folders away"
    )]
    Two { log: PathBuf, old: PathBuf },
    /// The file cannot be read or created.
    #[error("could not use `{path}`: {source}")]
    Unusable { path: PathBuf, source: io::Error },
}

/// Refuses a log of a newer format. A log without the file has format 1, or does not exist yet.
pub(crate) fn check(log: &Path) -> Result<(), VersionError> {
    read(log).map(|_| ())
}

/// The same, and creates a missing file.
pub(crate) fn settle(log: &Path, disk: &dyn Disk) -> Result<(), VersionError> {
    if read(log)?.is_some() {
        return Ok(());
    }
    let path = path(log);
    disk::create_or_mend(disk, &path, format!("{FORM}\n").as_bytes())
        .map_err(|source| VersionError::Unusable { path, source })?;
    // A newer callgate may have created the file first.
    check(log)
}

fn read(log: &Path) -> Result<Option<u64>, VersionError> {
    if let Some(old) = folder::second_log(log) {
        let log = log.to_owned();
        return Err(VersionError::Two { log, old });
    }
    let path = path(log);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(VersionError::Malformed { path });
        }
        Err(source) => return Err(VersionError::Unusable { path, source }),
    };
    // A power cut can leave such a file where an earlier version made it: the first one.
    if kept_file::is_cut(text.as_bytes()) {
        return Ok(None);
    }
    match text.trim_ascii_end().parse::<u64>() {
        Ok(found) if found > FORM => Err(VersionError::Newer {
            path,
            found,
            known: FORM,
        }),
        Ok(found) if found > 0 => Ok(Some(found)),
        Ok(_) | Err(_) => Err(VersionError::Malformed { path }),
    }
}

fn path(log: &Path) -> PathBuf {
    log.join("version")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;

    fn with_version(text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(path(dir.path()), text).expect("it can be written");
        dir
    }

    #[test]
    fn the_log_version_is_written_once() {
        let dir = tempfile::tempdir().expect("a folder");
        check(dir.path()).expect("no version is the first one");
        assert!(!path(dir.path()).exists(), "looking writes nothing");
        for _ in 0..2 {
            settle(dir.path(), &RealDisk).expect("it is ours");
            let text = fs::read_to_string(path(dir.path())).expect("it is there");
            assert_eq!(text, "1\n");
        }
        let left = fs::read_dir(dir.path()).expect("a folder").count();
        assert_eq!(left, 1, "nothing else is left there");
    }

    #[test]
    fn unknown_log_versions_are_refused() {
        for text in ["1", "1\n", "", "\0\0"] {
            let dir = with_version(text);
            settle(dir.path(), &RealDisk).expect("it is known, or was cut");
            let kept = fs::read_to_string(path(dir.path())).expect("it is there");
            assert_eq!(kept.trim_end(), "1");
        }
        for text in ["2", "2\n", "18446744073709551615\n"] {
            let dir = with_version(text);
            let error = settle(dir.path(), &RealDisk).expect_err("it is newer");
            assert!(matches!(error, VersionError::Newer { .. }), "{error}");
            let kept = fs::read_to_string(path(dir.path())).expect("it is there");
            assert_eq!(kept, text);
        }
        for text in ["0", "-1", "one", "1 2", "99999999999999999999"] {
            let error =
                settle(with_version(text).path(), &RealDisk).expect_err("the version is invalid");
            assert!(matches!(error, VersionError::Malformed { .. }), "{error}");
        }
    }
}
