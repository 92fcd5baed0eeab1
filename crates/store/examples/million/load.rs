//! Calls of a day in a row: written, indexed and dropped as a gateway does it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use callgate_record::{Archive as _, Clock, Entry, RetentionLimits, Store as _};
use callgate_store::{Log, LogOptions, Records};
use jiff::Timestamp;
use ulid::Ulid;

use super::Outcome;

/// Calls between two looks of housekeeping.
const PER_ROUND: u64 = 5_000;
/// Ten million calls take a day.
const US_PER_LOOK: i64 = 4_320;

/// A clock that goes faster than the day.
#[derive(Debug)]
struct FastClock {
    now_us: AtomicI64,
    began: Instant,
}

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        let now = self.now_us.fetch_add(US_PER_LOOK, Ordering::Relaxed);
        Timestamp::from_microsecond(now).unwrap_or_default()
    }

    fn uptime(&self) -> Duration {
        self.began.elapsed()
    }
}

/// CPU time of one kind of work.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) cpu: Duration,
    pub(crate) calls: u64,
}

impl Spent {
    pub(crate) fn us_per_call(self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.calls.max(1) as f64
    }
}

/// The data folder, its writer, and what it has cost so far.
pub(crate) struct Load {
    pub(crate) dir: PathBuf,
    pub(crate) calls: u64,
    pub(crate) ids: Vec<Ulid>,
    pub(crate) written: Spent,
    pub(crate) indexed: Spent,
    pub(crate) retained: Spent,
    limits: RetentionLimits,
    clock: Arc<FastClock>,
    /// The running writer, and the archive as its gateway has it.
    running: Option<(Arc<Log>, Records)>,
    /// The most bytes that the folder had.
    most_bytes: u64,
    looks: u64,
}

impl Load {
    pub(crate) fn start(dir: &Path, max_mb: u64) -> Outcome<Self> {
        let clock = Arc::new(FastClock {
            now_us: AtomicI64::new(1_800_000_000_000_000),
            began: Instant::now(),
        });
        let mut load = Self {
            dir: dir.to_owned(),
            calls: 0,
            ids: Vec::new(),
            written: Spent::default(),
            indexed: Spent::default(),
            retained: Spent::default(),
            limits: RetentionLimits { days: 90, max_mb },
            clock,
            running: None,
            most_bytes: 0,
            looks: 0,
        };
        load.open()?;
        Ok(load)
    }

    /// Starts a writer; the one before counts as crashed, with a call open.
    pub(crate) fn open(&mut self) -> Outcome<Duration> {
        if let Some((log, archive)) = self.running.take() {
            log.append(&began(self.ulid(), self.calls)?)?;
            drop((log, archive));
        }
        let started = Instant::now();
        let log = Log::open(LogOptions {
            clock: self.clock.clone(),
            ..LogOptions::new(&self.dir, "soak")
        })?;
        let took = started.elapsed();
        let log = Arc::new(log);
        let archive = Records::written_by(log.clone());
        // As each gateway does when it starts; it looks again when it wants room.
        archive.retain(self.limits)?;
        self.running = Some((log, archive));
        Ok(took)
    }

    fn running(&self) -> Outcome<&(Arc<Log>, Records)> {
        Ok(self.running.as_ref().ok_or("the log is open")?)
    }

    pub(crate) fn archive(&self) -> Outcome<&Records> {
        Ok(&self.running()?.1)
    }

    pub(crate) fn grow_to(&mut self, calls: u64) -> Outcome {
        while self.calls < calls {
            let round = PER_ROUND.min(calls - self.calls);
            self.write(round)?;
            self.keep_house()?;
            self.look()?;
        }
        Ok(())
    }

    fn write(&mut self, count: u64) -> Outcome {
        let entries: Vec<(Entry, Entry)> = (0..count)
            .map(|n| self.call(self.calls + n))
            .collect::<Outcome<_>>()?;
        let log = self.running()?.0.clone();
        let before = cpu()?;
        for (began, ended) in entries {
            log.append(&began)?;
            log.append_or_queue(ended);
        }
        self.written.cpu += cpu()? - before;
        self.written.calls += count;
        self.calls += count;
        Ok(())
    }

    fn keep_house(&mut self) -> Outcome {
        let archive = self.archive()?;
        let before = cpu()?;
        if archive.wants_room(self.limits) {
            archive.retain(self.limits)?;
        }
        let between = cpu()?;
        archive.catch_up(&|| false)?;
        self.retained.cpu += between - before;
        self.indexed.cpu += cpu()? - between;
        self.retained.calls = self.calls;
        self.indexed.calls = self.calls;
        Ok(())
    }

    fn call(&mut self, n: u64) -> Outcome<(Entry, Entry)> {
        let id = self.ulid();
        if n.is_multiple_of(1000) {
            self.ids.push(id);
        }
        Ok((began(id, n)?, ended(id, n)?))
    }

    fn ulid(&self) -> Ulid {
        let ms = self.clock.now_us.load(Ordering::Relaxed) / 1000;
        Ulid::from_parts(ms.unsigned_abs(), Ulid::generate().random())
    }

    fn look(&mut self) -> Outcome {
        self.most_bytes = self.most_bytes.max(disk_bytes(&self.dir)?);
        self.looks += 1;
        Ok(())
    }

    pub(crate) fn print_disk(&self) {
        println!(
            "disk: at most {:.1} MB in {} looks, budget {} MB",
            self.most_bytes as f64 / 1048576.0,
            self.looks,
            self.limits.max_mb
        );
    }

    /// The disk was never over its budget.
    pub(crate) fn check(&self) -> Outcome {
        if self.most_bytes > self.limits.max_mb.saturating_mul(1024 * 1024) {
            return Err("the disk was over its budget".into());
        }
        Ok(())
    }
}

pub(crate) fn began(id: Ulid, n: u64) -> Outcome<Entry> {
    let intent = ["read", "write", "destructive"][n as usize % 3];
    Ok(Entry::from_json(&format!(
        r#"{{"kind":"forwarding","id":"{id}","type":"tool_call","source":"mcp","transport":"http","tenant":"local","principal":"agent","agent":"a{}","session_id":"s{}","request_id":"{n}","server":"server{}","tool":"tool_{}","arguments":{{"bytes":20,"blake3":"00","value":{{"path":"some/where/{n}"}}}},"decision":"ALLOW","rule":"allow:mcp_tool:*:*","checks":[{{"scope":"mcp_tool","decision":"ALLOW","rule":"allow:mcp_tool:*:*"}}],"intent":{{"operation_type":"{intent}","inferred":true}}}}"#,
        n % 5,
        n / 200,
        n % 20,
        n % 100,
    ))?)
}

pub(crate) fn ended(id: Ulid, n: u64) -> Outcome<Entry> {
    let status = if n.is_multiple_of(10) {
        "error"
    } else {
        "success"
    };
    Ok(Entry::from_json(&format!(
        r#"{{"kind":"finished","id":"{id}","status":"{status}","effect":"done","duration_us":900,"response":{{"bytes":30,"blake3":"00","value":{{"content":[]}}}}}}"#
    ))?)
}

/// The CPU time of this thread so far.
pub(crate) fn cpu() -> Outcome<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(Duration::from_nanos(ns))
}

/// How many bytes of the disk the files below a folder take.
pub(crate) fn disk_bytes(path: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let data = match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        bytes += if data.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            data.blocks() * 512
        };
    }
    Ok(bytes)
}
