//! `bench budgets`: all figures with a budget, in one table; fails if one exceeds its budget.

use std::time::Duration;

use anyhow::bail;
use clap::Args;

use super::{
    cell::{Cell, Comparison, Rounds, size},
    cold, lists,
    load::Errors,
    start::runtime,
    stats::Figure,
    table::Table,
    way::Pair,
};

/// Sizes, and what CPU per call may be at 16 calls at once as a multiple of raw's: of the call, and with what is done
/// behind it.
const CPU: [(usize, f64, Allowed); 3] = [
    (100, 3.0, Allowed::AtMost(3.6)),
    (10_240, 5.0, Allowed::AtMost(4.8)),
    (1_048_576, 4.0, Allowed::Anything),
];
const ADDED_LATENCY: f64 = 2.5;
/// From this size on the pass-through sends the first bytes while the last are still coming. A gate reads a message
/// to its end before any of it goes on, so added latency is printed and not bounded.
const STREAMED: usize = 1 << 20;
const THROUGHPUT: f64 = 0.4;
const TAIL: f64 = 10.0;
const IDLE_MB: f64 = 12.0;
const BUSY_MB: f64 = 64.0;
const LIST: f64 = 3.0;
const COLD_MS: f64 = 50.0;

/// How many times as many rounds a call alone has, each as much shorter. How long such a call takes hangs on
/// where the system puts the programs, and that changes with each round.
const ALONE: u32 = 3;

/// Upstreams of the gateway that is started and of the one that idles.
const UPSTREAMS: usize = 10;
const TOOLS: usize = 5000;

/// How long it takes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Interleaved rounds; three times as many, each a third as long, for a call alone
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Milliseconds per round and way
    #[arg(long, default_value_t = 1500)]
    measure_ms: u64,
}

/// What a figure may be.
#[derive(Debug, Clone, Copy)]
enum Allowed {
    AtMost(f64),
    AtLeast(f64),
    /// Without a budget: shown for comparison.
    Anything,
}

/// A budget and what was measured.
#[derive(Debug)]
struct Row {
    what: String,
    unit: &'static str,
    allowed: Allowed,
    measured: Figure,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let rounds = Rounds {
        count: options.rounds,
        time: Duration::from_millis(options.measure_ms),
    };
    let mut errors = Errors::default();
    let load_before = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut rows = runtime()?.block_on(idle_and_start(options.rounds))?;
    for (bytes, cpu, behind) in CPU {
        for concurrency in [1, 16, 128] {
            let cell = Cell {
                pair: Pair::HttpToHttp,
                bytes,
                concurrency,
            };
            let rounds = match concurrency {
                1 => rounds.shorter(ALONE),
                _ => rounds,
            };
            let compared = runtime()?.block_on(cell.compare(rounds))?;
            errors.add(compared.errors());
            rows.extend(rows_of(&compared, cpu, behind));
        }
    }
    println!(
        "HTTP to HTTP against raw, {} rounds of {} ms, {ALONE} times as many and as short at concurrency 1; ratios of medians [least, most of a round]; load average before: {}\n",
        rounds.count,
        options.measure_ms,
        load_before.split(' ').next().unwrap_or_default()
    );
    print!("{}", table(&rows, &errors));
    let broken = rows.iter().filter(|row| !row.holds()).count();
    errors.none_or_fail()?;
    if broken > 0 {
        bail!("{broken} budgets are broken");
    }
    Ok(())
}

async fn idle_and_start(rounds: usize) -> anyhow::Result<Vec<Row>> {
    let starts = cold::measure(rounds, UPSTREAMS).await?;
    let lists = lists::compare(rounds, TOOLS).await?;
    let with = format!("with {UPSTREAMS} upstreams");
    let row = |what: &str, unit, allowed, measured| Row {
        what: what.to_owned(),
        unit,
        allowed,
        measured,
    };
    Ok(vec![
        row(
            &format!("cold start to `initialize` answered, {with}"),
            " ms",
            Allowed::AtMost(COLD_MS),
            Figure::median_of(&starts.initialized_ms),
        ),
        row(
            &format!("cold start to the first complete list, {with}"),
            " ms",
            Allowed::Anything,
            Figure::median_of(&starts.listed_ms),
        ),
        row(
            &format!("RssAnon idle {with}, wardens included"),
            " MB",
            Allowed::AtMost(IDLE_MB),
            Figure::median_of(&starts.idle_mb),
        ),
        row(
            &format!("{TOOLS} tools listed, against a direct list"),
            "x",
            Allowed::AtMost(LIST),
            lists.ratio(),
        ),
    ])
}

/// The budgets of one cell: latency at 1, CPU at 16, throughput, tail and memory at 128.
fn rows_of(compared: &Comparison, cpu: f64, behind: Allowed) -> Vec<Row> {
    let Cell {
        bytes, concurrency, ..
    } = compared.cell;
    let row = |what: &str, unit, allowed, measured| Row {
        what: format!("{what}, {}, concurrency {concurrency}", size(bytes)),
        unit,
        allowed,
        measured,
    };
    let added = compared.added_latency();
    let mut rows = Vec::new();
    match concurrency {
        1 => {
            let allowed = if bytes < STREAMED {
                Allowed::AtMost(ADDED_LATENCY)
            } else {
                Allowed::Anything
            };
            rows.push(row("added median latency", "x", allowed, added));
        }
        16 => {
            let allowed = Allowed::AtMost(cpu);
            rows.push(row("CPU per call", "x", allowed, compared.cpu()));
            let whole = compared.cpu_with_behind();
            let what = "CPU per call with the index filled behind";
            rows.push(row(what, "x", behind, whole));
        }
        _ => {
            let throughput = compared.throughput();
            let allowed = Allowed::AtLeast(THROUGHPUT);
            rows.push(row("throughput", "x", allowed, throughput));
            rows.push(row("p99/p50", "x", Allowed::AtMost(TAIL), compared.tail()));
            let memory = Figure::median_of(&compared.callgate.anonymous_mb);
            let allowed = if bytes == CPU[0].0 {
                Allowed::AtMost(BUSY_MB)
            } else {
                Allowed::Anything
            };
            rows.push(row("RssAnon", " MB", allowed, memory));
        }
    }
    rows
}

fn table(rows: &[Row], errors: &Errors) -> Table {
    let mut table = Table::new(["budget", "allowed", "measured", "ok"]);
    for row in rows {
        table.row([
            row.what.clone(),
            row.shown_allowed(),
            row.shown_measured(),
            row.verdict().to_owned(),
        ]);
    }
    table.row([
        "errors in all of these".to_owned(),
        "0".to_owned(),
        errors.count.to_string(),
        if errors.count == 0 { "yes" } else { "**no**" }.to_owned(),
    ]);
    table
}

impl Row {
    /// A budget without a measurement is not met.
    fn holds(&self) -> bool {
        match self.allowed {
            Allowed::AtMost(most) => self.measured.value <= most,
            Allowed::AtLeast(least) => self.measured.value >= least,
            Allowed::Anything => true,
        }
    }

    fn verdict(&self) -> &'static str {
        match (self.allowed, self.holds()) {
            (Allowed::Anything, _) => "",
            (Allowed::AtMost(_) | Allowed::AtLeast(_), true) => "yes",
            (Allowed::AtMost(_) | Allowed::AtLeast(_), false) => "**no**",
        }
    }

    fn shown_allowed(&self) -> String {
        match self.allowed {
            Allowed::AtMost(most) => format!("≤ {most}{}", self.unit),
            Allowed::AtLeast(least) => format!("≥ {least}{}", self.unit),
            Allowed::Anything => "-".to_owned(),
        }
    }

    fn shown_measured(&self) -> String {
        let figure = self.measured.to_string();
        match figure.split_once(' ') {
            Some((value, spread)) => format!("{value}{} {spread}", self.unit),
            None => figure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(allowed: Allowed, value: f64) -> Row {
        Row {
            what: "figure".to_owned(),
            unit: "x",
            allowed,
            measured: Figure {
                value,
                low: value,
                high: value,
            },
        }
    }

    #[test]
    fn a_budget_allows_its_limit_and_fails_without_a_figure() {
        for (allowed, value, holds) in [
            (Allowed::AtMost(3.0), 3.0, true),
            (Allowed::AtMost(3.0), 3.01, false),
            (Allowed::AtLeast(0.4), 0.4, true),
            (Allowed::AtLeast(0.4), 0.39, false),
            (Allowed::AtMost(3.0), f64::NAN, false),
            (Allowed::AtLeast(0.4), f64::NAN, false),
            (Allowed::Anything, f64::NAN, true),
        ] {
            let row = row(allowed, value);
            assert_eq!(row.holds(), holds, "{allowed:?} {value}");
        }
    }

    #[test]
    fn the_table_marks_broken_budgets() {
        let rows = [row(Allowed::AtMost(3.0), 4.0)];
        let table = table(&rows, &Errors::default()).to_string();
        assert!(table.contains("≤ 3x"), "{table}");
        assert!(table.contains("4.00x [4.00, 4.00]"), "{table}");
        assert!(table.contains("**no**"), "{table}");
    }
}
