//! Tracing: the loop over the stops of all traced processes, and the stage that becomes the command.

mod calls;
mod names;
mod sockets;
mod tracee;

use std::collections::HashSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, atomic::AtomicBool};

use nix::sys::ptrace::{self, Options};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};

use super::{SUBCOMMAND, Use};
use crate::warden::{self, EXIT_NOT_STARTED, NOT_STARTED_PREFIX};
use calls::Call;
use tracee::Tracee;

/// How many uses are reported: a box for more of them could not be read by a person, and they take memory.
const MOST_USES: usize = 50_000;

/// Why nothing was watched.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("{step}: {source}")]
    Step {
        step: &'static str,
        source: io::Error,
    },
    #[error("{0}")]
    NotStarted(String),
}

impl WatchError {
    /// For `map_err`: names the step that failed.
    fn at<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Step {
            step,
            source: source.into(),
        }
    }
}

pub(super) fn run(report: Option<&Path>, argv: &[OsString]) -> ExitCode {
    let done = match report {
        Some(report) => watch(report, argv),
        None => become_command(argv).map(|never| match never {}),
    };
    done.unwrap_or_else(|error| {
        let command = argv
            .first()
            .map(|word| word.to_string_lossy())
            .unwrap_or_default();
        // Fails if stderr is closed; the exit code has the same meaning.
        let _ = writeln!(io::stderr(), "{NOT_STARTED_PREFIX}{command}`: {error}");
        ExitCode::from(EXIT_NOT_STARTED)
    })
}

fn watch(report: &Path, argv: &[OsString]) -> Result<ExitCode, WatchError> {
    let report = OpenOptions::new().append(true).create(true).open(report);
    let mut watcher = Watcher {
        report: report.map_err(WatchError::at("could not open the report"))?,
        known: HashSet::new(),
        seen: HashSet::new(),
        made: HashSet::new(),
    };
    outlive_stop_signals().map_err(WatchError::at("could not handle signals"))?;
    let program =
        warden::own_program().map_err(WatchError::at("could not find the own program"))?;
    let child = Command::new(program)
        .args([SUBCOMMAND, "--"])
        .args(argv)
        .spawn()
        .map_err(WatchError::at("could not start the command"))?;
    let child = Pid::from_raw(child.id().cast_signed())
        .ok_or_else(|| WatchError::NotStarted("its process has no id".to_owned()))?;
    warden::release_pipes_and_folder()
        .map_err(WatchError::at("could not release the command's pipes"))?;
    Ok(watcher.follow(child))
}

/// The warden's signals go to every process below it. The watcher must not end before the command does: the kernel would kill
/// the command at once.
fn outlive_stop_signals() -> io::Result<()> {
    for signal in [
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

/// Asks to be traced, waits for the watcher and becomes the command.
fn become_command(argv: &[OsString]) -> Result<Infallible, WatchError> {
    let (program, args) = argv
        .split_first()
        .ok_or_else(|| WatchError::NotStarted("no command given after `--`".to_owned()))?;
    ptrace::traceme().map_err(WatchError::at(
        "this system does not let a process be traced (`ptrace`)",
    ))?;
    rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)
        .map_err(WatchError::at("could not wait for the watcher"))?;
    calls::stop_at().map_err(|error| {
        WatchError::NotStarted(format!("could not filter system calls: {error}"))
    })?;
    let error = Command::new(program).args(args).exec();
    Err(WatchError::NotStarted(warden::reason(&error)))
}

struct Watcher {
    report: File,
    /// The traced threads whose first stop was seen.
    known: HashSet<i32>,
    seen: HashSet<Use>,
    /// What the command made itself.
    made: HashSet<PathBuf>,
}

impl Watcher {
    /// Lets every traced process run on after each of its stops, until `child` has ended. What is left is killed by the kernel
    /// when this process ends.
    fn follow(&mut self, child: Pid) -> ExitCode {
        // Threads are children of their own kind.
        let all = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
        loop {
            match wait(all) {
                Ok(Some((pid, status))) if status.exited() || status.signaled() => {
                    self.known.remove(&pid.as_raw_pid());
                    if pid == child {
                        return warden::exit_code(Some(status));
                    }
                }
                Ok(Some((pid, status))) => self.stopped(pid.as_raw_pid(), status),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return warden::exit_code(None),
            }
        }
    }

    fn stopped(&mut self, id: i32, status: WaitStatus) {
        let thread = nix::unistd::Pid::from_raw(id);
        let signal = (status.as_raw() >> 8) & 0xff;
        let event = status.as_raw() >> 16;
        let (mut deliver, mut was_read) = (None, true);
        match event {
            0 if self.known.insert(id) && signal == libc::SIGSTOP => {
                // The first stop of each thread. Only that of the first one needs this; its descendants inherit the options.
                let options = Options::PTRACE_O_TRACESECCOMP
                    | Options::PTRACE_O_TRACEFORK
                    | Options::PTRACE_O_TRACEVFORK
                    | Options::PTRACE_O_TRACECLONE
                    | Options::PTRACE_O_TRACEEXEC
                    | Options::PTRACE_O_EXITKILL;
                let _ = ptrace::setoptions(thread, options);
            }
            0 => match nix::sys::signal::Signal::try_from(signal) {
                Ok(signal) => deliver = Some(signal),
                Err(_) => self.note(Use::Missed(format!(
                    "signal {signal}, a real-time signal, was not delivered"
                ))),
            },
            libc::PTRACE_EVENT_SECCOMP => was_read = self.look(id),
            libc::PTRACE_EVENT_EXEC => {
                // A thread that runs a program becomes the process; its own number is free again.
                if let Ok(former) = ptrace::getevent(thread)
                    && former != i64::from(id)
                {
                    self.known.retain(|known| i64::from(*known) != former);
                }
            }
            _ => {}
        }
        // Fails if the thread was killed meanwhile, which the next wait reports. Its call was not made then.
        let goes_on = ptrace::cont(thread, deliver).is_ok();
        if goes_on && !was_read {
            self.note(Use::Missed("a system call could not be read".to_owned()));
        }
    }

    /// Reports what the call uses that the thread is about to make. `false` if the call could not be read.
    fn look(&mut self, thread: i32) -> bool {
        let tracee = Tracee::new(thread);
        let Some(call) = tracee.call() else {
            return false;
        };
        for found in Call::uses(&call, &tracee) {
            self.note_with_links(found);
        }
        true
    }

    /// Reports a use as it was named and as links lead.
    fn note_with_links(&mut self, found: Use) {
        if self.seen.contains(&found) {
            return;
        }
        if self.seen.len() >= MOST_USES {
            let what = format!("it used more than {MOST_USES} things; further ones are not known");
            return self.note(Use::Missed(what));
        }
        let with = |real: PathBuf| match &found {
            Use::Read(_) => Use::Read(real),
            Use::Write(_) => Use::Write(real),
            Use::Change(_) => Use::Change(real),
            other => other.clone(),
        };
        let real = match &found {
            Use::Read(path) | Use::Write(path) => path.canonicalize().ok(),
            // The entry itself may be a link, and does not exist yet if it is being made.
            Use::Change(path) => path
                .parent()
                .and_then(|folder| folder.canonicalize().ok())
                .zip(path.file_name())
                .map(|(folder, name)| folder.join(name)),
            _ => None,
        };
        let (named, real) = (found.clone(), real.map(with));
        if self.is_below_made(&named) || real.as_ref().is_some_and(|real| self.is_below_made(real))
        {
            return;
        }
        for one in std::iter::once(named).chain(real) {
            if let Use::Change(path) = &one
                && path.symlink_metadata().is_err()
            {
                self.made.insert(path.clone());
            }
            self.note(one);
        }
    }

    fn is_below_made(&self, one: &Use) -> bool {
        let (Use::Read(path) | Use::Write(path) | Use::Change(path)) = one else {
            return false;
        };
        path.ancestors().any(|above| self.made.contains(above))
    }

    fn note(&mut self, one: Use) {
        if self.seen.contains(&one) {
            return;
        }
        let line = serde_json::to_string(&one).or_else(|_| {
            let what = format!("a path that is not UTF-8: {one:?}");
            serde_json::to_string(&Use::Missed(what))
        });
        self.seen.insert(one);
        if let Ok(line) = line {
            // If the disk is full the report ends early, and what is learnt from it is too little.
            let _ = self.report.write_all(format!("{line}\n").as_bytes());
        }
    }
}
