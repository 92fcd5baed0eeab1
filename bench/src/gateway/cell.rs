//! One cell of the matrix: a pair, a size and a concurrency, measured over all three ways in
//! interleaved rounds.

use std::time::{Duration, Instant};

use super::{
    load::{Client, Errors, Length, Loaded, Script, load, text},
    processes::Family,
    stats::{Figure, Latencies},
    way::{Between, Pair, Way},
};

/// How often memory is looked at under load.
const LOOK: Duration = Duration::from_millis(250);
/// A gateway that has used less than this in `QUIET` has nothing left to do.
const NEXT_TO_NOTHING_S: f64 = 0.01;
const QUIET: Duration = Duration::from_secs(5);
/// What has not been done by then is not waited for.
const LONGEST_BEHIND: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) pair: Pair,
    pub(crate) bytes: usize,
    pub(crate) concurrency: usize,
}

/// How long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) count: usize,
    pub(crate) time: Duration,
}

impl Rounds {
    /// As long in all, in so many times as many rounds.
    pub(crate) fn shorter(self, times: u32) -> Self {
        Self {
            count: self.count * times as usize,
            time: self.time / times,
        }
    }
}

/// What one way showed, a figure per round.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) p50_us: Vec<f64>,
    pub(crate) p99_us: Vec<f64>,
    pub(crate) calls_per_second: Vec<f64>,
    pub(crate) cpu_us_per_call: Vec<f64>,
    /// The most that was seen in the round.
    pub(crate) anonymous_mb: Vec<f64>,
    pub(crate) errors: Errors,
}

/// What the three ways showed.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) cell: Cell,
    pub(crate) direct: Sample,
    pub(crate) raw: Sample,
    pub(crate) callgate: Sample,
    /// CPU microseconds per call that Callgate spends after the calls, on the index of its record.
    pub(crate) behind_us_per_call: f64,
}

impl Cell {
    pub(crate) fn name(self) -> String {
        let Self {
            pair,
            bytes,
            concurrency,
        } = self;
        format!(
            "{}, {}, concurrency {concurrency}",
            pair.name(),
            size(bytes)
        )
    }

    /// Measures all ways, a round of each in turn. While one is measured the gateways of the others
    /// are halted, so that none works on another's time.
    pub(crate) async fn compare(self, rounds: Rounds) -> anyhow::Result<Comparison> {
        eprintln!("{}", self.name());
        let mut ways = [
            Measured::open(Between::Nothing, self).await?,
            Measured::open(Between::Raw, self).await?,
            Measured::open(Between::Callgate, self).await?,
        ];
        for round in 0..=rounds.count {
            for at in 0..ways.len() {
                // Each round begins with another way, so that none always follows the same.
                let way = &mut ways[(at + round) % 3];
                way.round(self.bytes, rounds.time, round > 0).await?;
            }
        }
        let [direct, raw, callgate] = ways;
        let behind_us = callgate.work_behind().await? * 1e6;
        Ok(Comparison {
            cell: self,
            behind_us_per_call: behind_us / callgate.calls as f64,
            direct: direct.sample,
            raw: raw.sample,
            callgate: callgate.sample,
        })
    }
}

impl Comparison {
    /// Callgate's CPU per call as a multiple of raw's.
    pub(crate) fn cpu(&self) -> Figure {
        Figure::ratio(&self.callgate.cpu_us_per_call, &self.raw.cpu_us_per_call)
    }

    /// The same with what is done after the calls.
    pub(crate) fn cpu_with_behind(&self) -> Figure {
        let behind = self.behind_us_per_call;
        let whole: Vec<f64> = self
            .callgate
            .cpu_us_per_call
            .iter()
            .map(|cpu| cpu + behind)
            .collect();
        Figure::ratio(&whole, &self.raw.cpu_us_per_call)
    }

    /// What Callgate adds to the median latency, as a multiple of what raw adds.
    pub(crate) fn added_latency(&self) -> Figure {
        Figure::added_ratio(&self.callgate.p50_us, &self.raw.p50_us, &self.direct.p50_us)
    }

    /// Callgate's calls per second as a share of raw's.
    pub(crate) fn throughput(&self) -> Figure {
        Figure::ratio(&self.callgate.calls_per_second, &self.raw.calls_per_second)
    }

    /// Callgate's 99th percentile as a multiple of its median.
    pub(crate) fn tail(&self) -> Figure {
        Figure::ratio(&self.callgate.p99_us, &self.callgate.p50_us)
    }

    /// The ways with their names.
    pub(crate) fn ways(&self) -> [(Between, &Sample); 3] {
        [
            (Between::Nothing, &self.direct),
            (Between::Raw, &self.raw),
            (Between::Callgate, &self.callgate),
        ]
    }

    /// The errors of all ways.
    pub(crate) fn errors(&self) -> Errors {
        let mut all = Errors::default();
        for (_, sample) in self.ways() {
            all.add(sample.errors.clone());
        }
        all
    }
}

/// A way with its clients, and what it has shown so far.
pub(crate) struct Measured {
    way: Way,
    clients: Vec<Client>,
    calls: usize,
    pub(crate) sample: Sample,
}

impl Measured {
    /// Opens a way for a cell and halts it.
    pub(crate) async fn open(between: Between, cell: Cell) -> anyhow::Result<Self> {
        let way = Way::open(between, cell.pair).await?;
        let clients = way.clients(cell.concurrency).await?;
        way.pause()?;
        Ok(Self {
            way,
            clients,
            calls: 0,
            sample: Sample::default(),
        })
    }

    /// Lets the way go on.
    pub(crate) fn resume(&self) -> anyhow::Result<()> {
        self.way.resume()
    }

    /// The tool's name as it is shown here.
    pub(crate) fn tool(&self) -> &'static str {
        self.way.tool
    }

    /// Calls that were answered so far.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// One round. One that warms up does not count, but for its errors.
    async fn round(&mut self, bytes: usize, time: Duration, counts: bool) -> anyhow::Result<()> {
        self.way.resume()?;
        let script = Script {
            tool: self.way.tool,
            texts: vec![text(bytes)],
            length: Length::Time(time),
        };
        let taken = self.load(&script, counts).await;
        self.way.pause()?;
        taken
    }

    /// Runs a script and keeps what it showed if it counts.
    pub(crate) async fn load(&mut self, script: &Script, counts: bool) -> anyhow::Result<()> {
        let family = self.way.family;
        let before = family.map(Family::cpu_times);
        let (loaded, most_mb) = load_and_look(&mut self.clients, script, family).await?;
        let cpu_seconds = family.zip(before).map_or(f64::NAN, |(family, before)| {
            family.cpu_times().seconds_since(&before)
        });
        self.calls += loaded.latencies.len();
        self.sample.errors.add(loaded.errors);
        if counts {
            let calls = loaded.latencies.len() as f64;
            let sample = &mut self.sample;
            sample.cpu_us_per_call.push(cpu_seconds * 1e6 / calls);
            sample
                .calls_per_second
                .push(calls / loaded.elapsed.as_secs_f64());
            sample.anonymous_mb.push(most_mb);
            let latencies = Latencies::new(loaded.latencies);
            sample.p50_us.push(latencies.percentile_us(0.5));
            sample.p99_us.push(latencies.percentile_us(0.99));
        }
        Ok(())
    }

    /// CPU seconds that the gateway uses after the last call until it rests.
    async fn work_behind(&self) -> anyhow::Result<f64> {
        let Some(family) = self.way.family else {
            return Ok(0.0);
        };
        self.way.resume()?;
        let started = Instant::now();
        let mut used = 0.0;
        while started.elapsed() < LONGEST_BEHIND {
            let before = family.cpu_times();
            tokio::time::sleep(QUIET).await;
            let now = family.cpu_times().seconds_since(&before);
            used += now;
            if now < NEXT_TO_NOTHING_S {
                break;
            }
        }
        Ok(used)
    }
}

/// Loads, and looks at the memory meanwhile; the second figure is the most that was seen.
async fn load_and_look(
    clients: &mut Vec<Client>,
    script: &Script,
    family: Option<Family>,
) -> anyhow::Result<(Loaded, f64)> {
    let memory = || family.map_or(f64::NAN, |family| family.memory().total_mb());
    let mut most_mb = f64::NAN;
    let mut looks = tokio::time::interval(LOOK);
    let mut loading = std::pin::pin!(load(clients, script));
    loop {
        tokio::select! {
            loaded = &mut loading => return Ok((loaded?, most_mb.max(memory()))),
            _ = looks.tick() => most_mb = most_mb.max(memory()),
        }
    }
}

/// A size as people write it.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}
