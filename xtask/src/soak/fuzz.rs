//! The fuzzer, long enough to mean something: many executions without a sanitizer, which our code
//! can do without because it has no unsafe block, and fewer with one for what lies below it.
//!
//! What is kept in `fuzz/corpus` is where it starts; nothing is written there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::install;
use crate::command::{cargo, command, exists, root, run as run_command};

const CARGO_FUZZ: &str = "0.13.2";

/// Executions of one target where nothing else is asked for: the scanner meets every byte that
/// anybody sends.
const SCANNER_RUNS: u64 = 100_000_000;
const OTHER_RUNS: u64 = 10_000_000;
/// With the sanitizer there are so many times fewer.
const SANITIZED_SHARE: u64 = 100;

/// Long enough for 128 nested containers and for a line of the record.
const MAX_LEN: usize = 1024;
/// An input that takes longer is a finding.
const SLOWEST_SECONDS: u32 = 10;

/// What to fuzz, and for how long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct Options {
    /// With `fuzz`: only this target.
    #[arg(long)]
    target: Option<String>,
    /// With `fuzz`: how many executions; 10^8 for the scanner and 10^7 for each other target.
    #[arg(long)]
    runs: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sanitizer {
    None,
    Address,
}

impl Sanitizer {
    fn as_str(self) -> &'static str {
        match self {
            Sanitizer::None => "none",
            Sanitizer::Address => "address",
        }
    }
}

/// Fuzzes one target after the other, prints what was done, and fails at the first finding.
pub(super) fn run(options: &Options) -> Result<()> {
    let targets = chosen(options.target.as_deref())?;
    prepare()?;
    for target in targets {
        let default = if target == "scanner" {
            SCANNER_RUNS
        } else {
            OTHER_RUNS
        };
        let runs = options.runs.unwrap_or(default);
        fuzz(&target, runs, Sanitizer::None)?;
        fuzz(&target, runs / SANITIZED_SHARE, Sanitizer::Address)?;
    }
    Ok(())
}

/// The targets by the names of their programs.
fn chosen(only: Option<&str>) -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let mut targets = Vec::new();
    for entry in fs::read_dir(&folder).context("cannot read fuzz/fuzz_targets")? {
        let path = entry?.path();
        targets.extend(
            path.file_stem()
                .map(|name| name.to_string_lossy().into_owned()),
        );
    }
    targets.sort();
    match only {
        None => Ok(targets),
        Some(name) if targets.iter().any(|target| target == name) => Ok(vec![name.to_owned()]),
        Some(name) => bail!(
            "unknown target `{name}`; the targets are {}",
            targets.join(", ")
        ),
    }
}

fn prepare() -> Result<()> {
    if !exists("cargo-fuzz", "--version") {
        eprintln!("soak: fetching cargo-fuzz {CARGO_FUZZ}");
        let install = ["install", "--locked", "cargo-fuzz", "--version", CARGO_FUZZ];
        run_command(cargo().args(install))?;
    }
    let nightly = command("rustup")
        .args(["run", "nightly", "rustc", "--version"])
        .output();
    if !nightly.is_ok_and(|output| output.status.success()) {
        bail!("the fuzzer needs a nightly compiler: `rustup toolchain install nightly`");
    }
    Ok(())
}

/// Runs a target on every core at once, each with its own part of the executions and its own seed.
fn fuzz(target: &str, runs: u64, sanitizer: Sanitizer) -> Result<()> {
    build(target, sanitizer)?;
    let jobs = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let start = Instant::now();
    let jobs: Vec<Job> = (1..=jobs)
        .map(|number| Job::start(target, number, runs.div_ceil(jobs), sanitizer))
        .collect::<Result<_>>()?;
    let mut total = Score::default();
    let mut failed = None;
    for job in jobs {
        let log = job.log.clone();
        let (score, is_clean) = job.finish()?;
        total.add(&score);
        if !is_clean {
            failed.get_or_insert(log);
        }
    }
    println!("{}", total.line(target, sanitizer, start.elapsed()));
    match failed {
        None => Ok(()),
        Some(log) => bail!(
            "a finding: the input is in fuzz/artifacts/{target}, what was said in {}; once it is \
             mended, the input belongs into fuzz/regressions/{target}",
            log.strip_prefix(root()).unwrap_or(&log).display()
        ),
    }
}

fn build(target: &str, sanitizer: Sanitizer) -> Result<()> {
    let words = ["run", "nightly", "cargo", "fuzz", "build", "--sanitizer"];
    run_command(
        command("rustup")
            .args(words)
            .args([sanitizer.as_str(), target]),
    )
}

/// A running fuzzing process and its files.
struct Job {
    process: Child,
    /// Where it tells its progress.
    log: PathBuf,
    /// Where it may write while it runs.
    scratch: PathBuf,
}

impl Job {
    fn start(target: &str, number: u64, runs: u64, sanitizer: Sanitizer) -> Result<Job> {
        let folder = install::folder()?.join("fuzz").join(target);
        let found = folder.join(format!("{}-{number}", sanitizer.as_str()));
        // What an earlier run found would be loaded again, and its executions would not count.
        let _ = fs::remove_dir_all(&found);
        fs::create_dir_all(&found).context("cannot make a folder in target/soak")?;
        let log = found.with_extension("log");
        let out = File::create(&log).context("cannot write in target/soak")?;
        let scratch = memory().join(format!("callgate-fuzz-{}-{number}", std::process::id()));
        fs::create_dir_all(&scratch).context("cannot make a temporary folder")?;
        let words = ["run", "nightly", "cargo", "fuzz", "run", "--sanitizer"];
        let process = command("rustup")
            .args(words)
            .args([sanitizer.as_str(), target])
            .arg(&found)
            .args(kept(target))
            .arg("--")
            .args(flags(number, runs))
            .env("TMPDIR", &scratch)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(out)
            .spawn()
            .context("cannot start the fuzzer")?;
        Ok(Job {
            process,
            log,
            scratch,
        })
    }

    /// What it did, and whether it ended without a finding.
    fn finish(mut self) -> Result<(Score, bool)> {
        let status = self.process.wait().context("cannot wait for the fuzzer")?;
        // What is left there is of no use, and of no harm.
        let _ = fs::remove_dir_all(&self.scratch);
        let log = fs::read(&self.log).context("cannot read the fuzzer's log")?;
        let score = Score::read(&String::from_utf8_lossy(&log));
        Ok((score, status.success()))
    }
}

/// Where files cost no disk: one target writes some for each input.
fn memory() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() {
        shared
    } else {
        std::env::temp_dir()
    }
}

/// The folders of inputs that are kept for a target.
fn kept(target: &str) -> Vec<PathBuf> {
    let folders = ["corpus", "regressions"].map(|name| Path::new("fuzz").join(name).join(target));
    let there = |folder: &PathBuf| root().join(folder).is_dir();
    folders.into_iter().filter(there).collect()
}

fn flags(number: u64, runs: u64) -> Vec<String> {
    vec![
        format!("-runs={runs}"),
        format!("-seed={number}"),
        format!("-max_len={MAX_LEN}"),
        format!("-timeout={SLOWEST_SECONDS}"),
        "-dict=fuzz/words.dict".to_owned(),
        "-print_final_stats=1".to_owned(),
    ]
}

/// The final report of a fuzzing process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Score {
    executions: u64,
    /// How many edges the kept inputs reach, and how many were reached in the end.
    edges_before: u64,
    edges: u64,
}

impl Score {
    fn read(log: &str) -> Score {
        let edges = |line: &str| {
            let (_, rest) = line.split_once("cov: ")?;
            rest.split(' ').next()?.parse().ok()
        };
        let executions = |line: &str| {
            let count = line.strip_prefix("stat::number_of_executed_units:")?;
            count.trim().parse().ok()
        };
        let before = log.lines().find(|line| line.contains("\tINITED cov: "));
        Score {
            executions: log.lines().find_map(executions).unwrap_or(0),
            edges_before: before.and_then(edges).unwrap_or(0),
            edges: log.lines().rev().find_map(edges).unwrap_or(0),
        }
    }

    fn add(&mut self, other: &Score) {
        self.executions += other.executions;
        self.edges_before = self.edges_before.max(other.edges_before);
        self.edges = self.edges.max(other.edges);
    }

    fn line(&self, target: &str, sanitizer: Sanitizer, took: Duration) -> String {
        let seconds = took.as_secs_f64();
        let Score {
            executions,
            edges_before,
            edges,
        } = self;
        let rate = *executions as f64 / seconds.max(1e-3);
        let sanitizer = sanitizer.as_str();
        format!(
            "fuzz {target}, sanitizer {sanitizer}: {executions} executions in {seconds:.0} s \
             ({rate:.0}/s), {edges_before} edges by what is kept, {edges} in the end"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "#44\tINITED cov: 900 ft: 1200 corp: 40/4Kb exec/s: 0 rss: 30Mb\n\
        #99\tNEW    cov: 905 ft: 1210 corp: 41/4Kb lim: 4 exec/s: 0 rss: 30Mb L: 4/9 MS: 1 EraseBytes-\n\
        #500\tDONE   cov: 910 ft: 1300 corp: 45/5Kb lim: 9 exec/s: 0 rss: 31Mb\n\
        Done 500 runs in 1 second(s)\n\
        stat::number_of_executed_units: 500\n\
        stat::average_exec_per_sec:     500\n";

    #[test]
    fn the_fuzz_score_is_read_from_the_log() {
        let expected = Score {
            executions: 500,
            edges_before: 900,
            edges: 910,
        };
        assert_eq!(Score::read(LOG), expected);
        assert_eq!(Score::read("it did not start"), Score::default());
    }

    #[test]
    fn scores_of_fuzz_jobs_add_executions_but_not_edges() {
        let mut total = Score::read(LOG);
        total.add(&Score {
            executions: 1,
            edges_before: 2,
            edges: 911,
        });
        let line = total.line("sse", Sanitizer::None, Duration::from_secs(2));
        let expected = "fuzz sse, sanitizer none: 501 executions in 2 s (250/s), 900 edges by what \
                        is kept, 911 in the end";
        assert_eq!(line, expected);
    }

    #[test]
    fn only_targets_that_exist_can_be_chosen() {
        assert!(
            chosen(None)
                .expect("the folder is there")
                .contains(&"scanner".to_owned())
        );
        assert_eq!(chosen(Some("sse")).expect("it exists"), ["sse"]);
        assert!(chosen(Some("nothing")).is_err());
    }
}
