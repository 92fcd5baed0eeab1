//! What the tests share: entries to write, disks that fail, and a look at the raw lines.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use callgate_gate::CallId;
use callgate_record::{ActivityFilter, Entry};
use callgate_store::{Disk, Durability, Index, Log, LogOptions, RealDisk, SegmentFile};
use serde_json::{Value, json};
use ulid::Ulid;

pub(crate) fn options(dir: &Path) -> LogOptions {
    LogOptions::new(dir, "0.0.0-test")
}

pub(crate) fn open(dir: &Path) -> Log {
    Log::open(options(dir)).unwrap()
}

pub(crate) fn new_id() -> CallId {
    CallId(Ulid::generate())
}

pub(crate) fn entry(value: &Value) -> Entry {
    Entry::from_json(&value.to_string()).unwrap()
}

pub(crate) fn call(kind: &str, id: CallId) -> Value {
    json!({
        "kind": kind, "id": id, "type": "tool_call", "source": "mcp", "transport": "stdio", "tenant": "local",
        "principal": "user", "agent": "tester", "session_id": "s1", "request_id": "1", "server": "files",
        "tool": "read", "arguments": {"bytes": 12, "blake3": "00", "value": {"path": "/tmp"}},
        "decision": "ALLOW", "rule": "allow:default", "reason": "nothing forbids it",
        "checks": [{"scope": "mcp_tool", "decision": "ALLOW", "rule": "allow:default"}],
        "intent": {"operation_type": "read", "inferred": true},
    })
}

pub(crate) fn forwarding(id: CallId) -> Entry {
    entry(&call("forwarding", id))
}

pub(crate) fn finished(id: CallId) -> Entry {
    entry(&json!({
        "kind": "finished", "id": id, "status": "success", "effect": "done", "duration_us": 1200,
        "response": {"bytes": 2, "blake3": "11", "value": {"content": []}},
    }))
}

pub(crate) fn event(name: &str) -> Entry {
    entry(&json!({"kind": "event", "id": new_id(), "type": "system", "name": name}))
}

/// The segments of a writer's folder in order.
pub(crate) fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    paths.sort();
    paths
}

/// The writers' folders, oldest first.
pub(crate) fn folders(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir.join("activity"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| path.is_dir());
    paths.sort();
    paths
}

/// Every whole line of every writer that is JSON, in the order of writers and segments.
pub(crate) fn lines(dir: &Path) -> Vec<Value> {
    let mut lines = Vec::new();
    for segment in folders(dir).iter().flat_map(|folder| segments(folder)) {
        let text = fs::read_to_string(segment).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        lines.extend(
            whole
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok()),
        );
    }
    lines
}

/// The heads that a writer's opening entry names, by hash.
pub(crate) fn named_by(dir: &Path, log: &Log) -> Vec<String> {
    let lines = lines(dir);
    let writer = log.writer().to_string();
    let opened = lines
        .iter()
        .find(|line| line["kind"] == "opened" && line["writer"] == writer)
        .unwrap();
    let heads = opened["heads"].as_array().unwrap();
    heads
        .iter()
        .map(|head| head["hash"].as_str().unwrap().to_owned())
        .collect()
}

/// The ids of all entries of one kind.
pub(crate) fn ids(dir: &Path, kind: &str) -> Vec<String> {
    let lines = lines(dir);
    let of_kind = lines.iter().filter(|line| line["kind"] == kind);
    of_kind
        .map(|line| line["id"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)
        } else {
            _ = fs::copy(entry.path(), target).unwrap()
        }
    }
}

#[track_caller]
pub(crate) fn assert_sound(dir: &Path) -> u64 {
    let found = callgate_store::verify(dir, None).unwrap();
    assert_eq!(found.problems, [], "{}", dir.display());
    found.entries
}

/// How an operation fails when its turn comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing is done.
    Refuse,
    /// A write gets half of its bytes through and says so; other operations do nothing.
    Short,
    /// A write gets half of its bytes through and says that it failed.
    Torn,
}

/// A disk on which every n-th operation fails while it is armed.
#[derive(Debug)]
pub(crate) struct FaultyDisk {
    turn: Arc<Turn>,
}

#[derive(Debug)]
struct Turn {
    every: u64,
    fault: Fault,
    is_armed: AtomicBool,
    operations: AtomicU64,
}

impl FaultyDisk {
    pub(crate) fn new(every: u64, fault: Fault) -> Arc<Self> {
        let turn = Turn {
            every,
            fault,
            is_armed: AtomicBool::new(false),
            operations: AtomicU64::new(0),
        };
        Arc::new(Self {
            turn: Arc::new(turn),
        })
    }

    pub(crate) fn arm(&self, is_armed: bool) {
        self.turn.is_armed.store(is_armed, Ordering::SeqCst);
    }
}

impl Turn {
    fn fault(&self) -> Option<Fault> {
        if !self.is_armed.load(Ordering::SeqCst) {
            return None;
        }
        let turn = self.operations.fetch_add(1, Ordering::SeqCst) + 1;
        turn.is_multiple_of(self.every).then_some(self.fault)
    }

    fn check(&self) -> io::Result<()> {
        self.fault().map_or(Ok(()), |_| {
            Err(io::Error::other("it is not this operation's day"))
        })
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        self.turn.check()?;
        let file = RealDisk.create(path)?;
        Ok(Box::new(FaultyFile {
            file,
            turn: Arc::clone(&self.turn),
        }))
    }

    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        self.turn.check()?;
        RealDisk.replace(path, bytes, durability)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.turn.check()?;
        RealDisk.sync_folder(path)
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: Box<dyn SegmentFile>,
    turn: Arc<Turn>,
}

impl SegmentFile for FaultyFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let half = &bytes[..bytes.len() / 2];
        match self.turn.fault() {
            None => self.file.write_at(offset, bytes),
            Some(Fault::Refuse) => Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::Short) => self.file.write_at(offset, half),
            Some(Fault::Torn) => {
                self.file.write_at(offset, half)?;
                Err(io::Error::other("torn"))
            }
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.turn.check()?;
        self.file.truncate(length)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        self.turn.check()?;
        self.file.reserve(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.turn.check()?;
        self.file.sync()
    }
}

/// How many records really fit, one by one.
pub(crate) fn counted(index: &mut Index, filter: &ActivityFilter) -> u64 {
    let mut count = 0;
    let visit = &mut |_| {
        count += 1;
        Ok(())
    };
    index.for_each(filter, visit).unwrap();
    count
}
