//! Many calls write at once: one of them writes for all, and the others keep no thread.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, mpsc},
    thread,
};

use callgate_record::{Placing, Store as _};
use callgate_store::{Disk, Durability, Log, RealDisk, SegmentFile};
use futures_util::FutureExt as _;

use crate::support::{assert_sound, event, finished, forwarding, ids, new_id, options};

/// More entries than one caller writes for others before the log's thread takes over.
const MANY: usize = 100;

/// The test's side of a [`GatedDisk`].
struct Gate {
    begun: mpsc::Receiver<()>,
    words: mpsc::Sender<()>,
}

impl Gate {
    /// Waits until a write has begun.
    fn wait(&self) {
        self.begun.recv().expect("the disk is there");
    }

    /// Lets one write go on.
    fn open(&self) {
        self.words.send(()).expect("the disk is there");
    }
}

/// A disk whose writes tell that they begin, and then wait for a word.
#[derive(Debug)]
struct GatedDisk(Arc<Gated>);

#[derive(Debug)]
struct Gated {
    begun: mpsc::Sender<()>,
    /// Without a channel nothing waits.
    words: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Disk for GatedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        Ok(Box::new(GatedFile {
            file: RealDisk.create(path)?,
            gated: Arc::clone(&self.0),
        }))
    }

    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        RealDisk.replace(path, bytes, durability)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_folder(path)
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Box<dyn SegmentFile>,
    gated: Arc<Gated>,
}

impl SegmentFile for GatedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        if let Some(words) = &*self.gated.words.lock().unwrap() {
            // The test may have seen enough.
            let _ = self.gated.begun.send(());
            let _ = words.recv();
        }
        self.file.write_at(offset, bytes)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        self.file.reserve(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// A log whose writes wait from now on.
fn open(dir: &Path) -> (Arc<Log>, Gate) {
    let (begin, begun) = mpsc::channel();
    let (words, heard) = mpsc::channel();
    let gated = Arc::new(Gated {
        begun: begin,
        words: Mutex::new(None),
    });
    let disk = GatedDisk(Arc::clone(&gated));
    let log = Log::open_on(options(dir), Arc::new(disk)).unwrap();
    *gated.words.lock().unwrap() = Some(heard);
    (Arc::new(log), Gate { begun, words })
}

/// What came of an entry, for a thread that has nothing else to do.
fn wait<T>(placing: Placing<T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(placing)
}

#[test]
fn entries_that_arrive_during_a_write_are_written_by_the_active_writer() {
    let dir = tempfile::tempdir().unwrap();
    let (log, gate) = open(dir.path());
    let (first, second, third) = (new_id(), new_id(), new_id());
    let writing = thread::spawn({
        let log = Arc::clone(&log);
        move || log.place(&forwarding(first)).now_or_never()
    });
    gate.wait();
    let mut waiting = log.place(&forwarding(second));
    assert!((&mut waiting).now_or_never().is_none(), "it is not written");
    drop(log.place(&forwarding(third)));
    (0..3).for_each(|_| gate.open());
    let here = writing.join().unwrap();
    here.expect("who writes knows at once").unwrap();
    waiting.now_or_never().expect("it was told").unwrap();
    drop(gate);
    let written: Vec<_> = [first, second, third].map(|id| id.to_string()).into();
    assert_eq!(ids(dir.path(), "forwarding"), written);
    log.close().unwrap();
    assert_sound(dir.path());
}

#[test]
fn a_thread_writes_a_bounded_number_of_entries_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let (log, gate) = open(dir.path());
    let (returned, returns) = mpsc::channel();
    let writing = thread::spawn({
        let log = Arc::clone(&log);
        move || {
            wait(log.place(&event("first"))).unwrap();
            returned.send(()).unwrap();
        }
    });
    let mut last = None;
    for _ in 0..MANY {
        // While one is written the next one comes, so the queue is never empty.
        gate.wait();
        last = Some(log.place_or_queue(event("next")));
        gate.open();
    }
    returns.recv().expect("it came back while others waited");
    writing.join().unwrap();
    drop(gate);
    wait(last.unwrap()).expect("the log's thread has written it");
    log.close().unwrap();
    assert_sound(dir.path());
}

#[test]
fn entries_of_many_threads_form_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(options(dir.path())).unwrap();
    let mut made: Vec<String> = thread::scope(|scope| {
        let place = || {
            let calls = (0..MANY).map(|_| {
                let id = new_id();
                wait(log.place(&forwarding(id))).unwrap();
                wait(log.place_or_queue(finished(id))).expect("it is written");
                id.to_string()
            });
            calls.collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(place)).collect();
        let made = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        made.collect()
    });
    log.close().unwrap();
    made.sort();
    for kind in ["forwarding", "finished"] {
        let mut written = ids(dir.path(), kind);
        written.sort();
        assert_eq!(written, made);
    }
    assert_sound(dir.path());
}
