//! Figures of all rounds as Markdown tables.
//!
//! Ratios are taken inside a round, where both sides saw the same weather, and only then is their median taken.

use std::fmt::Write as _;

use super::load::Latencies;
use super::{Cell, Way, cells};

/// The figures of one way under one load in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    way: Way,
    cell: Cell,
    round: u32,
    p50_us: f64,
    p99_us: f64,
    calls_per_s: f64,
}

impl Measured {
    /// Reduces the latencies of one run to its figures.
    pub(super) fn new(way: Way, cell: Cell, round: u32, latencies: Latencies) -> Self {
        Measured {
            way,
            cell,
            round,
            p50_us: latencies.quantile(0.5).as_secs_f64() * 1e6,
            p99_us: latencies.quantile(0.99).as_secs_f64() * 1e6,
            calls_per_s: latencies.calls_per_s(),
        }
    }
}

/// One table per load, one row per way; `low..high` are the extremes of the rounds.
pub(super) fn table(measured: &[Measured]) -> String {
    let mut out = String::new();
    for cell in cells() {
        let Cell {
            frame_bytes,
            concurrency,
        } = cell;
        let _ = writeln!(out, "\n{frame_bytes} B frames, concurrency {concurrency}\n");
        out.push_str(
            "| way | median us | p99 us | calls/s | latency / raw | added / raw's added |\n",
        );
        out.push_str("|---|---|---|---|---|---|\n");
        for way in Way::ALL {
            let rows = rounds(measured, way, cell);
            let raw = rounds(measured, Way::Raw, cell);
            let direct = rounds(measured, Way::Direct, cell);
            let over_raw = Spread::of(
                rows.iter()
                    .zip(&raw)
                    .map(|(row, raw)| row.p50_us / raw.p50_us),
            );
            let added = Spread::of(rows.iter().zip(&raw).zip(&direct).map(
                |((row, raw), direct)| (row.p50_us - direct.p50_us) / (raw.p50_us - direct.p50_us),
            ));
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} |",
                way.name(),
                Spread::of(rows.iter().map(|row| row.p50_us)).show(0),
                Spread::of(rows.iter().map(|row| row.p99_us)).show(0),
                Spread::of(rows.iter().map(|row| row.calls_per_s)).show(0),
                over_raw.show(2),
                added.show(2),
            );
        }
    }
    out
}

/// The runs of one way under one load, by round.
fn rounds(measured: &[Measured], way: Way, cell: Cell) -> Vec<Measured> {
    let mut rows: Vec<_> = measured
        .iter()
        .filter(|row| row.way == way && row.cell == cell)
        .copied()
        .collect();
    rows.sort_unstable_by_key(|row| row.round);
    rows
}

/// A median over rounds, and the extremes around it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    /// The upper median when the number of rounds is even. There is always a round.
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Spread {
            low: sorted[0],
            median: sorted[sorted.len() / 2],
            high: sorted[sorted.len() - 1],
        }
    }

    fn show(self, decimals: usize) -> String {
        let Spread { low, median, high } = self;
        format!("{median:.decimals$} ({low:.decimals$}..{high:.decimals$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_paired_by_round() {
        let cell = cells().next().unwrap();
        let mut measured = Vec::new();
        for cell in cells() {
            for way in Way::ALL {
                for round in [2, 0, 1] {
                    // The second round is ten times slower for everybody, which no ratio may show.
                    let weather = if round == 1 { 10.0 } else { 1.0 };
                    let us = match way {
                        Way::Direct => 10.0,
                        Way::Raw => 20.0,
                        Way::FileInline => 40.0,
                        Way::FileGroup
                        | Way::FileGroupFsync
                        | Way::SqliteTwoCommits
                        | Way::SqliteBatched
                        | Way::SqliteBatchedFull => 80.0,
                    };
                    let us = us * weather;
                    let calls_per_s = 1e6 / us;
                    measured.push(Measured {
                        way,
                        cell,
                        round,
                        p50_us: us,
                        p99_us: us,
                        calls_per_s,
                    });
                }
            }
        }
        let table = table(&measured);
        assert!(table.contains("| file-inline | 40 (40..400) | 40 (40..400) | 25000 (2500..25000) | 2.00 (2.00..2.00) | 3.00 (3.00..3.00) |"), "{table}");
        let in_order: Vec<_> = rounds(&measured, Way::Raw, cell)
            .iter()
            .map(|row| row.round)
            .collect();
        assert_eq!(in_order, [0, 1, 2]);
    }
}
