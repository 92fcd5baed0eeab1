//! What CI runs, in CI's order.

use std::{num::NonZero, thread, time::Instant};

use anyhow::{Context, Result};

use crate::command::{self, cargo};
use crate::tidy;

/// Runs every step, prints its time, and stops at the first that fails.
pub(crate) fn run() -> Result<()> {
    let threads = test_threads();
    for (name, arguments) in cargo_steps(&threads) {
        step(name, || command::run(cargo().args(arguments)))?;
    }
    step("tidy", tidy::run)
}

/// Most tests wait for processes and clocks, so twice as many run at once as there are cores.
fn test_threads() -> String {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    (2 * cores).to_string()
}

fn cargo_steps(threads: &str) -> [(&'static str, Vec<&str>); 5] {
    let tests = if command::exists("cargo-nextest", "--version") {
        let run = ["nextest", "run", "--workspace", "--locked"];
        [&run[..], &["--test-threads", threads]].concat()
    } else {
        vec!["test", "--workspace", "--locked"]
    };
    let clippy = vec![
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ];
    [
        ("fmt", vec!["fmt", "--all", "--check"]),
        ("clippy", clippy),
        (
            "build",
            vec!["build", "--workspace", "--all-targets", "--locked"],
        ),
        ("tests", tests),
        (
            "doc tests",
            vec!["test", "--workspace", "--doc", "--locked"],
        ),
    ]
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("ci: {name}");
    let start = Instant::now();
    work().with_context(|| format!("ci failed at `{name}`"))?;
    eprintln!("ci: {name} took {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
