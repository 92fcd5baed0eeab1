//! `power`: an entry counts only when the device has it.

use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use callgate_record::Store as _;
use callgate_store::{Disk, Durability, Log, RealDisk, SegmentFile};
use futures_util::FutureExt as _;

use crate::support::{assert_sound, event, finished, forwarding, ids, new_id, options, segments};

/// A disk whose syncs wait for a word, and that tells what was done.
#[derive(Debug, Default)]
struct SlowDisk {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each sync takes one word from here; without a channel it does not wait.
    words: Mutex<Option<mpsc::Receiver<io::Result<()>>>>,
    told: Mutex<Vec<&'static str>>,
    creates_fail: AtomicBool,
}

impl State {
    fn tell(&self, what: &'static str) {
        self.told.lock().unwrap().push(what);
    }
}

impl Disk for SlowDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        if self.state.creates_fail.load(Ordering::SeqCst) {
            return Err(io::Error::other("no new files today"));
        }
        self.state.tell("create");
        Ok(Box::new(SlowFile {
            file: RealDisk.create(path)?,
            state: Arc::clone(&self.state),
        }))
    }

    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        RealDisk.replace(path, bytes, durability)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.state.tell("sync folder");
        RealDisk.sync_folder(path)
    }
}

#[derive(Debug)]
struct SlowFile {
    file: Box<dyn SegmentFile>,
    state: Arc<State>,
}

impl SegmentFile for SlowFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.state.tell("write");
        self.file.write_at(offset, bytes)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        self.file.reserve(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        let word = match &*self.state.words.lock().unwrap() {
            Some(words) => words.recv().expect("the test gives a word for every sync"),
            None => Ok(()),
        };
        self.state.tell("sync");
        word
    }
}

/// A log on a slow disk whose syncs wait for words from now on.
fn open(dir: &Path) -> (Log, Arc<State>, mpsc::Sender<io::Result<()>>) {
    let disk = SlowDisk::default();
    let state = Arc::clone(&disk.state);
    let mut options = options(dir);
    options.durability = Durability::Power;
    let log = Log::open_on(options, Arc::new(disk)).unwrap();
    let (sender, words) = mpsc::channel();
    *state.words.lock().unwrap() = Some(words);
    (log, state, sender)
}

#[test]
fn a_new_segment_and_the_first_entries_are_synced_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (_log, state, _sender) = open(dir.path());
    assert_eq!(
        *state.told.lock().unwrap(),
        ["create", "sync folder", "write", "sync"]
    );
}

#[tokio::test]
async fn entries_are_settled_only_after_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    let (log, state, sender) = open(dir.path());
    let first = log.append(&forwarding(new_id())).unwrap();
    let mut waiting = log.settled(first);
    assert!(
        (&mut waiting).now_or_never().is_none(),
        "nothing was synced yet"
    );
    sender.send(Ok(())).unwrap();
    waiting.await.unwrap();
    assert_eq!(state.told.lock().unwrap()[4..], ["write", "sync"]);
    log.settled(first).await.unwrap();
    drop(sender);
    *state.words.lock().unwrap() = None;
    log.close().unwrap();
    assert_sound(dir.path());
}

#[tokio::test]
async fn one_sync_settles_all_waiting_entries() {
    let dir = tempfile::tempdir().unwrap();
    let (log, state, sender) = open(dir.path());
    let first = log.append(&forwarding(new_id())).unwrap();
    let mut leader = log.settled(first);
    assert!((&mut leader).now_or_never().is_none());
    let others: Vec<_> = (0..50)
        .map(|_| log.append(&forwarding(new_id())).unwrap())
        .collect();
    // The first sync may have begun before the others were written; the second has them all.
    sender.send(Ok(())).unwrap();
    sender.send(Ok(())).unwrap();
    leader.await.unwrap();
    futures_util::future::try_join_all(others.into_iter().map(|position| log.settled(position)))
        .await
        .unwrap();
    let syncs = state.told.lock().unwrap()[4..]
        .iter()
        .filter(|what| **what == "sync")
        .count();
    assert!(syncs <= 2, "{syncs} syncs");
}

#[tokio::test]
async fn a_failed_sync_refuses_entries_until_a_new_segment_exists() {
    let dir = tempfile::tempdir().unwrap();
    let (log, state, sender) = open(dir.path());
    let id = new_id();
    let position = log.append(&forwarding(id)).unwrap();
    state.creates_fail.store(true, Ordering::SeqCst);
    sender
        .send(Err(io::Error::other("the device is gone")))
        .unwrap();
    let error = log.settled(position).await.unwrap_err();
    assert!(error.reason.contains("the device is gone"), "{error}");
    assert!(log.append(&forwarding(new_id())).is_err());
    assert!(log.append_or_queue(finished(id)).is_none());
    state.creates_fail.store(false, Ordering::SeqCst);
    *state.words.lock().unwrap() = None;
    let after = log.append(&event("after")).unwrap();
    log.settled(after).await.unwrap();
    assert!(
        log.settled(position).await.is_err(),
        "what failed stays failed"
    );
    assert_eq!(ids(dir.path(), "finished"), [id.to_string()]);
    log.close().unwrap();
    assert_eq!(segments(&crate::support::folders(dir.path())[0]).len(), 2);
    assert_sound(dir.path());
}

#[test]
fn process_durability_waits_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SlowDisk::default();
    let state = Arc::clone(&disk.state);
    let log = Log::open_on(options(dir.path()), Arc::new(disk)).unwrap();
    let position = log.append(&event("now")).unwrap();
    assert!(
        log.settled(position)
            .now_or_never()
            .is_some_and(|settled| settled.is_ok())
    );
    log.close().unwrap();
    assert!(!state.told.lock().unwrap().contains(&"sync"));
}
