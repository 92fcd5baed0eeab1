//! How a command ends: exit codes and messages on stderr.

use std::process::ExitCode;

pub(crate) use callgate_config::Failed;
use callgate_config::Fault;
use callgate_gate::visible::{Layout, visible};

/// Prints a failure and returns the exit code. The message may quote files and servers, so control characters are
/// escaped before they reach the terminal.
pub(crate) fn report(failed: &Failed) -> ExitCode {
    eprintln!("error: {}", visible(failed.message(), Layout::Lines));
    if let Some(help) = failed.advice() {
        eprintln!("help: {}", visible(help, Layout::Lines));
    }
    code(failed.fault())
}

/// The exit code of a command that was stopped with Ctrl-C or a signal, as shells have it for SIGINT.
#[cfg(feature = "agents")]
const STOPPED: u8 = 130;

/// Prints that the command was stopped, and returns the exit code for it.
#[cfg(feature = "agents")]
pub(crate) fn stopped(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::from(STOPPED)
}

/// The exit code of a failure.
fn code(fault: Fault) -> ExitCode {
    ExitCode::from(match fault {
        Fault::User => 1,
        Fault::Config => 2,
        Fault::Execution => 3,
        Fault::System => 4,
    })
}

/// Help and version succeed; any other usage error is the user's.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // If stdout and stderr are closed, there is no place left to report the failure.
    let _ = error.print();
    if error.use_stderr() {
        code(Fault::User)
    } else {
        ExitCode::SUCCESS
    }
}
