//! What CI runs, in CI's order.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::command::{self, cargo};
use crate::tidy;

/// Runs every step, prints its time, and stops at the first that fails.
pub(crate) fn run() -> Result<()> {
    for (name, arguments) in cargo_steps() {
        step(name, || command::run(cargo().args(arguments)))?;
    }
    step("tidy", tidy::run)
}

fn cargo_steps() -> [(&'static str, &'static [&'static str]); 5] {
    let tests: &[&str] = if command::exists("cargo-nextest", "--version") {
        &["nextest", "run", "--workspace", "--locked"]
    } else {
        &["test", "--workspace", "--locked"]
    };
    let clippy = &[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ];
    [
        ("fmt", &["fmt", "--all", "--check"]),
        ("clippy", clippy),
        (
            "build",
            &["build", "--workspace", "--all-targets", "--locked"],
        ),
        ("tests", tests),
        ("doc tests", &["test", "--workspace", "--doc", "--locked"]),
    ]
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("ci: {name}");
    let start = Instant::now();
    work().with_context(|| format!("ci failed at `{name}`"))?;
    eprintln!("ci: {name} took {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
