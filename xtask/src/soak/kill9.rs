//! The gateway's own kill -9 test, with many more kills than CI has time for.

use anyhow::{Result, bail};

use crate::command::{self, cargo, output};

const TEST: &str = "kill_9";
const KILLS: &str = "200";

/// Runs the test and shows what it prints. No test of that name is a failure too.
pub(super) fn run() -> Result<()> {
    if command::exists("cargo-nextest", "--version") {
        let nextest = [
            "nextest",
            "run",
            "-p",
            "callgate-cli",
            "--no-capture",
            "--no-tests",
            "fail",
            TEST,
        ];
        return command::run(cargo().args(nextest).env("CALLGATE_KILLS", KILLS));
    }
    let listed = output(cargo().args(["test", "-p", "callgate-cli", TEST, "--", "--list"]))?;
    if !listed.contains(TEST) {
        bail!("callgate-cli has no test `{TEST}`");
    }
    let test = ["test", "-p", "callgate-cli", TEST, "--", "--nocapture"];
    command::run(cargo().args(test).env("CALLGATE_KILLS", KILLS))
}
