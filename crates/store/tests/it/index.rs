//! The index says what the log says, however it was filled.

use std::fs;

use callgate_record::{Activity, ActivityFilter, Store as _};
use callgate_store::{Index, IndexError, Log};

use crate::support::{event, finished, forwarding, new_id, open, options};

fn all(index: &mut Index) -> Vec<String> {
    let mut found = Vec::new();
    let mut see = |activity: Activity| {
        found.push(serde_json::to_string(&activity).unwrap());
        Ok(())
    };
    index
        .for_each(&ActivityFilter::default(), &mut see)
        .unwrap();
    found
}

#[test]
fn a_rebuilt_index_equals_an_incremental_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut grown = Index::open(dir.path()).unwrap();
    for round in 0..4 {
        let mut options = options(dir.path());
        options.segment_bytes = 3000;
        let log = Log::open(options).unwrap();
        for number in 0..12 {
            let id = new_id();
            log.append(&forwarding(id)).unwrap();
            if number % 5 == 0 {
                grown.catch_up().unwrap();
            }
            if number % 4 != 3 {
                log.append_or_queue(finished(id));
            }
            log.append_or_queue(event("tick"));
        }
        if round % 2 == 0 {
            log.close().unwrap();
        }
    }
    grown.catch_up().unwrap();
    let incremental = all(&mut grown);
    assert_eq!(incremental.len(), 4 * 24);
    assert_eq!(
        incremental
            .iter()
            .filter(|record| record.contains(r#""status":"unknown""#))
            .count(),
        12
    );
    grown.rebuild().unwrap();
    assert_eq!(all(&mut grown), incremental);
    assert_eq!(grown.catch_up().unwrap(), 0, "nothing is new");
}

#[test]
fn a_corrupt_index_file_is_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let id = new_id();
    log.append(&forwarding(id)).unwrap();
    Index::open(dir.path()).unwrap().catch_up().unwrap();
    fs::write(
        dir.path().join("index.sqlite"),
        b"this is not a database, despite its name",
    )
    .unwrap();
    let mut index = Index::open(dir.path()).unwrap();
    index.catch_up().unwrap();
    assert_eq!(index.get(id).unwrap().map(|activity| activity.id), Some(id));
}

#[test]
fn an_index_of_a_newer_version_is_left_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    drop(Index::open(dir.path()).unwrap());
    let database = rusqlite::Connection::open(dir.path().join("index.sqlite")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    let error = Index::open(dir.path()).unwrap_err();
    assert!(
        matches!(error, IndexError::Newer { found: 99, .. }),
        "{error}"
    );
    let form: i64 = database
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(form, 99);
}

#[test]
fn an_index_of_an_older_version_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let id = new_id();
    log.append(&forwarding(id)).unwrap();
    let path = dir.path().join("index.sqlite");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(
        "PRAGMA user_version = 4; CREATE TABLE activity (key INTEGER PRIMARY KEY, filling BLOB);
         INSERT INTO activity (filling) VALUES (zeroblob(3000000));",
    )
    .unwrap();
    drop(old);
    let mut index = Index::open(dir.path()).unwrap();
    index.catch_up().unwrap();
    assert_eq!(index.get(id).unwrap().map(|activity| activity.id), Some(id));
    assert!(!index.was_rebuilt(), "no other program has changed it");
    let bytes = fs::metadata(path).unwrap().len();
    assert!(
        bytes < 1_000_000,
        "the room of the old one is free: {bytes}"
    );
}
