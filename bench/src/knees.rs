//! Things that grow over years: rules, servers, pending approvals, tokens, listeners, sessions. Each is measured at sizes
//! of a geometric series; the slope of log(time) over log(size) must stay below a bound. CPU time is measured, which
//! other programs on the machine disturb less than the clock on the wall.

mod gateway_rows;
mod rows;

use anyhow::{Result, bail};
use clap::Args;

use crate::gateway::stats::median;

/// The exponent of what may grow with its size, and of what must not grow.
const LINEAR: f64 = 1.15;
const FLAT: f64 = 0.2;
/// Each size is this many times the one before.
const FACTOR: usize = 2;
const SIZES: usize = 5;

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds of each row; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

/// One thing that is measured at several sizes.
struct Row {
    what: &'static str,
    largest: usize,
    bound: f64,
    /// Microseconds of CPU at a size.
    measure: fn(usize) -> Result<f64>,
}

const ROWS: [Row; 9] = [
    Row {
        what: "reading a policy of n rules",
        largest: 16_000,
        bound: LINEAR,
        measure: rows::reading_rules,
    },
    Row {
        what: "deciding a call under n rules",
        largest: 16_000,
        bound: FLAT,
        measure: rows::deciding,
    },
    Row {
        what: "comparing the tools of n servers with the lock",
        largest: 800,
        bound: LINEAR,
        measure: rows::sorting_tools,
    },
    Row {
        what: "asking beside n pending approvals",
        largest: 10_000,
        bound: FLAT,
        measure: rows::asking,
    },
    Row {
        what: "finding one of n tokens",
        largest: 10_000,
        bound: FLAT,
        measure: rows::finding_a_token,
    },
    Row {
        what: "an event for n listeners",
        largest: 2_000,
        bound: LINEAR,
        measure: rows::telling_listeners,
    },
    Row {
        what: "a gateway starts with n new servers",
        largest: 400,
        bound: LINEAR,
        measure: gateway_rows::starting,
    },
    Row {
        what: "a request beside n open sessions",
        largest: 8_000,
        bound: FLAT,
        measure: gateway_rows::beside_sessions,
    },
    Row {
        what: "opening one of n sessions",
        largest: 8_000,
        bound: FLAT,
        measure: gateway_rows::opening_sessions,
    },
];

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut broken = Vec::new();
    println!(
        "| what | us of CPU, from the smallest n to the largest | largest n | exponent | at most |"
    );
    println!("|---|---|---:|---:|---:|");
    for row in ROWS.iter().filter(|row| row.what.contains(&options.only)) {
        let points = measured(row, options.rounds)?;
        let exponent = slope(&points);
        let figures: Vec<String> = points.iter().map(|(_, us)| format!("{us:.1}")).collect();
        let Row {
            what,
            largest,
            bound,
            ..
        } = row;
        let figures = figures.join(", ");
        println!("| {what} | {figures} | {largest} | {exponent:.2} | {bound} |");
        if exponent > *bound {
            broken.push(*what);
        }
    }
    if !broken.is_empty() {
        bail!("these grow faster than they may: {}", broken.join("; "));
    }
    Ok(())
}

/// The median figure of each size.
fn measured(row: &Row, rounds: usize) -> Result<Vec<(f64, f64)>> {
    let sizes = (0..SIZES)
        .rev()
        .map(|at| row.largest / FACTOR.pow(at as u32));
    let mut points = Vec::new();
    for size in sizes {
        eprintln!("{}: n = {size}", row.what);
        let figures = (0..rounds).map(|_| (row.measure)(size));
        let figures: Vec<f64> = figures.collect::<Result<_>>()?;
        points.push((size as f64, median(&figures)));
    }
    Ok(points)
}

/// The slope of the line through the logarithms of the points, by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(n, us)| (n.ln(), us.ln())).collect();
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let together: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let alone: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    together / alone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_the_exponent() {
        for exponent in [0.0, 1.0, 2.0] {
            let points = [1.0f64, 2.0, 4.0, 8.0].map(|n| (n, 3.0 * n.powf(exponent)));
            assert!((slope(&points) - exponent).abs() < 1e-9);
        }
    }
}
