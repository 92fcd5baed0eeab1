//! Workers that wait for scripts. None is started before the first is wanted; from then on a few fresh ones are
//! kept ready. A worker serves one owner only: what a script might have done to it reaches nobody else.

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

/// Fresh workers that are kept ready.
const READY: usize = 2;
/// Used workers that are kept for their owners.
const USED: usize = 4;
/// Scripts that run at once; others wait.
const AT_ONCE: usize = 16;
/// How long a worker may take to begin.
const BEGIN: Duration = Duration::from_secs(20);
/// How long a worker's first frame may be.
const FIRST_WORDS: usize = 64;
/// How much of a dying worker's last words is read.
const LAST_WORDS: usize = 4096;

/// How a worker is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// What it is given before the memory in bytes.
    pub args: Vec<OsString>,
}

/// The workers.
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
    /// Fresh ones that are being started.
    starting: usize,
    used: Vec<(String, Worker)>,
}

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoWorker {
    /// It could not be started.
    #[error("a worker cannot be started: {0}")]
    NotStarted(#[from] io::Error),
    /// It did not begin.
    #[error("a worker was started and did not begin")]
    NotBegun,
}

impl Pool {
    /// A pool whose workers are started so.
    pub fn new(program: Program) -> Self {
        let shared = Shared {
            program,
            idle: Mutex::default(),
            at_once: Semaphore::new(AT_ONCE),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Starts fresh workers in the background, so that the next script finds one.
    pub fn warm(&self, memory_bytes: u64) {
        let wanted = {
            let mut idle = self.idle();
            let wanted = READY.saturating_sub(idle.fresh.len() + idle.starting);
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

    /// How many workers wait right now.
    pub fn waiting(&self) -> usize {
        let idle = self.idle();
        idle.fresh.len() + idle.used.len()
    }

    /// How many of them have run scripts and wait for more of their owners.
    pub fn used(&self) -> usize {
        self.idle().used.len()
    }

    /// Ends all that wait.
    pub fn clear(&self) {
        let mut idle = self.idle();
        idle.fresh.clear();
        idle.used.clear();
    }

    /// Waits for a turn.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.shared.at_once.acquire().await.ok()
    }

    /// A worker that has served nobody but this owner.
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
        if idle.used.len() >= USED {
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
    /// Whether it waited for a script since it began, or since the last one.
    pub(crate) was_waiting: bool,
}

impl Worker {
    async fn start(program: &Program, memory_bytes: u64) -> Result<Self, NoWorker> {
        let mut command = Command::new(&program.path);
        command
            .args(&program.args)
            .arg(memory_bytes.to_string())
            .env_clear()
            // An allocator that takes all it might need at once would be at the limit at once.
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
        match timeout(BEGIN, worker.hear(FIRST_WORDS)).await {
            Ok(Some(FromWorker::Ready)) => Ok(worker),
            Ok(_) | Err(_) => Err(NoWorker::NotBegun),
        }
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The next thing it says; `None` once it says nothing more, or something that is no frame or longer than
    /// `most`. May be given up at any time: what was read stays.
    pub(crate) async fn hear(&mut self, most: usize) -> Option<FromWorker> {
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

    /// Tells it something; `false` when it is gone.
    pub(crate) async fn tell(&mut self, frame: &ToWorker) -> bool {
        match frames::encode(frame) {
            Ok(bytes) => self.input.write_all(&bytes).await.is_ok(),
            Err(_) => false,
        }
    }

    /// How it ended, and what it said last.
    pub(crate) async fn end(mut self) -> (Option<ExitStatus>, String) {
        // One that still runs has said something that it may not.
        let _ = self.child.start_kill();
        let status = self.child.wait().await.ok();
        let mut words = Vec::new();
        let reading = self
            .errors
            .take(LAST_WORDS as u64)
            .read_to_end(&mut words)
            .await;
        let words = reading.map(|_| String::from_utf8_lossy(&words).into_owned());
        (status, words.unwrap_or_default())
    }
}
