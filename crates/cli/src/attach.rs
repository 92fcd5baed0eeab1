//! Attaching: a `stdio` beside a running `serve` on the same data folder hands its host's bytes to it,
//! so that servers are not started once more for each host. Nothing is parsed on the way.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    os::{
        fd::AsFd,
        unix::{fs::PermissionsExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::{self, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, test_kill_process},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use tokio::net::UnixListener;

use callgate_config::{Settings, Source};

use crate::{admin::RunFile, args::Gateway, exit::Failed};

/// The socket in the data folder.
const SOCKET_FILE: &str = "serve.sock";
/// Who holds it owns the socket.
const LOCK_FILE: &str = "serve.lock";
/// A dead gateway, and whoever clears its socket away, hold the lock for a moment; it is waited for.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// How much is copied at once.
const PIECE_BYTES: usize = 64 * 1024;

/// The socket of a running `serve`. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    _lock: File,
}

impl Socket {
    /// Listens for hosts. `None` when another `serve` of this data folder does that already.
    pub(crate) fn listen(data_dir: &Path) -> io::Result<Option<(Self, UnixListener)>> {
        let Some(lock) = lock(data_dir, LOCK_PATIENCE)? else {
            return Ok(None);
        };
        let path = data_dir.join(SOCKET_FILE);
        // The lock says that nobody listens on what may be there.
        remove(&path)?;
        let listener = UnixListener::bind(&path)?;
        let socket = Self { path, _lock: lock };
        // Nobody else reaches the data folder either way; its mode is 0700.
        fs::set_permissions(&socket.path, fs::Permissions::from_mode(0o600))?;
        Ok(Some((socket, listener)))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = remove(&self.path);
    }
}

/// What a `stdio` does about a `serve` of its data folder.
#[derive(Debug)]
pub(crate) enum Beside {
    /// There is none.
    Nobody,
    /// There is one, and it serves something else.
    Stranger {
        /// It.
        gateway: RunFile,
        /// What is different.
        why: &'static str,
    },
    /// There is one to attach to.
    Attached {
        /// It.
        gateway: RunFile,
        /// The way to it.
        stream: UnixStream,
    },
}

impl Beside {
    /// Looks for a `serve` that serves what this `stdio` would. One that was told anything by flags
    /// serves its own.
    pub(crate) fn find(settings: &Settings, flags: &Gateway) -> Self {
        let data_dir = &settings.data_dir;
        // A gateway that was killed while it started a server leaves its socket open in that
        // child for a moment.
        let Some(gateway) = RunFile::read(data_dir).filter(|noted| is_alive(noted.pid)) else {
            return Self::Nobody;
        };
        let Ok(stream) = UnixStream::connect(data_dir.join(SOCKET_FILE)) else {
            return Self::Nobody;
        };
        let why = if *flags != Gateway::default() {
            "this one was told something else by flags"
        } else if !same_file(&settings.source, &gateway) {
            "it uses another configuration"
        } else {
            return Self::Attached { gateway, stream };
        };
        Self::Stranger { gateway, why }
    }
}

/// Where the configuration is, whatever folder it was found from.
pub(crate) fn place(source: &Source) -> Option<PathBuf> {
    let file = source.file.as_deref()?;
    Some(fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()))
}

/// Copies bytes between this process's host and the gateway until one of them goes.
pub(crate) fn relay(
    gateway: &RunFile,
    stream: UnixStream,
    data_dir: &Path,
) -> Result<ExitCode, Failed> {
    let failed = |error: io::Error| Failed::system(format!("cannot attach: {error}"));
    let host_went = Arc::new(AtomicBool::new(false));
    end_on_signals(&stream, &host_went).map_err(failed)?;
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
    let (upward, ended) = (stream.try_clone().map_err(failed)?, host_went.clone());
    // Not joined: it waits for the host's next byte, and the process need not.
    thread::spawn(move || {
        if copy(&stdin, &upward).is_ok() {
            ended.store(true, Ordering::Release);
            let _ = upward.shutdown(Shutdown::Write);
        }
    });
    let nobody_reads = match copy(&stream, &stdout) {
        Ok(()) => false,
        Err(error) => error.kind() == ErrorKind::BrokenPipe,
    };
    if nobody_reads || host_went.load(Ordering::Acquire) {
        return Ok(ExitCode::SUCCESS);
    }
    clear_away(data_dir);
    let what = format!("the gateway (process {}) has ended", gateway.pid);
    Err(Failed::execution(what).help("start this again: it serves alone when no gateway runs"))
}

/// Hands each piece on as it comes. `io::copy` was tried: it splices, and a line then stayed in the pipe
/// until its writer went away.
fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => to.write_all(&piece[..length])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The first signal tells the gateway that no more is coming, the second ends this process.
fn end_on_signals(stream: &UnixStream, host_went: &Arc<AtomicBool>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (stream, host_went) = (stream.try_clone()?, host_went.clone());
    thread::spawn(move || {
        for _ in &mut signals {
            if host_went.swap(true, Ordering::AcqRel) {
                process::exit(0);
            }
            let _ = stream.shutdown(Shutdown::Write);
        }
    });
    Ok(())
}

/// Removes what a gateway that was killed has left, unless another one is there already. The lock of
/// a killed one goes a moment after its sockets.
fn clear_away(data_dir: &Path) {
    if let Ok(Some(_lock)) = lock(data_dir, LOCK_PATIENCE) {
        let _ = remove(&data_dir.join(SOCKET_FILE));
    }
}

fn lock(data_dir: &Path, patience: Duration) -> io::Result<Option<File>> {
    let end = Instant::now() + patience;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(data_dir.join(LOCK_FILE))?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() >= end => return Ok(None),
            Err(rustix::io::Errno::WOULDBLOCK) => thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// A `stdio` without a file has nothing of its own to serve.
fn same_file(source: &Source, gateway: &RunFile) -> bool {
    source.file.is_none() || place(source) == gateway.config
}
