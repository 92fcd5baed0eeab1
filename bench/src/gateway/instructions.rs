//! `bench instructions`: instructions per call, counted by callgrind, against the committed ones.
//!
//! Time on a shared machine says little about a change of some percent; instructions hardly vary.
//! A script is run in two lengths, so that the difference is free of starting and ending.
//!
//! Upstreams are reached over HTTP in all cases. One over stdio needs a warden, which is
//! `/proc/self/exe` once more, and under valgrind that is valgrind.

mod baseline;
mod profile;

use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::Args;

use self::{
    baseline::{Baseline, Judgement, Part},
    profile::Counts,
};
use super::{
    cell::size,
    load::{Length, Script, load, text},
    place,
    start::{Wrapper, runtime},
    stats::Figure,
    table::Table,
    way::{Transport, Way},
};

/// What is counted: calls one after the other, of one size.
#[derive(Debug, Clone, Copy)]
struct Case {
    host: Transport,
    bytes: usize,
    /// Calls of the short and of the long run.
    calls: [usize; 2],
}

/// Few calls where each is large, because the emulated processor is slow.
const CASES: [Case; 4] = [
    Case {
        host: Transport::Http,
        bytes: 100,
        calls: [100, 1100],
    },
    Case {
        host: Transport::Http,
        bytes: 10_240,
        calls: [50, 450],
    },
    Case {
        host: Transport::Http,
        bytes: 1_048_576,
        calls: [5, 25],
    },
    Case {
        host: Transport::Stdio,
        bytes: 100,
        calls: [100, 1100],
    },
];

/// From this size on, a run lasts long enough for the index to be filled.
const FILLS_INDEX: usize = 1 << 20;

/// What to do with the figures.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write the figures as the new baseline
    #[arg(long)]
    bless: bool,
    /// How often to count; the median is taken
    #[arg(long, default_value_t = 3)]
    times: usize,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    need_valgrind()?;
    place::callgate()?;
    let mut counted = Vec::new();
    for case in CASES {
        let mut times = Vec::new();
        for _ in 0..options.times.max(1) {
            times.push(runtime()?.block_on(case.count())?);
        }
        counted.push((case.name(), times));
    }
    if options.bless {
        let figures = counted.iter().map(|(name, times)| (name, middle(times)));
        Baseline::of(figures).write()?;
        println!("`{}` is written", baseline::FILE);
    }
    let baseline = Baseline::read()?;
    let judged = judge(&baseline, &counted);
    print!("{}", table(&judged));
    conclude(&judged)
}

fn need_valgrind() -> anyhow::Result<()> {
    let mut valgrind = Command::new("valgrind");
    let found = valgrind.arg("--version").stdout(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => Ok(()),
        Ok(_) | Err(_) => {
            bail!("`valgrind` cannot be run; install it: the package is called `valgrind`")
        }
    }
}

impl Case {
    /// What is guarded. A run of large calls takes valgrind so long that the index is filled meanwhile, which hashes every
    /// entry again; the entries themselves are as long as those of smaller calls.
    fn parts(self) -> impl Iterator<Item = Part> {
        let hashes_twice = self.bytes >= FILLS_INDEX;
        let parts = baseline::PARTS.into_iter();
        parts.filter(move |part| !(hashes_twice && part.name == baseline::HASHING))
    }

    fn name(self) -> String {
        let host = match self.host {
            Transport::Http => "HTTP to HTTP",
            Transport::Stdio => "stdio to HTTP",
        };
        format!("{host}, {}", size(self.bytes))
    }

    /// Instructions per call.
    async fn count(self) -> anyhow::Result<Counts> {
        let [short, long] = self.calls;
        eprintln!("{}: {short} and {long} calls", self.name());
        let few = self.count_run(short).await?;
        let many = self.count_run(long).await?;
        Ok(many.per_call(&few, long - short))
    }

    /// Instructions of a whole run of the gateway.
    async fn count_run(self, calls: usize) -> anyhow::Result<Counts> {
        let folder = tempfile::tempdir()?;
        let out = folder.path().join("callgrind.out");
        let wrapper = Wrapper(vec![
            "valgrind".to_owned(),
            "--quiet".to_owned(),
            "--tool=callgrind".to_owned(),
            format!("--callgrind-out-file={}", out.display()),
        ]);
        let way = Way::callgate(self.host, Transport::Http, &wrapper).await?;
        let mut clients = way.clients(1).await?;
        let script = Script {
            tool: way.tool,
            texts: vec![text(self.bytes)],
            length: Length::Calls(calls),
        };
        let loaded = load(&mut clients, &script).await?;
        drop(clients);
        way.end().await?;
        loaded.errors.none_or_fail()?;
        let profile = std::fs::read_to_string(&out).context("callgrind wrote no profile")?;
        Counts::read(&profile)
    }
}

/// The median of each figure.
fn middle(times: &[Counts]) -> Counts {
    let figure = |part: fn(&Counts) -> f64| {
        let all: Vec<f64> = times.iter().map(part).collect();
        Figure::median_of(&all).value
    };
    Counts {
        path: figure(|counts| counts.path),
        hashing: figure(|counts| counts.hashing),
        index: figure(|counts| counts.index),
    }
}

/// One line of the table: a case, what of it, its figures and what they mean.
struct Judged {
    what: String,
    counted: Figure,
    baseline: Option<f64>,
    judgement: Judgement,
}

/// The index has no baseline: when it is filled depends on the clock.
fn judge(baseline: &Baseline, counted: &[(String, Vec<Counts>)]) -> Vec<Judged> {
    let mut judged = Vec::new();
    for (case, (name, times)) in CASES.iter().zip(counted) {
        for part in case.parts() {
            let all: Vec<f64> = times.iter().map(part.of).collect();
            let counted = Figure::median_of(&all);
            let baseline = baseline.figure(name, part);
            judged.push(Judged {
                what: format!("{name}: {}", part.name),
                counted,
                baseline,
                judgement: Judgement::of(counted.value, baseline),
            });
        }
    }
    judged
}

fn table(judged: &[Judged]) -> Table {
    let mut table = Table::new([
        "instructions per call",
        "baseline",
        "counted",
        "change",
        "verdict",
    ]);
    for line in judged {
        let baseline = line.baseline.unwrap_or(f64::NAN);
        let Figure { value, low, high } = line.counted;
        table.row([
            line.what.clone(),
            format!("{baseline:.0}"),
            format!("{value:.0} [{low:.0}, {high:.0}]"),
            format!("{:+.1} %", (value / baseline - 1.0) * 100.0),
            line.judgement.name().to_owned(),
        ]);
    }
    table
}

fn conclude(judged: &[Judged]) -> anyhow::Result<()> {
    let any = |judgement| judged.iter().any(|line| line.judgement == judgement);
    if any(Judgement::Unknown) {
        bail!("a case has no baseline; `--bless` writes one");
    }
    if any(Judgement::More) {
        bail!(
            "more than {:.0} % above the baseline; find out why, or accept it with `--bless`",
            baseline::TOLERANCE * 100.0
        );
    }
    if any(Judgement::Less) {
        println!(
            "\nbelow the baseline by more than {:.0} %: lower it with `--bless`, or it guards nothing",
            baseline::TOLERANCE * 100.0
        );
    }
    Ok(())
}
