//! The pool of workers. The first script starts the first worker; from then on a few fresh ones are kept ready. A
//! worker serves a single owner, so a script that compromises its worker cannot affect other owners.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use crate::frames::{self, FromWorker, ToWorker};

/// How many fresh workers are kept ready.
const FRESH_WORKERS: usize = 2;
/// How many used workers are kept for their owners; the oldest is ended to make room.
const MAX_USED_WORKERS: usize = 4;
/// How many scripts run at once; others wait.
const MAX_CONCURRENT_RUNS: usize = 16;
/// The time limit for a worker's start.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest first frame of a worker: it only says that the worker is ready.
const MAX_FIRST_FRAME_BYTES: usize = 64;
/// How much of a dead worker's stderr is read, to find out why it died.
const MAX_STDERR_BYTES: usize = 4096;

/// How a worker is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    /// Arguments before the memory limit in bytes.
    pub args: Vec<OsString>,
}

#[derive(Debug, Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    program: Program,
    idle: Mutex<Idle>,
    at_once: Semaphore,
}

#[derive(Debug, Default)]
struct Idle {
    fresh: Vec<Worker>,
    /// How many fresh workers are being started.
    starting: usize,
    used: Vec<(String, Worker)>,
}

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoWorker {
    #[error("a worker cannot be started: {0}")]
    NotStarted(#[from] io::Error),
    #[error("a worker started but did not become ready")]
    NotBegun,
}

impl Pool {
    /// A pool that starts its workers with `program`.
    pub fn new(program: Program) -> Self {
        let shared = Shared {
            program,
            idle: Mutex::default(),
            at_once: Semaphore::new(MAX_CONCURRENT_RUNS),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Starts fresh workers in the background, so that the next script finds one.
    pub fn warm(&self, memory_bytes: u64) {
        let wanted = {
            let mut idle = self.idle();
            let wanted = FRESH_WORKERS.saturating_sub(idle.fresh.len() + idle.starting);
            idle.starting += wanted;
            wanted
        };
        for _ in 0..wanted {
            let pool = self.clone();
            tokio::spawn(async move {
                let started = Worker::start(&pool.shared.program, memory_bytes).await;
                let mut idle = pool.idle();
                idle.starting -= 1;
                match started {
                    Ok(mut worker) => {
                        worker.was_waiting = true;
                        idle.fresh.push(worker);
                    }
                    Err(error) => crate::log::worker_not_started(&error),
                }
            });
        }
    }

    /// How many idle workers there are.
    pub fn waiting(&self) -> usize {
        let idle = self.idle();
        idle.fresh.len() + idle.used.len()
    }

    /// How many idle workers are reserved for an owner.
    pub fn used(&self) -> usize {
        self.idle().used.len()
    }

    /// Ends all idle workers.
    pub fn clear(&self) {
        let mut idle = self.idle();
        idle.fresh.clear();
        idle.used.clear();
    }

    /// Waits until another script may run; `None` while the pool shuts down.
    pub(crate) async fn run_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.shared.at_once.acquire().await.ok()
    }

    /// A worker that has served no other owner.
    pub(crate) async fn take(&self, owner: &str, memory_bytes: u64) -> Result<Worker, NoWorker> {
        loop {
            let found = {
                let mut idle = self.idle();
                let used = idle
                    .used
                    .iter()
                    .position(|(of, worker)| of == owner && worker.memory_bytes == memory_bytes);
                match used {
                    Some(at) => Some(idle.used.swap_remove(at).1),
                    None => idle.fresh.pop(),
                }
            };
            self.warm(memory_bytes);
            let Some(mut worker) = found else {
                return Worker::start(&self.shared.program, memory_bytes).await;
            };
            if worker.memory_bytes == memory_bytes && worker.is_alive() {
                return Ok(worker);
            }
        }
    }

    /// Keeps a worker for its owner's next script.
    pub(crate) fn give_back(&self, owner: &str, worker: Worker) {
        let mut idle = self.idle();
        if idle.used.len() >= MAX_USED_WORKERS {
            idle.used.remove(0);
        }
        idle.used.push((owner.to_owned(), worker));
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.shared
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker process; dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    errors: ChildStderr,
    read: Vec<u8>,
    memory_bytes: u64,
    /// Whether the worker has been idle. An idle worker may have died unnoticed.
    pub(crate) was_waiting: bool,
}

impl Worker {
    async fn start(program: &Program, memory_bytes: u64) -> Result<Self, NoWorker> {
        let mut command = Command::new(&program.path);
        command
            .args(&program.args)
            .arg(memory_bytes.to_string())
            .env_clear()
            // mimalloc otherwise commits whole arenas at once, which would exceed the memory limit at the start.
            .env("MIMALLOC_ARENA_EAGER_COMMIT", "0")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(NoWorker::NotBegun);
        };
        let mut worker = Self {
            child,
            input,
            output,
            errors,
            read: Vec::new(),
            memory_bytes,
            was_waiting: false,
        };
        match timeout(START_TIMEOUT, worker.receive(MAX_FIRST_FRAME_BYTES)).await {
            Ok(Some(FromWorker::Ready)) => Ok(worker),
            Ok(_) | Err(_) => Err(NoWorker::NotBegun),
        }
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The next frame; `None` at the end of the stream, or after a frame that is invalid or longer than `most`.
    /// Cancel safe: bytes already read stay in the buffer.
    pub(crate) async fn receive(&mut self, most: usize) -> Option<FromWorker> {
        loop {
            match frames::take(&mut self.read, most) {
                Ok(Some(frame)) => return Some(frame),
                Ok(None) => {}
                Err(frames::Unreadable) => return None,
            }
            match self.output.read_buf(&mut self.read).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Sends a frame; `false` if the worker is gone.
    pub(crate) async fn send(&mut self, frame: &ToWorker) -> bool {
        match frames::encode(frame) {
            Ok(bytes) => self.input.write_all(&bytes).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Ends the worker. Returns its exit status and its stderr.
    pub(crate) async fn end(mut self) -> (Option<ExitStatus>, String) {
        // A worker that still runs broke the protocol.
        let _ = self.child.start_kill();
        let status = self.child.wait().await.ok();
        let mut words = Vec::new();
        let reading = self
            .errors
            .take(MAX_STDERR_BYTES as u64)
            .read_to_end(&mut words)
            .await;
        let words = reading.map(|_| String::from_utf8_lossy(&words).into_owned());
        (status, words.unwrap_or_default())
    }
}
