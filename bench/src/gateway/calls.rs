//! `bench calls`: latency, throughput, CPU and memory of calls.

use std::time::Duration;

use anyhow::bail;
use clap::Args;

use super::{
    cell::{Cell, Comparison, Rounds},
    load::Errors,
    start::runtime,
    stats::Figure,
    table::Table,
    way::Pair,
};

/// With fewer rounds a median means little.
const FEWEST_ROUNDS: usize = 5;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Interleaved rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Milliseconds per round and way
    #[arg(long, default_value_t = 800)]
    measure_ms: u64,
    /// Which pairs; default: all
    #[arg(long)]
    pair: Vec<Pair>,
    /// Bytes of text echoed both ways
    #[arg(long, default_values_t = [100, 10_240, 1_048_576])]
    size: Vec<usize>,
    /// Calls in flight at once
    #[arg(long, default_values_t = [1, 16, 128])]
    concurrency: Vec<usize>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    if options.rounds < FEWEST_ROUNDS {
        bail!("at least {FEWEST_ROUNDS} rounds are needed");
    }
    let rounds = Rounds {
        count: options.rounds,
        time: Duration::from_millis(options.measure_ms),
    };
    println!(
        "{} rounds of {} ms each; medians over rounds [least, most]",
        rounds.count, options.measure_ms
    );
    let mut errors = Errors::default();
    for cell in cells(options) {
        let comparison = runtime()?.block_on(cell.compare(rounds))?;
        print(&comparison);
        errors.add(comparison.errors());
    }
    errors.none_or_fail()
}

fn cells(options: &Options) -> Vec<Cell> {
    let pairs = match options.pair.as_slice() {
        [] => Pair::ALL.to_vec(),
        some => some.to_vec(),
    };
    let mut cells = Vec::new();
    for &pair in &pairs {
        for &bytes in &options.size {
            for &concurrency in &options.concurrency {
                cells.push(Cell {
                    pair,
                    bytes,
                    concurrency,
                });
            }
        }
    }
    cells
}

fn print(comparison: &Comparison) {
    println!("\n{}:\n", comparison.cell.name());
    let mut table = Table::new([
        "way",
        "p50 us",
        "p99 us",
        "calls/s",
        "CPU us/call",
        "RssAnon MB",
        "errors",
    ]);
    for (between, sample) in comparison.ways() {
        let shown = |rounds: &[f64]| Figure::median_of(rounds).to_string();
        table.row([
            between.name().to_owned(),
            shown(&sample.p50_us),
            shown(&sample.p99_us),
            shown(&sample.calls_per_second),
            shown(&sample.cpu_us_per_call),
            shown(&sample.anonymous_mb),
            sample.errors.count.to_string(),
        ]);
    }
    print!("{table}");
    println!(
        "\nCallgate against raw: CPU {}x ({:.2}x with {:.1} us per call behind), added p50 {}x, throughput {}, p99/p50 {}",
        comparison.cpu(),
        comparison.cpu_with_behind().value,
        comparison.behind_us_per_call,
        comparison.added_latency(),
        comparison.throughput(),
        comparison.tail(),
    );
    if let Some(first) = comparison.errors().first {
        println!("the first error: {first}");
    }
}
