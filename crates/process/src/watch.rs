//! Watching what a program uses: the files and folders, addresses and names that it and its descendants ask the kernel for.
//!
//! `callgate watch --report FILE -- COMMAND` runs the command with all rights that it has anyway and appends each use to the
//! file, one line of JSON each. It restricts nothing and does not protect: a program can behave well while it is watched.
//!
//! Linux only. The watcher traces the command's processes (`ptrace`), which an ordinary user may do with own children; a
//! seccomp filter makes the kernel stop them at the calls of interest only. Rejected: fanotify and Landlock's audit messages
//! (root only), inotify (does not know the process, and needs a watch per folder of the disk), seccomp's notifications (no
//! safe interface), `strace` (a program that is usually not installed).

#[cfg(target_os = "linux")]
mod linux;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

/// The hidden subcommand under which the binary calls [`run`].
pub const SUBCOMMAND: &str = "watch";

/// How much of a report is read: what the watcher writes is much less.
const MOST_REPORT_BYTES: u64 = 256 * 1024 * 1024;

/// The option for the file that uses are appended to.
pub const REPORT_FLAG: &str = "--report";

/// Something that a watched program used. Paths are absolute; a path that leads through links is reported as it was named
/// and as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// A file that was read or run, or a folder that was listed.
    Read(PathBuf),
    /// An existing file that was opened for writing, or whose attributes were set.
    Write(PathBuf),
    /// An entry of a folder that was made, renamed or removed. Uses below an entry that the program made are not reported.
    Change(PathBuf),
    /// A Unix socket that was connected to; `@name` for an abstract one.
    Socket(PathBuf),
    /// A TCP connection that was attempted.
    Connect(SocketAddr),
    /// A name that a name server was asked for.
    Name(String),
    /// A packet that was sent outside of TCP, other than to a name server.
    Datagram(SocketAddr),
    /// An address on which the program listens.
    Listen(SocketAddr),
    /// Something that the watcher could not pass on or read.
    Missed(String),
}

/// The command line that runs `command` watched. `program` is this binary.
pub fn command_line(
    program: &Path,
    report: &Path,
    command: &str,
    args: &[String],
) -> (String, Vec<String>) {
    let own = [
        SUBCOMMAND.to_owned(),
        REPORT_FLAG.to_owned(),
        report.display().to_string(),
        "--".to_owned(),
        command.to_owned(),
    ];
    let args = own.into_iter().chain(args.iter().cloned());
    (program.display().to_string(), args.collect())
}

/// The uses in a report, each once, in their order. A line that is not one, as a last one that was not finished, is ignored.
pub fn read_report(report: &Path) -> io::Result<Vec<Use>> {
    let mut uses: Vec<Use> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut text = Vec::new();
    let file = File::open(report)?;
    file.take(MOST_REPORT_BYTES).read_to_end(&mut text)?;
    for line in text.split(|byte| *byte == b'\n') {
        if let Ok(one) = serde_json::from_slice::<Use>(line)
            && seen.insert(one.clone())
        {
            uses.push(one);
        }
    }
    Ok(uses)
}

/// Runs `argv` watched until it ends. Without a report this is the later stage: the process that becomes the command.
///
/// Must be called before any other thread exists. Returns the command's exit code, or 128 plus the number of the signal that
/// killed it.
#[cfg(target_os = "linux")]
pub fn run(report: Option<&Path>, argv: &[OsString]) -> ExitCode {
    linux::run(report, argv)
}

#[cfg(not(target_os = "linux"))]
pub fn run(_report: Option<&Path>, _argv: &[OsString]) -> ExitCode {
    use std::io::Write;

    let _ = writeln!(io::stderr(), "error: this system cannot watch a program");
    ExitCode::from(crate::warden::EXIT_NOT_STARTED)
}
