//! What the simulations in `seeds.rs` found, each as a test of its own.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use callgate_record::{Clock, RetentionLimits, Store as _};
use callgate_store::{Disk, Durability, Log, RealDisk, SegmentFile, retain};
use jiff::Timestamp;

use crate::support::{assert_sound, finished, folders, forwarding, ids, new_id, options, segments};

const DAY: i64 = 24 * 3600;

/// A disk that tears writes to files which were made while it was told to, or refuses to replace files.
#[derive(Debug, Default)]
struct TearingDisk {
    tears: AtomicBool,
    replaces_nothing: AtomicBool,
}

#[derive(Debug)]
struct TearingFile {
    file: Box<dyn SegmentFile>,
    tears: bool,
}

impl Disk for TearingDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        Ok(Box::new(TearingFile {
            file: RealDisk.create(path)?,
            tears: self.tears.load(Ordering::SeqCst),
        }))
    }

    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        match self.replaces_nothing.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => RealDisk.replace(path, bytes, durability),
        }
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_folder(path)
    }
}

impl SegmentFile for TearingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        if self.tears {
            self.file.write_at(offset, &bytes[..bytes.len() / 2])?;
            return Err(io::Error::other("torn"));
        }
        self.file.write_at(offset, bytes)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        match self.tears {
            true => Err(io::Error::other("torn")),
            false => self.file.truncate(length),
        }
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        self.file.reserve(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

#[test]
fn a_segment_without_a_whole_line_is_dropped_with_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(TearingDisk::default());
    let mut options = options(dir.path());
    options.segment_bytes = 2500;
    let log = Log::open_on(options, disk.clone()).unwrap();
    let call = || {
        let id = new_id();
        log.append(&forwarding(id))
            .map(|_| log.append_or_queue(finished(id)))
    };
    disk.tears.store(true, Ordering::SeqCst);
    while call().is_ok() {}
    disk.tears.store(false, Ordering::SeqCst);
    for _ in 0..10 {
        call().unwrap();
    }
    let folder = folders(dir.path()).remove(0);
    let torn = || {
        let segments = segments(&folder).into_iter();
        segments
            .filter(|path| !std::fs::read(path).unwrap().contains(&b'\n'))
            .count()
    };
    assert!(torn() > 0);
    let limits = RetentionLimits {
        days: 90,
        max_mb: 0,
    };
    retain(&log, limits).unwrap();
    assert_eq!(torn(), 0);
    assert_sound(dir.path());
}

#[test]
fn closing_without_room_for_the_head_file_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(TearingDisk::default());
    let log = Log::open_on(options(dir.path()), disk.clone()).unwrap();
    log.append(&forwarding(new_id())).unwrap();
    disk.replaces_nothing.store(true, Ordering::SeqCst);
    // An error would say that the log is still open, and it takes no more entries.
    log.close().unwrap();
    assert_sound(dir.path());
}

#[derive(Debug, Default)]
struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.0.load(Ordering::SeqCst)).unwrap()
    }

    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn the_end_of_a_dead_writers_call_is_not_dropped_before_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(SetClock::default());
    let open = || {
        let mut options = options(dir.path());
        options.clock = clock.clone();
        Log::open(options).unwrap()
    };
    let id = new_id().to_string();
    clock.0.store(2 * DAY, Ordering::SeqCst);
    let first = open();
    let entry = forwarding(callgate_gate::CallId(ulid::Ulid::from_string(&id).unwrap()));
    first.append(&entry).unwrap();
    drop(first);
    // The clock was set back when the next process closed the call.
    clock.0.store(0, Ordering::SeqCst);
    open().close().unwrap();
    let last = open();
    let limits = RetentionLimits {
        days: 90,
        max_mb: 1024,
    };
    let mut seen_both = false;
    for day in 0..=100 {
        clock.0.store(day * DAY, Ordering::SeqCst);
        retain(&last, limits).unwrap();
        let (calls, ends) = (ids(dir.path(), "forwarding"), ids(dir.path(), "unknown"));
        assert!(calls.is_empty() || ends == [id.clone()], "day {day}");
        seen_both |= day == 91 && !calls.is_empty();
    }
    assert!(seen_both, "on day 91 only the end is older than the limit");
    assert!(ids(dir.path(), "forwarding").is_empty());
    assert_sound(dir.path());
}
