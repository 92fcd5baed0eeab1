//! `callgate watch --report FILE -- COMMAND`: runs a server for `servers learn`, see the process room.

use std::process::ExitCode;

use callgate_process::watch;

use crate::args::Watch;

pub(crate) fn run(watch: &Watch) -> ExitCode {
    watch::run(watch.report.as_deref(), &watch.command)
}
