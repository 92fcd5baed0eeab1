//! `callgate warden PID -- COMMAND`: the parent of a server's process, see the upstream room.

use std::process::ExitCode;

use callgate_process::warden;

use crate::args::Warden;

pub(crate) fn run(warden: Warden) -> ExitCode {
    match &warden.remove {
        Some(folder) => warden::run_and_remove(warden.parent, warden.command, folder),
        None => warden::run(warden.parent, warden.command),
    }
}
