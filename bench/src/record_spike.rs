//! What it costs to record every proxied call, by way of recording.
//!
//! A client calls an echo server through a skeleton proxy over loopback TCP. The three run on threads and runtimes of
//! their own. The proxy writes one entry before it forwards and one before it replies, and waits for each. All ways
//! of recording store the same hash-chained lines, so that only the way they are stored differs. The proxy knows
//! nothing of MCP or policy: figures from here compare ways of recording and say nothing about the gateway's speed.

mod entry;
mod load;
mod proxy;
mod recorder;
mod report;
mod sink;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;

use load::{Latencies, Load};
use proxy::{Echo, Proxy};
use recorder::Recorder;
use report::Measured;

/// How long and where to measure.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Interleaved rounds; every figure is a median over them
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measured time of one way at one load, in milliseconds
    #[arg(long, default_value_t = 350, value_parser = clap::value_parser!(u64).range(1..))]
    measure_ms: u64,
    /// Unmeasured time before it, in milliseconds
    #[arg(long, default_value_t = 80)]
    warm_up_ms: u64,
    /// Folder whose file system holds the records; the system's temporary folder when left out
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// What stands between the client and the echo server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// No proxy at all: what the added latency is counted from.
    Direct,
    /// The proxy without a record.
    Raw,
    /// A mutex, and one `write` per entry in the calling task.
    FileInline,
    /// A writer thread, one `write` per group of waiting entries.
    FileGroup,
    /// The same, and one `fdatasync` per group.
    FileGroupFsync,
    /// A writer thread, one transaction per entry, WAL with `synchronous=OFF`.
    SqliteTwoCommits,
    /// A writer thread, one transaction per group, WAL with `synchronous=NORMAL`.
    SqliteBatched,
    /// The same with `synchronous=FULL`.
    SqliteBatchedFull,
}

impl Way {
    const ALL: [Way; 8] = [
        Way::Direct,
        Way::Raw,
        Way::FileInline,
        Way::FileGroup,
        Way::FileGroupFsync,
        Way::SqliteTwoCommits,
        Way::SqliteBatched,
        Way::SqliteBatchedFull,
    ];

    fn name(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Raw => "raw",
            Way::FileInline => "file-inline",
            Way::FileGroup => "file-group",
            Way::FileGroupFsync => "file-group-fsync",
            Way::SqliteTwoCommits => "sqlite-2commits",
            Way::SqliteBatched => "sqlite-batched",
            Way::SqliteBatchedFull => "sqlite-batched-full",
        }
    }
}

/// One load under which all ways are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    frame_bytes: usize,
    concurrency: usize,
}

const FRAME_BYTES: [usize; 2] = [300, 10 * 1024];
const CONCURRENCY: [usize; 3] = [1, 16, 128];

/// Measures every way under every load and prints the table.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let echo = Echo::start()?;
    let mut measured = Vec::new();
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        for cell in cells() {
            for way in order(round) {
                let latencies = measure(way, cell, &echo, options)
                    .with_context(|| format!("`{}` under {cell:?}", way.name()))?;
                measured.push(Measured::new(way, cell, round, latencies));
            }
        }
    }
    print!("{}", report::table(&measured));
    Ok(())
}

/// All ways, in an order that gives each another predecessor from round to round: one that leaves the disk or the
/// page cache busy then slows no other way in particular.
fn order(round: u32) -> impl Iterator<Item = Way> {
    const COUNT: usize = Way::ALL.len();
    let round = round as usize;
    // An odd stride visits every way once because their number is a power of two.
    const { assert!(COUNT.is_power_of_two()) };
    let stride = (2 * round + 1) % COUNT;
    (0..COUNT).map(move |step| Way::ALL[(round + step * stride) % COUNT])
}

fn cells() -> impl Iterator<Item = Cell> {
    FRAME_BYTES.into_iter().flat_map(|frame_bytes| {
        CONCURRENCY.into_iter().map(move |concurrency| Cell {
            frame_bytes,
            concurrency,
        })
    })
}

fn measure(way: Way, cell: Cell, echo: &Echo, options: &Options) -> anyhow::Result<Latencies> {
    let load = Load {
        cell,
        warm_up: Duration::from_millis(options.warm_up_ms),
        measure: Duration::from_millis(options.measure_ms),
    };
    if way == Way::Direct {
        return Ok(load::drive(echo.addr(), load)?.latencies);
    }
    let folder = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let recorder = Arc::new(Recorder::open(way, folder.path())?);
    let proxy = Proxy::start(echo.addr(), Arc::clone(&recorder))?;
    let driven = load::drive(proxy.addr(), load);
    proxy.stop();
    let recorder = Arc::into_inner(recorder).context("a stopped proxy still holds the recorder")?;
    // The recorder's own failure comes first: to the client it is only a lost connection.
    let entries = recorder.close()?;
    let driven = driven?;
    if let Some(entries) = entries {
        // A way that skipped entries would look fast.
        ensure!(
            entries == 2 * driven.calls,
            "{entries} entries for {} calls",
            driven.calls
        );
    }
    Ok(driven.latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_runs_every_way_once_and_predecessors_change() {
        let mut before_raw = Vec::new();
        for round in 0..8 {
            let ways: Vec<_> = order(round).collect();
            for way in Way::ALL {
                assert_eq!(ways.iter().filter(|one| **one == way).count(), 1);
            }
            let raw = ways.iter().position(|way| *way == Way::Raw).unwrap();
            let predecessor = ways[(raw + ways.len() - 1) % ways.len()];
            if !before_raw.contains(&predecessor) {
                before_raw.push(predecessor);
            }
        }
        assert_eq!(before_raw.len(), 4);
    }
}
