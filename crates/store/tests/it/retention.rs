//! What is dropped is named, and the rest still verifies.

use std::path::Path;

use callgate_record::{ActivityFilter, RetentionLimits, Status, Store as _};
use callgate_store::{Index, Log, retain};

use crate::support::{
    assert_sound, counted, finished, folders, forwarding, ids, lines, new_id, open, options,
    segments,
};

const NOTHING: RetentionLimits = RetentionLimits {
    days: 90,
    max_mb: 0,
};

fn open_small(dir: &Path) -> Log {
    let mut options = options(dir);
    options.segment_bytes = 2500;
    options.head_every = 5;
    Log::open(options).unwrap()
}

fn write_calls(log: &Log, count: usize) {
    for _ in 0..count {
        let id = new_id();
        log.append(&forwarding(id)).unwrap();
        log.append_or_queue(finished(id)).unwrap();
    }
}

fn total(dir: &Path) -> u64 {
    let mut index = Index::open(dir).unwrap();
    index.catch_up().unwrap();
    let all = ActivityFilter::default();
    let told = index.query(&all).unwrap().total;
    assert_eq!(told, counted(&mut index, &all), "the tally is right");
    told
}

#[test]
fn retention_replaces_old_segments_by_a_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let log = open_small(dir.path());
    write_calls(&log, 20);
    assert_eq!(total(dir.path()), 20);
    let before = segments(&folders(dir.path())[0]).len() as u64;
    assert!(before > 4);
    let dropped = retain(
        &log,
        RetentionLimits {
            days: 0,
            max_mb: 1024,
        },
    )
    .unwrap();
    assert_eq!(
        dropped.drops.len() as u64,
        before - 1,
        "the segment that is written to stays"
    );
    assert_sound(dir.path());
    let left = ids(dir.path(), "forwarding").len() as u64;
    assert_eq!(total(dir.path()), left);
    let mut rebuilt = Index::open(dir.path()).unwrap();
    rebuilt.rebuild().unwrap();
    assert_eq!(
        rebuilt.query(&ActivityFilter::default()).unwrap().total,
        left
    );
    write_calls(&log, 5);
    log.close().unwrap();
    assert_sound(dir.path());
}

#[test]
fn a_segment_missing_without_a_checkpoint_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let log = open_small(dir.path());
    write_calls(&log, 20);
    retain(&log, NOTHING).unwrap();
    log.close().unwrap();
    let next = &segments(&folders(dir.path())[0])[0];
    std::fs::remove_file(next).unwrap();
    assert!(!callgate_store::verify(dir.path(), None).unwrap().is_sound());
}

#[test]
fn repeated_restarts_with_retention_stay_verifiable_and_bounded() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..12 {
        let log = open_small(dir.path());
        write_calls(&log, 6);
        if round % 3 != 0 {
            retain(&log, NOTHING).unwrap();
        }
        assert_sound(dir.path());
        if round % 2 == 0 {
            log.close().unwrap();
        }
    }
    assert!(folders(dir.path()).len() <= 3, "{:?}", folders(dir.path()));
    let checkpoints = lines(dir.path())
        .iter()
        .filter(|line| line["kind"] == "checkpoint")
        .count();
    assert!(
        checkpoints < 40,
        "{checkpoints} checkpoints are carried along"
    );
    assert_sound(dir.path());
}

#[test]
fn a_dead_writers_calls_are_closed_before_its_log_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let living = open(dir.path());
    let dead = open_small(dir.path());
    let call = new_id();
    dead.append(&forwarding(call)).unwrap();
    drop(dead);
    retain(&living, NOTHING).unwrap();
    assert_eq!(folders(dir.path()).len(), 2, "it has not been closed yet");
    let closer = open(dir.path());
    let mut index = Index::open(dir.path()).unwrap();
    index.catch_up().unwrap();
    assert_eq!(
        index.get(call).unwrap().unwrap().status,
        Some(Status::Unknown)
    );
    retain(&closer, NOTHING).unwrap();
    assert_eq!(folders(dir.path()).len(), 2, "the closed one is gone");
    index.catch_up().unwrap();
    assert!(index.get(call).unwrap().is_none());
    assert_sound(dir.path());
}

#[test]
fn folders_of_starts_that_died_early_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().unwrap();
    let stillborn = dir.path().join("activity/01J00000000000000000000000");
    std::fs::create_dir(&stillborn).unwrap();
    let unborn = dir.path().join("activity/.new-01J00000000000000000000001");
    std::fs::create_dir(&unborn).unwrap();
    let log = open(dir.path());
    assert!(!unborn.exists());
    assert!(stillborn.join("sealed").exists());
    assert_sound(dir.path());
    retain(&log, RetentionLimits { days: 1, max_mb: 1 }).unwrap();
    assert!(!stillborn.exists());
    assert_sound(dir.path());
}
