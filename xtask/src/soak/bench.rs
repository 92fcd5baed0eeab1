//! The measurements of `bench` that can fail: budgets, memory over time, instructions per call.

use anyhow::Result;

use crate::command::{cargo, run};

/// Everything that has a budget.
pub(super) fn budgets() -> Result<()> {
    measure(&["budgets"])
}

/// What grows over years.
pub(super) fn knees() -> Result<()> {
    measure(&["knees"])
}

/// Ten minutes of load over each of two pairs.
pub(super) fn steady() -> Result<()> {
    measure(&["steady", "--minutes", "10"])
}

/// A record that grows to ten million calls: without a limit up to a million, then within the default budget.
pub(super) fn million() -> Result<()> {
    let build = [
        "run",
        "--quiet",
        "--profile",
        "soak",
        "--package",
        "callgate-store",
    ];
    let sizes = [
        &["10000", "100000", "1000000"][..],
        &["--max-mb", "2048", "10000", "10000000"][..],
        &["--short", "10000"][..],
    ];
    sizes.into_iter().try_for_each(|sizes| {
        let rig = ["--example", "million", "--"];
        run(cargo().args(build).args(rig).args(sizes))
    })
}

/// Instructions per call against the committed ones; `bless` writes new ones.
pub(super) fn instructions(bless: bool) -> Result<()> {
    if bless {
        measure(&["instructions", "--bless"])
    } else {
        measure(&["instructions"])
    }
}

/// Hostile scripts end at their limits and do not delay other requests.
pub(super) fn hostile() -> Result<()> {
    measure(&["hostile"])
}

/// The overhead of scripts, and the tokens they save.
pub(super) fn code() -> Result<()> {
    measure(&["code", "--strict"])
}

/// The overhead of a workflow per state.
pub(super) fn workflow() -> Result<()> {
    measure(&["workflow"])
}

/// Runs a release build, which is what users run.
fn measure(arguments: &[&str]) -> Result<()> {
    let bench = ["run", "--quiet", "--release", "--package", "bench", "--"];
    run(cargo().args(bench).args(arguments))
}
