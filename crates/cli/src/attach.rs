//! Attaching: a `stdio` beside a running `serve` on the same data folder relays its host's bytes to it,
//! so that servers are not started again for each host. The relay parses nothing.

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

use callgate_config::{ConfigSource, Settings};

use crate::{admin::RunFile, args::Gateway, exit::Failed};

/// The socket in the data folder.
const SOCKET_FILE: &str = "serve.sock";
/// The process that holds this lock owns the socket.
const LOCK_FILE: &str = "serve.lock";
/// How long to wait for the lock: a dying gateway, or a process that removes its socket, holds it briefly.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The size of the copy buffer.
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
        // Holding the lock proves that no process listens on an old socket, so it can be removed.
        remove(&path)?;
        let listener = UnixListener::bind(&path)?;
        let socket = Self { path, _lock: lock };
        // A second barrier: the data folder's mode 0700 already keeps other users out.
        fs::set_permissions(&socket.path, fs::Permissions::from_mode(0o600))?;
        Ok(Some((socket, listener)))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = remove(&self.path);
    }
}

/// The running `serve` of a data folder, seen from a `stdio`.
#[derive(Debug)]
pub(crate) enum RunningServe {
    Absent,
    /// It serves something else than this `stdio` would; `why` says what differs.
    Different {
        gateway: RunFile,
        why: &'static str,
    },
    /// It serves the same, and `stream` is connected to it.
    Attachable {
        gateway: RunFile,
        stream: UnixStream,
    },
}

impl RunningServe {
    /// Looks for a `serve` that serves what this `stdio` would. A `stdio` with flags never attaches, because
    /// the running gateway does not have them.
    pub(crate) fn find(settings: &Settings, flags: &Gateway) -> Self {
        let data_dir = &settings.data_dir;
        // Connecting is not proof enough: a gateway that was killed while it started a server leaves its
        // socket open in that child for a short time.
        let Some(gateway) = RunFile::read(data_dir).filter(|noted| is_alive(noted.pid)) else {
            return Self::Absent;
        };
        let Ok(stream) = UnixStream::connect(data_dir.join(SOCKET_FILE)) else {
            return Self::Absent;
        };
        let why = if *flags != Gateway::default() {
            "this command has flags of its own"
        } else if !same_file(&settings.source, &gateway) {
            "it uses a different configuration file"
        } else {
            return Self::Attachable { gateway, stream };
        };
        Self::Different { gateway, why }
    }
}

/// The configuration file with links resolved, so that it compares equal from any folder.
pub(crate) fn config_path(source: &ConfigSource) -> Option<PathBuf> {
    let file = source.file.as_deref()?;
    Some(fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()))
}

/// Copies bytes between this process's host and the gateway until one of them disconnects.
pub(crate) fn relay(
    gateway: &RunFile,
    stream: UnixStream,
    data_dir: &Path,
) -> Result<ExitCode, Failed> {
    let failed =
        |error: io::Error| Failed::system(format!("cannot attach to the gateway: {error}"));
    let host_disconnected = Arc::new(AtomicBool::new(false));
    end_on_signals(&stream, &host_disconnected).map_err(failed)?;
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
    let (upward, ended) = (
        stream.try_clone().map_err(failed)?,
        host_disconnected.clone(),
    );
    // Not joined: the thread blocks on the host's next byte, which may never come.
    thread::spawn(move || {
        if copy(&stdin, &upward).is_ok() {
            ended.store(true, Ordering::Release);
            let _ = upward.shutdown(Shutdown::Write);
        }
    });
    let stdout_closed = match copy(&stream, &stdout) {
        Ok(()) => false,
        Err(error) => error.kind() == ErrorKind::BrokenPipe,
    };
    if stdout_closed || host_disconnected.load(Ordering::Acquire) {
        return Ok(ExitCode::SUCCESS);
    }
    remove_stale_socket(data_dir);
    let what = format!("the gateway (process {}) ended", gateway.pid);
    Err(Failed::execution(what)
        .help("run this command again: without a running gateway it starts the servers itself"))
}

/// Writes each piece as it arrives. `io::copy` was tried: it splices, and a line then stayed in the pipe
/// until its writer closed it.
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

/// The first signal closes the stream towards the gateway, the second ends this process.
fn end_on_signals(stream: &UnixStream, host_disconnected: &Arc<AtomicBool>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (stream, host_disconnected) = (stream.try_clone()?, host_disconnected.clone());
    thread::spawn(move || {
        for _ in &mut signals {
            if host_disconnected.swap(true, Ordering::AcqRel) {
                process::exit(0);
            }
            let _ = stream.shutdown(Shutdown::Write);
        }
    });
    Ok(())
}

/// Removes the socket of a killed gateway, unless a new one already owns it. The kernel releases a killed
/// process's lock shortly after its sockets, so this waits for the lock.
fn remove_stale_socket(data_dir: &Path) {
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

/// Whether the gateway uses this configuration. A `stdio` without a file has no servers of its own and fits any gateway.
fn same_file(source: &ConfigSource, gateway: &RunFile) -> bool {
    source.file.is_none() || config_path(source) == gateway.config
}
