//! The warden: a small process between the gateway and one server, so that no descendant of the server outlives the gateway.
//!
//! It is `callgate-warden warden PARENT_PID -- COMMAND ARGS…`, a separate program because a small one takes next to no memory
//! per server. Where it is not installed, the main binary runs with the same arguments. The warden becomes the subreaper of
//! every process below it, so a grandchild that called `setsid` or forked twice is adopted by it instead of by init. It watches
//! the gateway through a pidfd, which fires even after `kill -9`. It passes no bytes: the server owns the pipes. It restarts
//! nothing and does not survive a `SIGKILL` of itself; its name differs from the gateway's, so that `killall callgate` does not
//! hit it.
//!
//! Linux is fully supported. Elsewhere the parent is polled and only the server's own process group is killed.

mod child;
mod scratch;
pub(crate) mod tree;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getppid, kill_process_group, wait};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use crate::sandbox::handoff::{Handoff, Stage};
pub(crate) use child::{exit_code, reason};
use child::{plain, sandboxed};
use scratch::Scratch;

/// The hidden subcommand under which the binary calls [`run`].
pub const SUBCOMMAND: &str = "warden";

/// The option for a folder that is removed when the gateway is gone.
pub const REMOVE_FLAG: &str = "--remove";

/// The separate warden program, which is installed beside the main binary.
const PROGRAM: &str = "callgate-warden";

/// The name a warden carries in process lists, both as `argv[0]` and as its thread name.
pub const PROCESS_NAME: &str = "cg-warden";

/// How long descendants have between `SIGTERM` and `SIGKILL`.
pub const TERM_GRACE: Duration = Duration::from_secs(5);

/// The exit code when the command could not be started, as in a shell.
pub const EXIT_NOT_STARTED: u8 = 127;

/// How the warden's one message on stderr begins when the command could not be started.
pub const NOT_STARTED_PREFIX: &str = "callgate: cannot start `";

/// The exit code when the warden itself could not be set up.
const EXIT_NO_WARDEN: u8 = 125;

/// How long the warden waits for killed processes: one in uninterruptible sleep, or of another user, may never end.
const KILL_DEADLINE: Duration = Duration::from_secs(10);

/// How often a tree that is being killed is checked.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a killed gateway may take to exit.
const GATEWAY_EXIT_GRACE: Duration = Duration::from_millis(200);

/// How often the parent is checked where the system has no pidfd.
const PARENT_INTERVAL: Duration = Duration::from_millis(200);

/// The program to start as a warden: the small one beside this binary, else this binary.
pub fn program() -> io::Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name(PROGRAM);
    if beside.is_file() {
        return Ok(beside);
    }
    own_program()
}

/// This binary.
///
/// On Linux this is `/proc/self/exe`, which still names the running program after an upgrade has replaced the file.
pub fn own_program() -> io::Result<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && link.exists() {
        return Ok(link);
    }
    std::env::current_exe()
}

/// The `main` of the small program: parses `warden PARENT_PID [--remove FOLDER] -- COMMAND ARGS…` and runs the warden.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter().skip(1);
    let parent = args
        .next()
        .filter(|word| word == SUBCOMMAND)
        .and_then(|_| args.next()?.to_str()?.parse().ok());
    let mut next = args.next();
    let mut folder = None;
    if next.as_ref().is_some_and(|word| word == REMOVE_FLAG) {
        folder = args.next().map(PathBuf::from);
        next = args.next();
    }
    match (parent, next) {
        (Some(parent), Some(dashes)) if dashes == "--" => match folder {
            Some(folder) => run_and_remove(parent, args.collect(), &folder),
            None => run(parent, args.collect()),
        },
        _ => {
            let usage = "callgate-warden cannot be run by hand: callgate starts it for each server";
            let _ = writeln!(io::stderr(), "error: {usage}\nhelp: run `callgate --help`");
            ExitCode::from(EXIT_NO_WARDEN)
        }
    }
}

/// Runs `argv` as a child of this process until it ends, the process `parent` is gone, or a signal asks to stop.
///
/// Must be called on the main thread before any other thread exists. Returns the child's exit code, or 128 plus the
/// number of the signal that killed it.
pub fn run(parent: u32, argv: Vec<OsString>) -> ExitCode {
    run_with_grace(parent, argv, TERM_GRACE)
}

/// [`run`] for a process with a private folder, which is removed if the gateway was killed before it could do so.
pub fn run_and_remove(parent: u32, argv: Vec<OsString>, folder: &Path) -> ExitCode {
    let code = run(parent, argv);
    let parent = i32::try_from(parent).ok().and_then(Pid::from_raw);
    // The sockets of a killed gateway close shortly before its process ends. The command may have ended because of that, so
    // the gateway gets some time to exit before it counts as alive.
    let end = Instant::now() + GATEWAY_EXIT_GRACE;
    while Instant::now() < end && getppid() == parent {
        std::thread::sleep(KILL_INTERVAL);
    }
    if getppid() != parent {
        // If this fails, the next agent step removes left-over folders.
        let _ = std::fs::remove_dir_all(folder);
    }
    code
}

/// [`run`] with another time between `SIGTERM` and `SIGKILL`.
///
/// A process whose environment holds a sandbox for a later stage is not a warden, but that stage.
pub fn run_with_grace(parent: u32, argv: Vec<OsString>, grace: Duration) -> ExitCode {
    let start = match Handoff::from_environment() {
        None => Warden::start(parent, &argv, None),
        Some(Ok(handoff)) if handoff.stage == Stage::Warden => {
            Warden::start(parent, &argv, Some(handoff))
        }
        Some(Ok(handoff)) => return later_stage(&handoff, parent, &argv),
        Some(Err(error)) => Err(StartError::Setup(error.into())),
    };
    match start {
        Ok(warden) => warden.watch(grace),
        Err(error) => {
            // Fails if stderr is closed; the exit code has the same meaning.
            let _ = writeln!(io::stderr(), "callgate: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

#[cfg(target_os = "linux")]
fn later_stage(handoff: &Handoff, parent: u32, argv: &[OsString]) -> ExitCode {
    crate::sandbox::linux::run(handoff, parent, argv)
}

#[cfg(not(target_os = "linux"))]
fn later_stage(_handoff: &Handoff, _parent: u32, _argv: &[OsString]) -> ExitCode {
    ExitCode::from(EXIT_NO_WARDEN)
}

/// Why no child was started.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("no command given after `--`")]
    NoCommand,
    #[error("the gateway ended before its warden started")]
    ParentGone,
    #[error("could not set up the warden: {0}")]
    Setup(#[from] io::Error),
    #[error("cannot start `{command}`: {reason}")]
    NotStarted { command: String, reason: String },
}

impl StartError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoCommand | Self::ParentGone | Self::Setup(_) => EXIT_NO_WARDEN,
            Self::NotStarted { .. } => EXIT_NOT_STARTED,
        }
    }
}

/// The warden's phase. It only moves downwards.
#[derive(Clone, Copy)]
enum Phase {
    Running,
    Terminating { until: Instant },
    Killing { until: Instant },
}

/// Whether processes are left below the warden.
enum Descendants {
    Left,
    None,
}

struct Warden {
    parent: Parent,
    child: Pid,
    /// How the child ended, once it has.
    ended: Option<WaitStatus>,
    /// Readable when a child changed state.
    child_signals: UnixStream,
    /// Readable when this process was asked to stop.
    stop_signals: UnixStream,
    /// The private folder of a sandbox; removed when everything in it has ended.
    scratch: Option<Scratch>,
}

impl Warden {
    fn start(parent: u32, argv: &[OsString], sandbox: Option<Handoff>) -> Result<Self, StartError> {
        let command = argv.first().ok_or(StartError::NoCommand)?;
        rename_and_become_reaper()?;
        allow_huge_pages();
        let parent = Parent::open(parent)?;
        // Before the child is started: a signal that arrives without a handler would end the warden and leave the child behind.
        let child_signals = signal_pipe(&[SIGCHLD])?;
        let stop_signals = signal_pipe(&[SIGTERM, SIGINT, SIGHUP])?;
        if parent.is_gone() {
            return Err(StartError::ParentGone);
        }
        let not_started = |reason| StartError::NotStarted {
            command: command.to_string_lossy().into_owned(),
            reason,
        };
        let (child, scratch) = match sandbox {
            None => (
                plain(argv).map_err(|error| not_started(reason(&error)))?,
                None,
            ),
            Some(handoff) => sandboxed(handoff, argv).map_err(not_started)?,
        };
        let child = Pid::from_raw(child.id().cast_signed())
            .ok_or_else(|| io::Error::from(ErrorKind::InvalidData))?;
        let warden = Self {
            parent,
            child,
            ended: None,
            child_signals,
            stop_signals,
            scratch,
        };
        if let Err(error) = release_pipes_and_folder() {
            warden.signal_below(Signal::KILL);
            return Err(error.into());
        }
        Ok(warden)
    }

    fn watch(mut self, grace: Duration) -> ExitCode {
        let mut phase = Phase::Running;
        loop {
            if let Descendants::None = self.reap() {
                break;
            }
            phase = self.advance(phase, grace);
            if let Phase::Killing { until } = phase {
                if Instant::now() >= until {
                    break;
                }
                self.signal_below(Signal::KILL);
            }
            self.sleep(phase);
        }
        drop(self.scratch.take());
        exit_code(self.ended)
    }

    /// Collects every child that has ended, adopted orphans included, so that no zombies pile up.
    fn reap(&mut self) -> Descendants {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.child => self.ended = Some(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Descendants::Left,
                Err(_) => return Descendants::None,
            }
        }
    }

    fn advance(&mut self, phase: Phase, grace: Duration) -> Phase {
        let now = Instant::now();
        let killing = Phase::Killing {
            until: now + KILL_DEADLINE,
        };
        let asked_to_stop = drain(&mut self.stop_signals);
        match phase {
            Phase::Killing { .. } => phase,
            Phase::Running | Phase::Terminating { .. } if self.parent.is_gone() => killing,
            Phase::Running if self.ended.is_some() => killing,
            Phase::Running if asked_to_stop => {
                self.signal_below(Signal::TERM);
                Phase::Terminating { until: now + grace }
            }
            Phase::Terminating { until } if now >= until => killing,
            Phase::Running | Phase::Terminating { .. } => phase,
        }
    }

    fn signal_below(&self, signal: Signal) {
        let whole_tree = tree::signal_below(rustix::process::getpid(), signal);
        if whole_tree.is_err() {
            // Without a readable /proc, only the child's own process group is known. It may already be empty.
            let _ = kill_process_group(self.child, signal);
        }
    }

    /// Sleeps until a child ends, a signal arrives, the parent ends, or the phase times out.
    fn sleep(&mut self, phase: Phase) {
        let timeout = match phase {
            Phase::Running => None,
            Phase::Terminating { until } => Some(until.saturating_duration_since(Instant::now())),
            Phase::Killing { .. } => Some(KILL_INTERVAL),
        };
        let timeout = match &self.parent.pidfd {
            Some(_) => timeout,
            None => Some(timeout.map_or(PARENT_INTERVAL, |t| t.min(PARENT_INTERVAL))),
        };
        let timeout = timeout.map(|t| {
            Timespec::try_from(t).unwrap_or(Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            })
        });
        let mut fds = vec![
            PollFd::new(&self.child_signals, PollFlags::IN),
            PollFd::new(&self.stop_signals, PollFlags::IN),
        ];
        // Not in the last phase: the pidfd of a dead parent stays readable and would make this a busy loop.
        if let (Some(pidfd), Phase::Running | Phase::Terminating { .. }) =
            (&self.parent.pidfd, phase)
        {
            fds.push(PollFd::new(pidfd, PollFlags::IN));
        }
        // An interrupted poll needs no handling: the caller checks every condition again.
        let _ = poll(&mut fds, timeout.as_ref());
        drain(&mut self.child_signals);
    }
}

/// The gateway, the parent of the warden.
struct Parent {
    pid: Option<Pid>,
    /// Readable once the parent is gone; `None` where the system has no pidfds.
    pidfd: Option<OwnedFd>,
}

impl Parent {
    fn open(pid: u32) -> Result<Self, StartError> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let parent = Self {
            pid,
            pidfd: pid.and_then(open_pidfd),
        };
        // Checked after opening: if the parent is still alive, the pidfd cannot be that of a later process with its number.
        if parent.is_gone() {
            Err(StartError::ParentGone)
        } else {
            Ok(parent)
        }
    }

    fn is_gone(&self) -> bool {
        self.pid.is_none() || getppid() != self.pid
    }
}

#[cfg(target_os = "linux")]
fn open_pidfd(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_pidfd(_pid: Pid) -> Option<OwnedFd> {
    None
}

#[cfg(target_os = "linux")]
fn rename_and_become_reaper() -> io::Result<()> {
    rustix::thread::set_name(c"cg-warden")?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn rename_and_become_reaper() -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn allow_huge_pages() {
    // The gateway disables huge pages to stay small, and its children inherit that. Servers should run as they would without
    // the gateway. If this fails, they only lose speed.
    let _ = rustix::thread::disable_transparent_huge_pages(false);
}

#[cfg(not(target_os = "linux"))]
fn allow_huge_pages() {}

/// A socket that becomes readable when one of `signals` arrives.
fn signal_pipe(signals: &[i32]) -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// Empties a signal pipe; `true` if there was anything in it.
fn drain(pipe: &mut UnixStream) -> bool {
    let mut any = false;
    let mut buffer = [0; 64];
    while let Ok(1..) = pipe.read(&mut buffer) {
        any = true;
    }
    any
}

/// Releases the server's pipes, so that closing one end is seen at the other, and its working folder, so that it can be removed.
pub(crate) fn release_pipes_and_folder() -> io::Result<()> {
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(null.as_fd())?;
    rustix::stdio::dup2_stdout(null.as_fd())?;
    rustix::stdio::dup2_stderr(null.as_fd())?;
    rustix::process::chdir("/")?;
    Ok(())
}
