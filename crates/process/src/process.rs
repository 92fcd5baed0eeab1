//! A server's child process: its pipes, its stderr, closing it, and how it ended.
//!
//! The gateway's direct child is always the [warden](crate::warden), and the server is the warden's child. This module never
//! sends the warden `SIGKILL` while it may have descendants, because they would then outlive the gateway.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::sandbox::handoff::{self, Handoff, Purpose};
use crate::sandbox::{self, Namespaces, Sandbox};
use crate::stderr_tail::StderrTail;
use crate::warden::{self, tree};

/// How long a warden may take to exit after its tree was sent `SIGKILL`.
const KILL_SLACK: Duration = Duration::from_secs(1);

/// How often a tree that its warden failed to end is killed again from here.
const KILL_INTERVAL: Duration = Duration::from_millis(50);

/// How long the last bytes of stderr are waited for after the process has ended.
const STDERR_SLACK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// The program that is started as the warden; normally [`warden::program`].
    pub warden_program: PathBuf,
    /// The server's command, looked up on the `PATH` of `env`.
    pub command: String,
    pub args: Vec<String>,
    /// The server's whole environment; nothing else is inherited.
    pub env: Vec<(String, String)>,
    /// The server's working folder; the gateway's own if `None`.
    pub cwd: Option<PathBuf>,
    /// What the server may touch; all that the gateway's user may if `None`.
    pub sandbox: Option<Sandbox>,
}

/// Why no process was started. A command that does not exist is reported later, as [`Ending::NotStarted`].
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("working folder `{}` does not exist", .folder.display())]
    FolderMissing { folder: PathBuf },
    /// A path of the sandbox is not UTF-8.
    #[error("the sandbox of `{command}` cannot be described: {source}")]
    SandboxNotDescribed {
        command: String,
        source: serde_json::Error,
    },
    /// The system could not start another process.
    #[error("could not start the warden `{}`: {source}", .program.display())]
    WardenNotStarted { program: PathBuf, source: io::Error },
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The command could not be started at all.
    NotStarted {
        /// The warden's sentence: the command and the reason.
        message: String,
    },
    /// The command ran and ended with this code; 128 plus a signal's number if a signal ended it.
    Exited { code: i32 },
    /// A signal from elsewhere ended the warden. Descendants of the server may still be running.
    WardenKilled { signal: i32 },
    /// The exit status could not be read.
    Unknown,
}

/// How long each step of closing may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseTimes {
    /// From the end of stdin to `SIGTERM`.
    pub after_eof: Duration,
    /// From `SIGTERM` to `SIGKILL`.
    pub after_term: Duration,
}

impl Default for CloseTimes {
    fn default() -> Self {
        Self {
            after_eof: Duration::from_secs(2),
            after_term: warden::TERM_GRACE,
        }
    }
}

/// A running server behind its warden.
///
/// Dropping it sends the warden `SIGTERM`, which ends the tree in the same way as [`Process::close`] does but without being
/// waited for; if the gateway ends meanwhile, the warden sees that and kills the tree at once.
#[derive(Debug)]
pub struct Process {
    warden: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    /// `None` if stderr is drained here.
    stderr_pipe: Option<ChildStderr>,
    stderr: StderrTail,
    /// Copies stderr into the tail until stderr ends; joined in [`Process::wait`].
    drain: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts `spec` under a warden and begins to drain its stderr into `stderr`. Needs a tokio runtime.
    pub fn spawn(spec: &ProcessSpec, stderr: StderrTail) -> Result<Self, SpawnError> {
        Self::spawn_with(spec, stderr, None)
    }

    /// [`Process::spawn`] for a process with a private folder, which the warden removes if the gateway is killed.
    pub fn spawn_with(
        spec: &ProcessSpec,
        stderr: StderrTail,
        folder: Option<&Path>,
    ) -> Result<Self, SpawnError> {
        let mut process = Self::start(spec, folder)?;
        let pipe = process.stderr_pipe.take();
        process.drain = pipe.map(|pipe| tokio::spawn(drain(pipe, stderr.clone())));
        process.stderr = stderr;
        Ok(process)
    }

    /// Starts `spec` under a warden and leaves its stderr to be taken with [`Process::take_stderr`]. Needs a tokio runtime.
    pub fn spawn_piped(spec: &ProcessSpec) -> Result<Self, SpawnError> {
        Self::start(spec, None)
    }

    fn start(spec: &ProcessSpec, private: Option<&Path>) -> Result<Self, SpawnError> {
        if let Some(folder) = spec.cwd.as_ref().filter(|folder| !folder.is_dir()) {
            return Err(SpawnError::FolderMissing {
                folder: folder.clone(),
            });
        }
        let mut warden =
            command(spec, private)?
                .spawn()
                .map_err(|source| SpawnError::WardenNotStarted {
                    program: spec.warden_program.clone(),
                    source,
                })?;
        Ok(Self {
            stdin: warden.stdin.take(),
            stdout: warden.stdout.take(),
            stderr_pipe: warden.stderr.take(),
            warden,
            stderr: StderrTail::new(),
            drain: None,
        })
    }

    /// [`Process::spawn_piped`] for a process with a private folder, which the warden removes if the gateway is killed.
    pub fn spawn_for(spec: &ProcessSpec, folder: &Path) -> Result<Self, SpawnError> {
        Self::start(spec, Some(folder))
    }

    /// The pipe to the server, once. Dropping it tells the server that its input has ended.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// The pipe from the server, once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// The stderr pipe of a process started with [`Process::spawn_piped`], once.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr_pipe.take()
    }

    /// What the server wrote to stderr.
    pub fn stderr(&self) -> &StderrTail {
        &self.stderr
    }

    /// The warden's process id; `None` once its exit status was collected.
    pub fn warden_pid(&self) -> Option<u32> {
        self.warden.id()
    }

    /// Waits until the server and everything below it have ended. May be cancelled and called again.
    pub async fn wait(&mut self) -> Ending {
        let status = self.warden.wait().await;
        self.join_drain().await;
        match status {
            Ok(status) => self.ending(status),
            Err(_) => Ending::Unknown,
        }
    }

    /// Ends the server: end of stdin, `SIGTERM`, `SIGKILL`, each for the whole tree and after the time `times` gives.
    ///
    /// A pipe that was taken with [`Process::take_stdin`] must be dropped by its holder, or the first step is lost.
    pub async fn close(mut self, times: CloseTimes) -> Ending {
        self.stdin = None;
        if let Ok(ending) = timeout(times.after_eof, self.wait()).await {
            return ending;
        }
        self.signal_warden(Signal::TERM);
        if let Ok(ending) = timeout(times.after_term, self.wait()).await {
            return ending;
        }
        // The warden kills the tree now too, by its own clock. This covers a warden that is stopped or late.
        let deadline = Instant::now() + KILL_SLACK;
        while Instant::now() < deadline {
            self.kill_tree();
            if let Ok(ending) = timeout(KILL_INTERVAL, self.wait()).await {
                return ending;
            }
        }
        self.signal_warden(Signal::KILL);
        timeout(KILL_SLACK, self.wait())
            .await
            .unwrap_or(Ending::Unknown)
    }

    fn ending(&self, status: ExitStatus) -> Ending {
        let Some(code) = status.code() else {
            return status
                .signal()
                .map_or(Ending::Unknown, |signal| Ending::WardenKilled { signal });
        };
        let refusal = self.stderr.last_line().filter(|line| {
            code == i32::from(warden::EXIT_NOT_STARTED)
                && line.starts_with(warden::NOT_STARTED_PREFIX)
        });
        match refusal {
            Some(message) => Ending::NotStarted { message },
            None => Ending::Exited { code },
        }
    }

    async fn join_drain(&mut self) {
        if let Some(drain) = &mut self.drain {
            // A process that could not be killed may keep stderr open for ever.
            if timeout(STDERR_SLACK, &mut *drain).await.is_err() {
                drain.abort();
            }
            self.drain = None;
        }
    }

    // The id cannot belong to another process by now: it is `None` once the exit status was collected.
    fn pid(&self) -> Option<Pid> {
        self.warden
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
    }

    fn signal_warden(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // Fails if the warden has just ended, which is the aim.
            let _ = kill_process(pid, signal);
        }
    }

    fn kill_tree(&self) {
        if let Some(pid) = self.pid() {
            // Fails without a readable /proc. The warden then kills the server's process group.
            let _ = tree::signal_below(pid, Signal::KILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal_warden(Signal::TERM);
        if let Some(drain) = &self.drain {
            drain.abort();
        }
    }
}

/// The variable through which the warden learns of the sandbox.
fn described(spec: &ProcessSpec, sandbox: &Sandbox) -> Result<String, SpawnError> {
    let no_namespaces = match sandbox.namespaces {
        Namespaces::Off => None,
        Namespaces::WhereAllowed => sandbox::probe(&spec.warden_program)
            .namespaces
            .clone()
            .err(),
    };
    Handoff::for_warden(sandbox.clone(), no_namespaces, Purpose::Run)
        .to_text()
        .map_err(|source| SpawnError::SandboxNotDescribed {
            command: spec.command.clone(),
            source,
        })
}

fn command(spec: &ProcessSpec, private: Option<&Path>) -> Result<Command, SpawnError> {
    let mut command = Command::new(&spec.warden_program);
    command
        .arg0(warden::PROCESS_NAME)
        .arg(warden::SUBCOMMAND)
        .arg(std::process::id().to_string());
    if let Some(folder) = private {
        command.arg(warden::REMOVE_FLAG).arg(folder);
    }
    command
        .arg("--")
        .arg(&spec.command)
        .args(&spec.args)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        // Also if the configuration sets it: the warden would take it for the gateway's word.
        .env_remove(handoff::VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // In a group of its own, so that a Ctrl-C at the terminal reaches the gateway alone, which then closes in order,
        // and a SIGKILL to the gateway's group leaves the warden to clean up.
        .process_group(0)
        // SIGKILL for the warden would free its descendants; `Drop` sends SIGTERM instead.
        .kill_on_drop(false);
    if let Some(folder) = &spec.cwd {
        command.current_dir(folder);
    }
    if let Some(sandbox) = &spec.sandbox {
        command.env(handoff::VARIABLE, described(spec, sandbox)?);
    }
    Ok(command)
}

/// Reads stderr to its end, so that a server can never block on writing to it.
async fn drain(mut pipe: ChildStderr, tail: StderrTail) {
    let mut buffer = vec![0; 8 * 1024];
    loop {
        match pipe.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(length) => {
                // Off the reactor, because a tail with a file writes to the disk.
                let (tail, piece) = (tail.clone(), buffer[..length].to_vec());
                if tokio::task::spawn_blocking(move || tail.push(&piece))
                    .await
                    .is_err()
                {
                    break;
                }
            }
        }
    }
    tail.finish();
}
