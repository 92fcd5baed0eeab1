//! A power cut after every step that the log takes on the disk: what was answered is on record, the next start works,
//! and `verify` does not take the cut for tampering.

pub(crate) mod left_over;
pub(crate) mod noted;

use std::{fs, path::Path, sync::Arc};

use callgate_gate::CallId;
use callgate_record::Store as _;
use callgate_store::{Disk, Durability, Log, LogOptions};
use futures_util::FutureExt as _;

use crate::support::{assert_sound, finished, folders, forwarding, ids, new_id, options, segments};
use left_over::Loss;
use noted::NotedDisk;

/// How many random losses are tried at each cut, beside losing all that is not synced, and nothing.
const RANDOM_LOSSES: u64 = 2;

fn with_power(dir: &Path) -> LogOptions {
    let mut options = options(dir);
    options.durability = Durability::Power;
    options.segment_bytes = 3000;
    options.head_every = 5;
    options
}

fn open(disk: &Arc<NotedDisk>) -> Log {
    Log::open_on(with_power(disk.root()), Arc::clone(disk) as Arc<dyn Disk>).unwrap()
}

/// Puts a call on record, and notes the answer.
fn answer(disk: &NotedDisk, log: &Log, id: CallId) {
    let position = log.append(&forwarding(id)).unwrap();
    pollster(log.settled(position));
    disk.note_answer(id);
}

fn end(log: &Log, id: CallId) {
    log.append_or_queue(finished(id)).unwrap();
}

fn pollster(mut settled: callgate_record::DurabilityWait<'_>) {
    // The log's thread settles it.
    while (&mut settled).now_or_never().is_none() {
        std::thread::yield_now();
    }
}

/// Two processes beside each other, one that dies, and one that closes its calls and ends.
fn live(disk: &Arc<NotedDisk>) {
    let first = open(disk);
    let second = open(disk);
    for round in 0..8 {
        let (one, other) = (new_id(), new_id());
        answer(disk, &first, one);
        end(&first, one);
        answer(disk, &second, other);
        if round % 2 == 0 {
            end(&second, other);
        }
    }
    second.close().unwrap();
    drop(first);
    let third = open(disk);
    for _ in 0..3 {
        answer(disk, &third, new_id());
    }
    third.close().unwrap();
}

#[test]
fn a_power_cut_at_any_step_loses_no_answer_and_looks_like_no_tampering() {
    let dir = tempfile::tempdir().unwrap();
    let disk = NotedDisk::new(dir.path());
    live(&disk);
    assert_sound(dir.path());
    let steps = disk.steps();
    assert!(steps > 100, "{steps} steps are noted");
    for cut in 0..=steps {
        let random = (0..RANDOM_LOSSES).map(Loss::Random);
        for loss in [Loss::All, Loss::Nothing].into_iter().chain(random) {
            let after = tempfile::tempdir().unwrap();
            disk.cut(cut, loss, after.path());
            let context = format!(
                "cut after step {cut} of {steps}, {loss:?}: {}",
                disk.step(cut)
            );
            let found = callgate_store::verify(after.path(), None)
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(found.problems, [], "{context}");
            let log = Log::open(options(after.path()))
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            let known = ids(after.path(), "forwarding");
            for answered in disk.answered(cut) {
                assert!(known.contains(&answered.to_string()), "{context}");
            }
            log.close().unwrap();
            assert_sound(after.path());
        }
    }
}

#[test]
fn blocks_of_zeros_behind_the_last_entry_are_removed_and_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(options(dir.path())).unwrap();
    let head = folders(dir.path())[0].join("head");
    let first_head = fs::read(&head).unwrap();
    for _ in 0..20 {
        log.append(&forwarding(new_id())).unwrap();
    }
    let segment = segments(&folders(dir.path())[0]).remove(0);
    drop(log);
    // On a slow machine the log has named a newer one by now.
    fs::write(&head, first_head).unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let whole = bytes.len();
    bytes[4096..8192].fill(0);
    fs::write(&segment, bytes).unwrap();
    let found = callgate_store::verify(dir.path(), None).unwrap();
    assert_eq!(found.problems, [], "no head names what is missing");
    drop(Log::open(options(dir.path())).unwrap());
    assert!(fs::metadata(&segment).unwrap().len() <= 4096 && whole > 8192);
    let lines = crate::support::lines(dir.path());
    assert!(lines.iter().any(|line| line["name"] == "record.cut"));
    assert_sound(dir.path());
}

#[test]
fn zeros_where_a_head_names_an_entry_are_tampering() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(options(dir.path())).unwrap();
    for _ in 0..20 {
        log.append(&forwarding(new_id())).unwrap();
    }
    log.close().unwrap();
    let segment = segments(&folders(dir.path())[0]).remove(0);
    let good = fs::read(&segment).unwrap();
    // A single zero is not a lost block.
    for zeros in [4096..8192, 5000..5001] {
        let mut bytes = good.clone();
        bytes[zeros].fill(0);
        fs::write(&segment, &bytes).unwrap();
        assert!(!callgate_store::verify(dir.path(), None).unwrap().is_sound());
    }
    drop(Log::open(options(dir.path())).unwrap());
    let length = fs::metadata(&segment).unwrap().len();
    assert_eq!(length, good.len() as u64, "the evidence stays");
}

#[test]
fn files_that_a_cut_emptied_under_an_earlier_version_are_made_again() {
    for name in ["version", "key"] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("activity")).unwrap();
        for content in [&b""[..], &[0; 32]] {
            let path = dir.path().join("activity").join(name);
            fs::write(&path, content).unwrap();
            let log = Log::open(options(dir.path())).unwrap();
            log.append(&forwarding(new_id())).unwrap();
            log.close().unwrap();
            assert!(!fs::read(&path).unwrap().iter().all(|byte| *byte == 0));
            if name == "version" {
                assert_sound(dir.path());
            }
        }
    }
}
