//! A binary for the tests of child processes: `warden PARENT -- COMMAND…` is the warden as the product starts it, and
//! `gateway COMMAND…` is a gateway reduced to holding one process, there to be killed. With `GATEWAY_SANDBOX`, a sandbox as
//! JSON, in its environment the process gets that sandbox. `watch [--report FILE] -- COMMAND…` is the watcher.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use callgate_process::stderr_tail::StderrTail;
use callgate_process::{Process, ProcessSpec};
use callgate_process::{warden, watch};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args
        .next()
        .and_then(|mode| mode.into_string().ok())
        .as_deref()
    {
        Some(warden::SUBCOMMAND) => run_warden(args),
        Some("gateway") => run_gateway(args),
        Some(watch::SUBCOMMAND) => run_watch(args),
        Some(_) | None => ExitCode::FAILURE,
    }
}

fn run_warden(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = args.next().and_then(|pid| pid.to_str()?.parse().ok());
    let Some(parent) = parent.filter(|_| args.next().is_some_and(|dashes| dashes == "--")) else {
        return ExitCode::FAILURE;
    };
    let grace = std::env::var("WARDEN_GRACE_MS")
        .ok()
        .and_then(|ms| ms.parse().ok());
    match grace {
        Some(ms) => warden::run_with_grace(parent, args.collect(), Duration::from_millis(ms)),
        None => warden::run(parent, args.collect()),
    }
}

fn run_watch(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut report = None;
    if args.next().is_some_and(|word| word == watch::REPORT_FLAG) {
        report = args.next().map(PathBuf::from);
        args.next();
    }
    watch::run(report.as_deref(), &args.collect::<Vec<_>>())
}

fn run_gateway(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut argv = args.filter_map(|arg| arg.into_string().ok());
    let (Some(command), Ok(warden_program)) = (argv.next(), warden::own_program()) else {
        return ExitCode::FAILURE;
    };
    let spec = ProcessSpec {
        warden_program,
        command,
        args: argv.collect(),
        env: std::env::vars().collect(),
        cwd: None,
        sandbox: std::env::var("GATEWAY_SANDBOX")
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok()),
    };
    let Ok(runtime) = tokio::runtime::Runtime::new() else {
        return ExitCode::FAILURE;
    };
    runtime.block_on(async {
        let Ok(mut process) = Process::spawn(&spec, StderrTail::new()) else {
            return ExitCode::FAILURE;
        };
        process.wait().await;
        ExitCode::SUCCESS
    })
}
