//! What a state of a workflow costs beside its work: runs of many states that do nothing, beside the same commands
//! in a shell.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;

use crate::gateway::place::callgate;

/// What a state may cost.
const BUDGET: Duration = Duration::from_millis(5);

/// How it is measured.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// States in the long run
    #[arg(long, default_value_t = 200)]
    states: usize,
    /// Runs, of which the median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    // Runs are begun in a folder of their own.
    let program = fs::canonicalize(callgate()?)?;
    let walked = |states: usize| -> anyhow::Result<Duration> {
        let file = place.path().join(format!("{states}.yaml"));
        fs::write(&file, workflow(states))?;
        median(options.runs, || walk(&program, place.path(), &file))
    };
    // What a run costs however long it is cancels out.
    let (short, long) = (walked(1)?, walked(options.states + 1)?);
    let states = u32::try_from(options.states).context("so many states")?;
    let state = long.saturating_sub(short) / states;
    let shell = median(options.runs, || shell(options.states))? / states;
    let beside = state.saturating_sub(shell);
    println!("| {} states | median of {} |", options.states, options.runs);
    println!("|---|---:|");
    println!("| a state whose command is `true` | {:.2} ms |", ms(state));
    println!("| `sh -c true` alone | {:.2} ms |", ms(shell));
    println!("| beside its work | {:.2} ms |", ms(beside));
    if beside > BUDGET {
        bail!("a state costs more than {} ms beside its work", ms(BUDGET));
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn workflow(states: usize) -> String {
    let mut text = "states:\n  initial: s0\n".to_owned();
    for at in 0..states {
        let next = match at + 1 {
            last if last == states => String::new(),
            next => format!(", on_success: s{next}"),
        };
        text.push_str(&format!(
            "  s{at}: {{type: command, command: 'true'{next}}}\n"
        ));
    }
    text
}

fn walk(program: &Path, place: &Path, file: &Path) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let status = Command::new(program)
        .args(["workflow", "run"])
        .arg(file)
        .arg("--data-dir")
        .arg(place.join("data"))
        .current_dir(place)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("the gateway")?;
    if !status.success() {
        bail!("a run failed: {status}");
    }
    Ok(began.elapsed())
}

fn shell(times: usize) -> anyhow::Result<Duration> {
    let began = Instant::now();
    for _ in 0..times {
        Command::new("/bin/sh").args(["-c", "true"]).status()?;
    }
    Ok(began.elapsed())
}

fn median(
    runs: usize,
    mut once: impl FnMut() -> anyhow::Result<Duration>,
) -> anyhow::Result<Duration> {
    let times: anyhow::Result<Vec<Duration>> = (0..runs.max(1)).map(|_| once()).collect();
    let mut times = times?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
