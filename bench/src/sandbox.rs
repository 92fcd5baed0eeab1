//! What a sandbox adds to the start of a process and to a message to it: processes with and without one, in turn.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use callgate_process::sandbox::{Mode, Namespaces, Sandbox};
use callgate_process::stderr_tail::StderrTail;
use callgate_process::{Ending, Process, ProcessSpec};
use clap::Args;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::gateway::place::callgate;
use crate::gateway::stats::median;

/// What a sandbox may add to a start.
const BUDGET_MS: f64 = 5.0;

/// How much longer a message to a sandboxed process and back may take: the kernel looks at its filter for each system call, one
/// read and one write here, which is about 1 % of a call through the gateway.
const MESSAGE_BUDGET_US: f64 = 2.0;

/// Messages of one turn, and turns.
const MESSAGES: usize = 50;
const TURNS: usize = 100;

/// How it is measured.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Starts of each kind
    #[arg(long, default_value_t = 200)]
    starts: usize,
    /// The warden to use instead of the one beside the gateway
    #[arg(long)]
    warden: Option<PathBuf>,
}

/// What is started in turn.
const KINDS: [(&str, Option<Namespaces>); 3] = [
    ("no sandbox", None),
    ("sandbox with namespaces", Some(Namespaces::WhereAllowed)),
    ("sandbox without namespaces", Some(Namespaces::Off)),
];

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    on_one_processor()?;
    let warden = match &options.warden {
        Some(warden) => warden.clone(),
        None => callgate()?.with_file_name("callgate-warden"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let medians = runtime.block_on(measure(&warden, options.starts))?;
    let messages = runtime.block_on(measure_messages(&warden))?;
    println!(
        "| start and end of `true`, {} of each kind, in turn | median |",
        options.starts
    );
    println!("|---|---:|");
    for ((what, _), ms) in KINDS.iter().zip(medians) {
        println!("| {what} | {ms:.2} ms |");
    }
    let [without, ..] = medians;
    let added = medians.map(|ms| ms - without);
    println!("| added with namespaces | {:.2} ms |", added[1]);
    println!("| added without namespaces | {:.2} ms |", added[2]);
    println!("\n| 100 bytes to `cat` and back, {MESSAGES} per turn, {TURNS} turns | median |");
    println!("|---|---:|");
    for ((what, _), us) in KINDS.iter().zip(messages) {
        println!("| {what} | {us:.2} µs |");
    }
    if added.iter().any(|added| *added > BUDGET_MS) {
        bail!("a sandbox adds more than {BUDGET_MS} ms to a start");
    }
    if messages
        .iter()
        .any(|us| *us > messages[0] + MESSAGE_BUDGET_US)
    {
        bail!("a sandbox adds more than {MESSAGE_BUDGET_US} us to a message");
    }
    Ok(())
}

/// Keeps this process and its children on one processor: where the kernel puts a pair of processes decides whether a message
/// takes 5 or 35 us, and that hides what a sandbox costs.
fn on_one_processor() -> anyhow::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu));
    let mut one = CpuSet::new();
    one.set(first.context("a processor")?);
    Ok(sched_setaffinity(None, &one)?)
}

/// The time of one message to a running process and back, per kind.
async fn measure_messages(warden: &Path) -> anyhow::Result<[f64; KINDS.len()]> {
    let mut processes = Vec::new();
    for (_, namespaces) in KINDS {
        let mut process = Process::spawn(&spec(warden, "cat", namespaces), StderrTail::new())?;
        let (stdin, stdout) = (process.take_stdin(), process.take_stdout());
        processes.push((process, stdin.context("stdin")?, stdout.context("stdout")?));
    }
    let mut times: [Vec<f64>; KINDS.len()] = Default::default();
    let (line, mut answer) = ([b'x'; 100], [0; 100]);
    // The first turn waits for the starts and is not counted.
    for turn in 0..=TURNS {
        for ((_, stdin, stdout), times) in processes.iter_mut().zip(&mut times) {
            let began = Instant::now();
            for _ in 0..MESSAGES {
                stdin.write_all(&line).await?;
                stdout.read_exact(&mut answer).await?;
            }
            if turn > 0 {
                times.push(began.elapsed().as_secs_f64() * 1e6 / MESSAGES as f64);
            }
        }
    }
    Ok(times.map(|times| median(&times)))
}

async fn measure(warden: &Path, starts: usize) -> anyhow::Result<[f64; KINDS.len()]> {
    let mut times: [Vec<f64>; KINDS.len()] = Default::default();
    // The first round finds out what the machine enforces, which happens once per gateway, and is not counted.
    for round in 0..=starts {
        for ((_, namespaces), times) in KINDS.iter().zip(&mut times) {
            let took = start(warden, *namespaces).await?;
            if round > 0 {
                times.push(took.as_secs_f64() * 1000.0);
            }
        }
    }
    Ok(times.map(|times| median(&times)))
}

fn spec(warden: &Path, command: &str, namespaces: Option<Namespaces>) -> ProcessSpec {
    ProcessSpec {
        warden_program: warden.to_owned(),
        command: command.to_owned(),
        args: Vec::new(),
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        cwd: None,
        sandbox: namespaces.map(|namespaces| Sandbox {
            namespaces,
            ..Sandbox::new(Mode::Required)
        }),
    }
}

async fn start(warden: &Path, namespaces: Option<Namespaces>) -> anyhow::Result<Duration> {
    let spec = spec(warden, "true", namespaces);
    let began = Instant::now();
    let mut process = Process::spawn(&spec, StderrTail::new()).context("the warden")?;
    match process.wait().await {
        Ending::Exited { code: 0 } => Ok(began.elapsed()),
        other => bail!(
            "`true` ended with {other:?}: {:?}",
            process.stderr().last_line()
        ),
    }
}
