//! `callgate warden PID -- COMMAND`: the parent of a server's process, see the upstream room.

use std::process::ExitCode;

use crate::args::Warden;

pub(crate) fn run(warden: Warden) -> ExitCode {
    callgate_upstream::warden::run(warden.parent, warden.command)
}
