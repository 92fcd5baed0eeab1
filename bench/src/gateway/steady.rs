//! `bench steady`: whether memory stays flat while calls go on.

use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;

use super::{
    cell::{Cell, Measured},
    load::{Length, Script, text},
    start::runtime,
    stats::median,
    table::Table,
    way::{Between, Pair},
};

const CONCURRENCY: usize = 16;
const SIZES: [usize; 2] = [100, 10_240];
/// Memory may grow by this share and this many megabytes between the second and the last third:
/// an allocator is never quite still.
const SHARE: f64 = 1.05;
const MARGIN_MB: f64 = 1.0;
/// How many figures of a series are shown.
const SHOWN: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Minutes of load for each pair
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Seconds from sample to sample
    #[arg(long, default_value_t = 3.0)]
    every: f64,
    /// Which pairs
    #[arg(long, default_values = ["http-to-http", "stdio-to-stdio"])]
    pair: Vec<Pair>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut table = Table::new([
        "pair",
        "calls",
        "samples",
        "second third MB",
        "last third MB",
        "allowed MB",
        "flat",
    ]);
    let mut flat = true;
    for &pair in &options.pair {
        let (calls, series) = runtime()?.block_on(watch(options, pair))?;
        println!("{}, RssAnon MB: {}\n", pair.name(), shown(&series));
        let thirds = Thirds::of(&series);
        flat &= thirds.flat();
        table.row([
            pair.name().to_owned(),
            calls.to_string(),
            series.len().to_string(),
            format!("{:.2}", thirds.second_mb),
            format!("{:.2}", thirds.last_mb),
            format!("{:.2}", thirds.allowed_mb()),
            if thirds.flat() { "yes" } else { "no" }.to_owned(),
        ]);
    }
    print!("{table}");
    if !flat {
        bail!("memory grows under load");
    }
    Ok(())
}

/// Loads for as long as asked; the series is the most memory that was seen in each sample.
async fn watch(options: &Options, pair: Pair) -> anyhow::Result<(usize, Vec<f64>)> {
    let cell = Cell {
        pair,
        bytes: SIZES[0],
        concurrency: CONCURRENCY,
    };
    let mut measured = Measured::open(Between::Callgate, cell).await?;
    measured.resume()?;
    let script = Script {
        tool: measured.tool(),
        texts: SIZES.map(text).to_vec(),
        length: Length::Time(Duration::from_secs_f64(options.every)),
    };
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    while Instant::now() < end {
        measured.load(&script, true).await?;
        measured.sample.errors.none_or_fail()?;
        let latest = measured.sample.anonymous_mb.last().copied();
        eprintln!("{}: {:.1} MB", pair.name(), latest.unwrap_or(f64::NAN));
    }
    Ok((measured.calls(), measured.sample.anonymous_mb))
}

/// Medians of the last two thirds of a series; the first is for warming up.
#[derive(Debug)]
struct Thirds {
    second_mb: f64,
    last_mb: f64,
}

impl Thirds {
    fn of(series: &[f64]) -> Self {
        let third = series.len() / 3;
        let (rest, last) = series.split_at(series.len() - third);
        Self {
            second_mb: median(&rest[rest.len() - third..]),
            last_mb: median(last),
        }
    }

    fn allowed_mb(&self) -> f64 {
        self.second_mb * SHARE + MARGIN_MB
    }

    /// False as well when there was too little to tell.
    fn flat(&self) -> bool {
        self.last_mb <= self.allowed_mb()
    }
}

fn shown(series: &[f64]) -> String {
    let step = series.len().div_ceil(SHOWN).max(1);
    let some = series.iter().step_by(step);
    let some: Vec<String> = some.map(|mb| format!("{mb:.1}")).collect();
    some.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_levelling_series_is_flat_and_a_creeping_one_is_not() {
        let level = [10.0, 30.0, 50.0, 60.0, 60.0, 60.0, 61.0, 62.0, 63.0];
        assert!(Thirds::of(&level).flat());
        let creeping: Vec<f64> = (0..90).map(|at| 60.0 + f64::from(at) * 0.2).collect();
        assert!(!Thirds::of(&creeping).flat());
        assert!(!Thirds::of(&[60.0]).flat(), "one sample says nothing");
    }

    #[test]
    fn a_long_series_is_abridged() {
        let long: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(shown(&long).split(' ').count(), SHOWN);
        assert_eq!(shown(&[1.0, 2.0]), "1.0 2.0");
    }
}
