//! Writers that die: the next writer to start closes their open calls.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Arc, Barrier},
    thread,
};

use callgate_gate::CallId;
use callgate_record::{ActivityFilter, Status, Store as _};
use callgate_store::Index;

use crate::support::{
    assert_sound, call, copy_folder, entry, finished, folders, forwarding, ids, lines, named_by,
    new_id, open, segments,
};

/// Status by id, of everything that the index has.
fn statuses(dir: &Path) -> Vec<(CallId, Option<Status>)> {
    let mut index = Index::open(dir).unwrap();
    index.catch_up().unwrap();
    let mut found = Vec::new();
    let mut see = |activity: callgate_record::Activity| {
        found.push((activity.id, activity.status));
        Ok(())
    };
    index
        .for_each(&ActivityFilter::default(), &mut see)
        .unwrap();
    found
}

#[test]
fn a_dead_writers_calls_are_closed_once_and_as_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let (done, open_call, held) = (new_id(), new_id(), new_id());
    let log = open(dir.path());
    log.append(&forwarding(done)).unwrap();
    log.append(&forwarding(open_call)).unwrap();
    log.append_or_queue(finished(done));
    let mut pending = call("held", held);
    pending["status"] = "pending".into();
    log.append(&entry(&pending)).unwrap();
    let dead_head = log.head();
    assert_eq!(
        statuses(dir.path())[1],
        (open_call, None),
        "a living writer's call is running"
    );
    drop(log);

    assert_eq!(
        statuses(dir.path())[1].1,
        Some(Status::Unknown),
        "no new writer is needed for that"
    );
    let next = open(dir.path());
    assert_eq!(ids(dir.path(), "unknown"), [open_call.to_string()]);
    assert_eq!(named_by(dir.path(), &next), [dead_head.hash]);
    let expected = [
        (done, Some(Status::Success)),
        (open_call, Some(Status::Unknown)),
        (held, Some(Status::Rejected)),
    ];
    assert_eq!(statuses(dir.path()), expected);
    next.close().unwrap();
    drop(next);
    drop(open(dir.path()));
    assert_eq!(
        ids(dir.path(), "unknown").len(),
        1,
        "a sealed writer is not closed again"
    );
    assert_sound(dir.path());
}

#[test]
fn a_live_writer_is_noted_and_left_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    first.append(&forwarding(new_id())).unwrap();
    let head = first.head();
    let second = open(dir.path());
    assert_eq!(ids(dir.path(), "unknown"), Vec::<String>::new());
    assert_eq!(named_by(dir.path(), &second), [head.hash]);
    first.append(&forwarding(new_id())).unwrap();
    second.close().unwrap();
    first.close().unwrap();
    assert_sound(dir.path());
}

#[test]
fn a_write_cut_at_any_byte_is_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let (first, second) = (new_id(), new_id());
    log.append(&forwarding(first)).unwrap();
    log.append(&forwarding(second)).unwrap();
    log.append_or_queue(finished(first));
    drop(log);
    let whole = fs::read(&segments(&folders(dir.path())[0])[0]).unwrap();
    let ends: Vec<usize> = whole
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at)
        .collect();
    assert_eq!(ends.len(), 4);
    // Every place around the ends of lines, and some of those between.
    let is_close =
        |cut: &usize| cut.is_multiple_of(9) || ends.iter().any(|end| cut.abs_diff(*end) < 4);
    for cut in (ends[0] + 1..=whole.len()).filter(is_close) {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(dir.path(), copy.path());
        fs::write(&segments(&folders(copy.path())[0])[0], &whole[..cut]).unwrap();
        open(copy.path()).close().unwrap();
        let mut expected = BTreeSet::new();
        expected.extend((cut > ends[1] && cut <= ends[3]).then(|| first.to_string()));
        expected.extend((cut > ends[2]).then(|| second.to_string()));
        assert_eq!(
            ids(copy.path(), "unknown")
                .into_iter()
                .collect::<BTreeSet<_>>(),
            expected,
            "cut at {cut}"
        );
        assert_sound(copy.path());
    }
}

#[test]
fn a_damaged_log_is_reported_and_does_not_prevent_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let (hit, spared) = (new_id(), new_id());
    log.append(&forwarding(hit)).unwrap();
    log.append(&forwarding(spared)).unwrap();
    drop(log);
    let path = &segments(&folders(dir.path())[0])[0];
    let mut bytes = fs::read(path).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second + 200] ^= 1;
    fs::write(path, bytes).unwrap();
    drop(open(dir.path()));
    let all = lines(dir.path());
    let told: Vec<_> = all
        .iter()
        .filter(|line| line["name"] == "record.damaged")
        .collect();
    assert_eq!(told.len(), 1);
    assert!(
        told[0]["reason"].as_str().unwrap().contains("segment 1"),
        "{}",
        told[0]
    );
    assert_eq!(ids(dir.path(), "unknown"), [spared.to_string()]);
    assert!(!callgate_store::verify(dir.path(), None).unwrap().is_sound());
}

#[test]
fn concurrent_starts_do_not_disturb_each_other() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let log = open(dir.path());
        let calls: Vec<CallId> = (0..5).map(|_| new_id()).collect();
        calls
            .iter()
            .for_each(|id| _ = log.append(&forwarding(*id)).unwrap());
        drop(log);
        let barrier = Arc::new(Barrier::new(3));
        let starters: Vec<_> = (0..3)
            .map(|_| {
                let (barrier, dir) = (Arc::clone(&barrier), dir.path().to_owned());
                thread::spawn(move || {
                    barrier.wait();
                    let log = open(&dir);
                    log.append(&forwarding(new_id())).unwrap();
                    log
                })
            })
            .collect();
        let logs: Vec<_> = starters
            .into_iter()
            .map(|starter| starter.join().unwrap())
            .collect();
        let closed: BTreeSet<_> = ids(dir.path(), "unknown").into_iter().collect();
        assert_eq!(closed, calls.iter().map(ToString::to_string).collect());
        let statuses = statuses(dir.path());
        assert_eq!(statuses.len(), 8);
        assert_eq!(
            statuses
                .iter()
                .filter(|(_, status)| *status == Some(Status::Unknown))
                .count(),
            5
        );
        logs.iter().for_each(|log| log.close().unwrap());
        assert_sound(dir.path());
    }
}

#[test]
fn concurrent_threads_and_writers_keep_every_chain_sound() {
    let dir = tempfile::tempdir().unwrap();
    let logs: Vec<_> = (0..3).map(|_| Arc::new(open(dir.path()))).collect();
    thread::scope(|scope| {
        for log in logs.iter().cycle().take(6) {
            scope.spawn(move || {
                for _ in 0..50 {
                    let id = new_id();
                    log.append(&forwarding(id)).unwrap();
                    log.append_or_queue(finished(id)).unwrap();
                }
            });
        }
    });
    logs.iter().for_each(|log| log.close().unwrap());
    assert_eq!(ids(dir.path(), "finished").len(), 300);
    // Opened, keyed head and closing entry come with each writer.
    assert_eq!(assert_sound(dir.path()), 600 + 3 * 3);
    assert!(
        statuses(dir.path())
            .iter()
            .all(|(_, status)| *status == Some(Status::Success))
    );
}

/// A chain that is long enough for a summary, of a writer that died; the calls that it left open, oldest first.
fn long_chain(dir: &Path) -> [CallId; 2] {
    let log = open(dir);
    let early = new_id();
    log.append(&forwarding(early)).unwrap();
    for _ in 0..1200 {
        let id = new_id();
        log.append(&forwarding(id)).unwrap();
        log.append_or_queue(finished(id)).unwrap();
    }
    let late = new_id();
    log.append(&forwarding(late)).unwrap();
    [early, late]
}

#[test]
fn a_start_reads_only_what_came_after_the_summary() {
    let dir = tempfile::tempdir().unwrap();
    let left = long_chain(dir.path()).map(|id| id.to_string());
    let segment = &segments(&folders(dir.path())[0])[0];
    let mut bytes = fs::read(segment).unwrap();
    bytes[700] ^= 1;
    fs::write(segment, bytes).unwrap();
    drop(open(dir.path()));
    assert_eq!(ids(dir.path(), "unknown"), left);
    let events = ids(dir.path(), "event");
    assert_eq!(
        events, [""; 0],
        "the damage before the summary was not read"
    );
    assert!(!callgate_store::verify(dir.path(), None).unwrap().is_sound());
}

#[test]
fn a_forged_summary_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let left = long_chain(dir.path()).map(|id| id.to_string());
    let summary = folders(dir.path())[0].join("summary");
    let text = fs::read_to_string(&summary).unwrap();
    let forged = text.replace(&left[0], &new_id().to_string());
    assert_ne!(forged, text);
    fs::write(&summary, forged).unwrap();
    drop(open(dir.path()));
    assert_eq!(ids(dir.path(), "unknown"), left);
    assert_sound(dir.path());
}
