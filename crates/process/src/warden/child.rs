//! The warden's child: starting it, with or without a sandbox, why it was not started, and how it ended.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};

use rustix::process::{Signal, WaitStatus};

use super::scratch::Scratch;
use crate::sandbox::handoff::Handoff;

pub(super) fn plain(argv: &[OsString]) -> io::Result<Child> {
    let (command, args) = argv.split_first().ok_or(ErrorKind::InvalidInput)?;
    Command::new(command).args(args).process_group(0).spawn()
}

/// Starts the process that makes the sandbox and runs the command in it.
#[cfg(target_os = "linux")]
pub(super) fn sandboxed(
    mut handoff: Handoff,
    argv: &[OsString],
) -> Result<(Child, Option<Scratch>), String> {
    let mut scratch = None;
    if crate::sandbox::linux::needs_scratch(&handoff) {
        let made =
            Scratch::make().map_err(|error| format!("no folder for temporary files: {error}"))?;
        handoff.scratch = Some(made.path().to_owned());
        scratch = Some(made);
    }
    let child = crate::sandbox::linux::spawn(&handoff, argv).map_err(|error| error.to_string())?;
    Ok((child, scratch))
}

/// This system has no sandbox.
#[cfg(not(target_os = "linux"))]
pub(super) fn sandboxed(
    handoff: Handoff,
    argv: &[OsString],
) -> Result<(Child, Option<Scratch>), String> {
    use std::io::Write;

    use crate::sandbox::{GAP_PREFIX, Gap, Mode};
    let sentence = Gap::NoSandbox.sentence();
    match handoff.sandbox.mode {
        Mode::Required => Err(format!("its sandbox is required, and {sentence}")),
        Mode::BestEffort => {
            let _ = writeln!(io::stderr(), "{GAP_PREFIX}{sentence}");
            let child = plain(argv).map_err(|error| reason(&error))?;
            Ok((child, None))
        }
    }
}

/// The code that tells how a process ended; `None` means that it could not be ended.
pub(crate) fn exit_code(ended: Option<WaitStatus>) -> ExitCode {
    let killed = 128 + Signal::KILL.as_raw();
    let code = match ended {
        Some(status) => status
            .exit_status()
            .or_else(|| status.terminating_signal().map(|signal| 128 + signal))
            .unwrap_or(killed),
        None => killed,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Why a command could not be started, for people.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => {
            "no such command, or the interpreter its first line names is missing".to_owned()
        }
        ErrorKind::PermissionDenied => "it is not executable".to_owned(),
        _ => error.to_string(),
    }
}
