//! The room that a data folder takes: a budget for all of it, what goes first, and what short processes leave.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use callgate_record::{ActivityFilter, Archive as _, RetentionLimits, Status, Store as _};
use callgate_store::{Disk, Durability, Index, Log, LogOptions, RealDisk, Records, SegmentFile};

use crate::support::{
    assert_sound, finished, folders, forwarding, ids, lines, named_by, new_id, open, options,
};

/// What all files and folders in a folder take of the disk.
fn blocks(path: &Path) -> u64 {
    let bytes = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let data = entry.metadata().unwrap();
        let below = if data.is_dir() {
            blocks(&entry.path())
        } else {
            0
        };
        data.blocks() * 512 + below
    };
    fs::read_dir(path).unwrap().map(bytes).sum()
}

fn write_calls(log: &Log, count: usize) {
    for _ in 0..count {
        let id = new_id();
        log.append(&forwarding(id)).unwrap();
        log.append_or_queue(finished(id)).unwrap();
    }
}

#[test]
fn log_and_index_share_one_budget() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.segment_bytes = 64 * 1024;
    let log = Arc::new(Log::open(options).unwrap());
    let records = Records::written_by(log.clone());
    let limits = RetentionLimits {
        days: 90,
        max_mb: 3,
    };
    records.retain(limits).unwrap();
    let (mut drops, mut looks) = (0, 0);
    for _ in 0..60 {
        write_calls(&log, 60);
        records.catch_up(&|| false).unwrap();
        if records.wants_room(limits) {
            looks += 1;
            drops += records.retain(limits).unwrap().drops.len();
        }
        let told = records.disk_use().unwrap();
        let real = blocks(dir.path());
        assert!(real <= limits.max_bytes(), "{real} bytes of disk, {told:?}");
        assert!(
            told.log > 0 && told.index > 0 && told.total() <= real,
            "{told:?} of {real}"
        );
    }
    assert!(drops > 10, "{drops} segments were dropped");
    assert!(looks < 60, "it looked every time");
    let mut index = Index::open(dir.path()).unwrap();
    index.catch_up().unwrap();
    let left = ids(dir.path(), "forwarding").len() as u64;
    assert_eq!(index.query(&ActivityFilter::default()).unwrap().total, left);
    assert!(left > 500, "{left} calls are left");
    let verified = records.verify(None).unwrap();
    assert!(verified.is_sound(), "{verified:?}");
}

/// A disk that is full while there is an index.
#[derive(Debug)]
struct CrowdedDisk {
    index: PathBuf,
    is_armed: Arc<AtomicBool>,
}

#[derive(Debug)]
struct CrowdedFile {
    file: Box<dyn SegmentFile>,
    index: PathBuf,
    is_armed: Arc<AtomicBool>,
}

impl Disk for CrowdedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        Ok(Box::new(CrowdedFile {
            file: RealDisk.create(path)?,
            index: self.index.clone(),
            is_armed: self.is_armed.clone(),
        }))
    }

    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        RealDisk.replace(path, bytes, durability)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_folder(path)
    }
}

impl SegmentFile for CrowdedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(offset, bytes)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        if self.is_armed.load(Ordering::SeqCst) && self.index.exists() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.reserve(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

#[test]
fn a_full_disk_costs_the_index_before_it_costs_a_call() {
    let dir = tempfile::tempdir().unwrap();
    let is_armed = Arc::new(AtomicBool::new(false));
    let disk = CrowdedDisk {
        index: dir.path().join("index.sqlite"),
        is_armed: is_armed.clone(),
    };
    let log = Log::open_on(options(dir.path()), Arc::new(disk)).unwrap();
    write_calls(&log, 30);
    let mut index = Index::open(dir.path()).unwrap();
    index.catch_up().unwrap();
    assert_eq!(index.query(&ActivityFilter::default()).unwrap().total, 30);
    is_armed.store(true, Ordering::SeqCst);
    // Enough to need more than what is reserved already.
    let calls: Vec<_> = (0..40).map(|_| new_id()).collect();
    for id in &calls {
        log.append(&forwarding(*id)).unwrap();
    }
    assert!(!dir.path().join("index.sqlite").exists(), "it was given up");
    is_armed.store(false, Ordering::SeqCst);
    // A reader that had it open makes it again.
    index.catch_up().unwrap();
    assert_eq!(index.query(&ActivityFilter::default()).unwrap().total, 70);
    assert!(
        Index::open(dir.path())
            .unwrap()
            .get(calls[0])
            .unwrap()
            .is_some()
    );
}

fn short(dir: &Path) -> Log {
    let options = LogOptions {
        resumes: true,
        ..options(dir)
    };
    Log::open(options).unwrap()
}

#[test]
fn short_processes_share_a_chain() {
    let dir = tempfile::tempdir().unwrap();
    let mut writers = Vec::new();
    for _ in 0..60 {
        let log = short(dir.path());
        write_calls(&log, 1);
        writers.push(log.writer());
        log.close().unwrap();
    }
    writers.dedup();
    assert_eq!(writers.len(), 1, "one chain has all of it");
    let per_process = blocks(&dir.path().join("activity")) / 60;
    assert!(per_process < 4096, "{per_process} bytes of disk each");
    assert_sound(dir.path());
    assert_eq!(ids(dir.path(), "finished").len(), 60);
    let openings = lines(dir.path())
        .iter()
        .filter(|line| line["kind"] == "opened")
        .count();
    assert_eq!(openings, 60);
    let mut index = Index::open(dir.path()).unwrap();
    index.catch_up().unwrap();
    let succeeded = ActivityFilter {
        status: Some(Status::Success),
        ..ActivityFilter::default()
    };
    assert_eq!(index.query(&succeeded).unwrap().total, 60);
}

#[test]
fn only_a_chain_without_doubt_is_continued() {
    type Spoil = fn(&Path);
    fn change(dir: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let path = crate::support::segments(&folders(dir)[0])[0].clone();
        let mut content = fs::read(&path).unwrap();
        change(&mut content);
        fs::write(path, content).unwrap();
    }
    let cases: [(&str, Spoil, bool); 7] = [
        ("closed", |_| {}, true),
        ("sealed", |dir| drop(open(dir)), false),
        (
            "half a line behind it",
            |dir| change(dir, |content| content.extend_from_slice(b"{\"hash\":")),
            false,
        ),
        (
            "no head file",
            |dir| fs::remove_file(folders(dir)[0].join("head")).unwrap(),
            false,
        ),
        (
            "a cut end",
            |dir| {
                change(dir, |content| {
                    content.pop();
                    let end = content.iter().rposition(|byte| *byte == b'\n').unwrap();
                    content.truncate(end + 1);
                })
            },
            false,
        ),
        (
            "a flipped byte",
            |dir| change(dir, |content| content[200] ^= 1),
            false,
        ),
        ("running", |_| {}, false),
    ];
    for (name, spoil, is_continued) in cases {
        let dir = tempfile::tempdir().unwrap();
        let first = short(dir.path());
        write_calls(&first, 2);
        if name != "running" {
            first.close().unwrap();
        }
        let writer = first.writer();
        let running = (name == "running").then_some(first);
        spoil(dir.path());
        let second = short(dir.path());
        assert_eq!(second.writer() == writer, is_continued, "{name}");
        write_calls(&second, 1);
        second.close().unwrap();
        assert_eq!(ids(dir.path(), "finished").len(), 3, "{name}");
        drop(running);
    }
}

#[test]
fn a_continued_chain_that_dies_is_adopted() {
    let dir = tempfile::tempdir().unwrap();
    let first = short(dir.path());
    write_calls(&first, 1);
    first.close().unwrap();
    drop(first);
    let second = short(dir.path());
    let left_open = new_id();
    second.append(&forwarding(left_open)).unwrap();
    let continued = second.head().hash;
    drop(second);
    let third = short(dir.path());
    assert_eq!(named_by(dir.path(), &third), [continued]);
    let mut index = Index::open(dir.path()).unwrap();
    index.catch_up().unwrap();
    let status = index.get(left_open).unwrap().unwrap().status;
    assert_eq!(status, Some(Status::Unknown));
    assert_sound(dir.path());
}
