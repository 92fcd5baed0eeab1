//! A disk that fails or fills up: refused is refused, taken is kept, owed arrives.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use callgate_record::Store as _;
use callgate_store::{Disk, Durability, Log, MAX_END_BYTES, RealDisk, SegmentFile};

use crate::support::{
    Fault, FaultyDisk, assert_sound, copy_folder, event, finished, forwarding, ids, lines, new_id,
    open, options,
};

#[test]
fn entries_are_refused_while_queued_ones_are_unwritten() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(1, Fault::Refuse);
    let log = Log::open_on(options(dir.path()), Arc::clone(&disk) as Arc<dyn Disk>).unwrap();
    disk.arm(true);
    assert!(log.append_or_queue(event("owed")).is_none());
    assert_eq!(log.backlog(), 1);
    let refused = log.append(&forwarding(new_id())).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("could not write the activity log: `"),
        "{refused}"
    );
    assert!(
        log.close().is_err(),
        "a log that owes something cannot be closed"
    );
    disk.arm(false);
    let id = new_id();
    log.append(&forwarding(id)).unwrap();
    assert_eq!(log.backlog(), 0);
    assert_eq!(ids(dir.path(), "forwarding"), [id.to_string()]);
    assert_eq!(ids(dir.path(), "event").len(), 1);
}

#[test]
fn the_backlog_is_bounded_and_dropped_entries_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(1, Fault::Refuse);
    let log = Log::open_on(options(dir.path()), Arc::clone(&disk) as Arc<dyn Disk>).unwrap();
    let id = new_id();
    log.append(&forwarding(id)).unwrap();
    disk.arm(true);
    for _ in 0..10_003 {
        log.append_or_queue(event("refused"));
    }
    log.append_or_queue(finished(id));
    // Ten thousand, the end of the call, and the entry that will tell of the rest.
    assert_eq!(log.backlog(), 10_002);
    disk.arm(false);
    log.close().unwrap();
    let lines = lines(dir.path());
    let told = lines
        .iter()
        .find(|line| line["name"] == "record.dropped")
        .unwrap();
    assert_eq!(
        told["reason"],
        "3 refusals and events were dropped: the backlog was full"
    );
    assert_eq!(ids(dir.path(), "finished"), [id.to_string()]);
    assert_sound(dir.path());
}

/// A disk of which only so much can be had.
#[derive(Debug)]
struct SmallDisk {
    free: Arc<AtomicU64>,
}

#[derive(Debug)]
struct SmallFile {
    file: Box<dyn SegmentFile>,
    free: Arc<AtomicU64>,
    reserved: AtomicU64,
}

impl Disk for SmallDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        let file = RealDisk.create(path)?;
        Ok(Box::new(SmallFile {
            file,
            free: Arc::clone(&self.free),
            reserved: AtomicU64::new(0),
        }))
    }

    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        RealDisk.replace(path, bytes, durability)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_folder(path)
    }
}

impl SegmentFile for SmallFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.reserve(
            self.reserved.load(Ordering::SeqCst),
            offset + bytes.len() as u64,
        )?;
        self.file.write_at(offset, bytes)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let given_back = self
            .reserved
            .swap(length, Ordering::SeqCst)
            .saturating_sub(length);
        self.free.fetch_add(given_back, Ordering::SeqCst);
        self.file.truncate(length)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        let more = to.saturating_sub(from);
        let taken = self
            .free
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |free| {
                free.checked_sub(more)
            });
        taken.map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
        self.reserved.fetch_max(to, Ordering::SeqCst);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

#[test]
fn a_full_disk_refuses_new_calls_and_records_ends_of_old_ones() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk {
        free: Arc::new(AtomicU64::new(40 * MAX_END_BYTES)),
    };
    let log = Log::open_on(options(dir.path()), Arc::new(disk)).unwrap();
    let mut under_way = Vec::new();
    loop {
        let id = new_id();
        match log.append(&forwarding(id)) {
            Ok(_) => under_way.push(id),
            Err(error) => break assert!(error.reason.contains("no storage space"), "{error}"),
        }
    }
    assert!(
        (20..40).contains(&under_way.len()),
        "{} calls were taken",
        under_way.len()
    );
    // A flood of refusals must not eat the room that was set aside for ends.
    for _ in 0..2000 {
        log.append_or_queue(event("refused.again"));
    }
    assert!(log.backlog() > 0);
    for id in &under_way {
        assert!(
            log.append_or_queue(finished(*id)).is_some(),
            "the end of a taken call was not written"
        );
    }
    assert_eq!(ids(dir.path(), "finished").len(), under_way.len());
}

#[test]
fn a_deleted_segment_is_noticed_and_a_deleted_folder_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let folder = crate::support::folders(dir.path()).remove(0);
    log.append(&forwarding(new_id())).unwrap();
    std::fs::remove_file(&crate::support::segments(&folder)[0]).unwrap();
    let id = new_id();
    log.append(&forwarding(id)).unwrap();
    assert_eq!(ids(dir.path(), "forwarding"), [id.to_string()]);
    assert!(!callgate_store::verify(dir.path(), None).unwrap().is_sound());
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(log.append(&forwarding(new_id())).is_err());
}

#[test]
fn a_log_that_cannot_open_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(1, Fault::Refuse);
    disk.arm(true);
    let error = Log::open_on(options(dir.path()), disk).unwrap_err();
    assert!(error.to_string().contains("could not write"), "{error}");
    assert_eq!(
        crate::support::folders(dir.path()),
        Vec::<std::path::PathBuf>::new()
    );
    drop(open(dir.path()));
    assert_sound(dir.path());
}

#[test]
fn data_files_are_accessible_only_to_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    open(&data).close().unwrap();
    callgate_store::Index::open(&data)
        .unwrap()
        .catch_up()
        .unwrap();
    let mut to_see = vec![data.clone()];
    let mut seen = 0;
    while let Some(path) = to_see.pop() {
        let metadata = std::fs::metadata(&path).unwrap();
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(
            metadata.permissions().mode() & 0o777,
            expected,
            "{}",
            path.display()
        );
        if metadata.is_dir() {
            to_see.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        seen += 1;
    }
    assert!(seen >= 8, "{seen} files and folders");
}

#[test]
fn a_renamed_folder_is_reported_until_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let trouble = || callgate_record::Log::trouble(&log);
    assert_eq!(trouble(), None);
    let (folder, away) = (dir.path().join("activity"), dir.path().join("away"));
    std::fs::rename(&folder, &away).unwrap();
    assert!(trouble().unwrap().contains("renamed"));
    std::fs::rename(&away, &folder).unwrap();
    assert_eq!(trouble(), None);
    let id = new_id();
    log.append(&forwarding(id)).unwrap();
    assert_eq!(ids(dir.path(), "forwarding"), [id.to_string()]);
}

#[test]
fn a_folder_that_was_deleted_and_put_back_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let trouble = || callgate_record::Log::trouble(&log);
    let before = new_id();
    log.append(&forwarding(before)).unwrap();
    let (folder, copy) = (dir.path().join("activity"), dir.path().join("copy"));
    copy_folder(&folder, &copy);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(trouble().unwrap().contains("deleted"));
    assert!(log.append(&forwarding(new_id())).is_err());

    copy_folder(&copy, &folder);
    assert_eq!(trouble(), None);
    log.append_or_queue(finished(before)).unwrap();
    let after = new_id();
    log.append(&forwarding(after)).unwrap();
    let both = [before, after].map(|id| id.to_string());
    assert_eq!(ids(dir.path(), "forwarding"), both);
    // No other process takes the chain for that of a dead process.
    let next = open(dir.path());
    assert_eq!(ids(dir.path(), "unknown"), [""; 0]);
    drop(next);
    log.close().unwrap();
    assert_sound(dir.path());
}

#[test]
fn a_folder_that_was_closed_meanwhile_is_not_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    log.append(&forwarding(new_id())).unwrap();
    let (folder, copy) = (dir.path().join("activity"), dir.path().join("copy"));
    copy_folder(&folder, &copy);
    std::fs::remove_dir_all(&folder).unwrap();
    copy_folder(&copy, &folder);
    // It takes the chain for that of a dead process, whose lock is gone.
    drop(open(dir.path()));
    assert!(callgate_record::Log::trouble(&log).is_some());
}
