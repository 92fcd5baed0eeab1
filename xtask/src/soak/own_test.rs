//! Tests of the binary's own suite that a variable makes longer than CI has time for.

use anyhow::{Result, bail};

use crate::command::{self, cargo, output};

/// 200 gateways are killed.
pub(super) fn kill9() -> Result<()> {
    run("kill_9", "CALLGATE_KILLS", "200")
}

/// The configuration is reloaded 1,000 times under load.
pub(super) fn reload() -> Result<()> {
    run("reloads_under_load", "CALLGATE_RELOADS", "1000")
}

/// A thousand slow sockets, and all the patience it takes to see each of them cut off.
pub(super) fn slow_sockets() -> Result<()> {
    run("slow_sockets_cost_others", "CALLGATE_SLOW_SOCKETS", "1000")
}

/// Runs the test and shows what it prints. No test of that name is a failure too.
fn run(test: &str, variable: &str, value: &str) -> Result<()> {
    if command::exists("cargo-nextest", "--version") {
        let nextest = [
            "nextest",
            "run",
            "-p",
            "callgate-cli",
            "--no-capture",
            "--no-tests",
            "fail",
            test,
        ];
        return command::run(cargo().args(nextest).env(variable, value));
    }
    let listed = output(cargo().args(["test", "-p", "callgate-cli", test, "--", "--list"]))?;
    if !listed.contains(test) {
        bail!("callgate-cli has no test `{test}`");
    }
    let run = ["test", "-p", "callgate-cli", test, "--", "--nocapture"];
    command::run(cargo().args(run).env(variable, value))
}
