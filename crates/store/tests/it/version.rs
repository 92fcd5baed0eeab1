//! A log or an index of a newer form is refused, and not a byte of it is changed.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use callgate_record::Store as _;
use callgate_store::{Index, IndexError, Log, OpenError, ReadError, VersionError, heads, verify};

use crate::support::{assert_sound, forwarding, new_id, open, options};

/// Every file below a folder with its content.
fn everything(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(everything(&path));
        } else {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

#[test]
fn a_log_carries_its_version() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().unwrap();
    let version = dir.path().join("activity/version");
    assert_eq!(fs::read_to_string(&version).unwrap(), "1\n");
    fs::remove_file(&version).unwrap();
    open(dir.path()).close().unwrap();
    assert!(version.exists(), "a log from before there was one gets it");
    assert_sound(dir.path());
}

#[test]
fn a_log_under_its_old_name_stays_in_use() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().unwrap();
    fs::rename(dir.path().join("activity"), dir.path().join("log")).unwrap();
    let log = open(dir.path());
    log.append(&forwarding(new_id())).unwrap();
    log.close().unwrap();
    assert!(!dir.path().join("activity").exists());
    assert_eq!(
        heads(dir.path()).unwrap().len(),
        2,
        "both writers are in it"
    );
    assert_sound(dir.path());
}

#[test]
fn two_logs_under_both_names_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().unwrap();
    fs::rename(dir.path().join("activity"), dir.path().join("log")).unwrap();
    fs::create_dir(dir.path().join("activity")).unwrap();
    let before = everything(dir.path());
    let error = Log::open(options(dir.path())).unwrap_err();
    let is_refused = matches!(error, OpenError::Version(VersionError::Two { .. }));
    assert!(is_refused, "{error}");
    assert!(matches!(
        verify(dir.path(), None),
        Err(ReadError::Version(VersionError::Two { .. }))
    ));
    assert_eq!(everything(dir.path()), before);
}

#[test]
fn a_log_of_a_newer_version_is_refused_and_left_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    log.append(&forwarding(new_id())).unwrap();
    drop(log);
    fs::write(dir.path().join("activity/version"), "7\n").unwrap();
    let before = everything(dir.path());

    let error = Log::open(options(dir.path())).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(
            error,
            OpenError::Version(VersionError::Newer {
                found: 7,
                known: 1,
                ..
            })
        ),
        "{text}"
    );
    assert!(
        text.ends_with("gives format 7, and this version reads formats up to 1; upgrade callgate"),
        "{text}"
    );
    assert!(matches!(
        Index::open(dir.path()),
        Err(IndexError::Version(VersionError::Newer { .. }))
    ));
    assert!(matches!(
        verify(dir.path(), None),
        Err(ReadError::Version(VersionError::Newer { .. }))
    ));
    assert!(matches!(
        heads(dir.path()),
        Err(ReadError::Version(VersionError::Newer { .. }))
    ));
    assert_eq!(everything(dir.path()), before);
}

#[test]
fn a_log_beside_an_index_of_a_newer_version_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().unwrap();
    Index::open(dir.path()).unwrap().catch_up().unwrap();
    let database = rusqlite::Connection::open(dir.path().join("index.sqlite")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let before = everything(dir.path());
    let error = Log::open(options(dir.path())).unwrap_err();
    assert!(
        matches!(error, OpenError::Index(IndexError::Newer { found: 99, .. })),
        "{error}"
    );
    assert_eq!(everything(dir.path()), before);
}

#[test]
fn an_invalid_index_file_does_not_prevent_a_start() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.sqlite"), [0xff; 200]).unwrap();
    open(dir.path()).close().unwrap();
    Index::open(dir.path()).unwrap().catch_up().unwrap();
}
