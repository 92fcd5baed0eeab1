//! How a command ends: exit codes, and what is said on stderr.

use std::process::ExitCode;

pub(crate) use callgate_config::Failed;
use callgate_config::Fault;
use callgate_gate::visible::{Layout, visible};

/// Prints a failure and gives the exit code. Files and servers have a part in the words, and a terminal must not obey them.
pub(crate) fn report(failed: &Failed) -> ExitCode {
    eprintln!("error: {}", visible(failed.message(), Layout::Lines));
    if let Some(help) = failed.advice() {
        eprintln!("help: {}", visible(help, Layout::Lines));
    }
    code(failed.fault())
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

/// Help and version are no failures; anything else about arguments is the user's.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A closed stdout or stderr leaves nobody to tell.
    let _ = error.print();
    if error.use_stderr() {
        code(Fault::User)
    } else {
        ExitCode::SUCCESS
    }
}
