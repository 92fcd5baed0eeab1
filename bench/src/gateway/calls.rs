//! `bench calls`: latency, throughput, CPU and memory of calls.

use std::{sync::Arc, time::Duration};

use clap::Args;

use super::{
    host::{Client, Script, load, text},
    stats::{Latencies, median, spread},
    way::{Between, Pair, Way, runtime},
};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Interleaved rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Milliseconds per round and way
    #[arg(long, default_value_t = 800)]
    measure_ms: u64,
    /// Which pairs; all when left out
    #[arg(long)]
    pair: Vec<Pair>,
    /// Bytes of text echoed both ways
    #[arg(long, default_values_t = [100, 10_240, 1_048_576])]
    size: Vec<usize>,
    /// Calls under way at once
    #[arg(long, default_values_t = [1, 16, 128])]
    concurrency: Vec<usize>,
}

/// What one way showed in one round.
#[derive(Debug, Default)]
struct Sample {
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    calls_per_second: Vec<f64>,
    cpu_us_per_call: Vec<f64>,
    anonymous_mb: Vec<f64>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let all = [Pair::HttpToHttp, Pair::HttpToStdio, Pair::StdioToStdio];
    let pairs = if options.pair.is_empty() {
        all.to_vec()
    } else {
        options.pair.clone()
    };
    println!(
        "rounds {}, {} ms each, medians over rounds [smallest, largest]",
        options.rounds, options.measure_ms
    );
    for pair in pairs {
        for &size in &options.size {
            for &concurrency in &options.concurrency {
                runtime()?.block_on(cell(options, pair, size, concurrency))?;
            }
        }
    }
    Ok(())
}

async fn cell(
    options: &Options,
    pair: Pair,
    size: usize,
    concurrency: usize,
) -> anyhow::Result<()> {
    eprintln!("{}, {size} B, concurrency {concurrency}", pair.name());
    let text: Arc<str> = text(size).into();
    let mut ways = Vec::new();
    for between in Between::ALL {
        ways.push((
            between,
            Way::open(between, pair, 1).await?,
            Sample::default(),
        ));
    }
    for round in 0..=options.rounds {
        for at in 0..ways.len() {
            // Each round begins with another way, so that none always follows the same.
            let at = (at + round) % ways.len();
            let (_, way, sample) = &mut ways[at];
            let script = Script {
                tool: way.tool.to_owned(),
                text: text.clone(),
                time: Duration::from_millis(options.measure_ms),
            };
            // The first round warms up and does not count.
            let mut warm_up = Sample::default();
            let sample = if round == 0 { &mut warm_up } else { sample };
            measure(way, concurrency, &script, sample).await?;
        }
    }
    print(pair, size, concurrency, &ways);
    Ok(())
}

async fn measure(
    way: &Way,
    concurrency: usize,
    script: &Script,
    sample: &mut Sample,
) -> anyhow::Result<()> {
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..concurrency {
        clients.push(way.client().await?);
    }
    let cpu = |way: &Way| {
        way.family
            .as_ref()
            .map_or(f64::NAN, |family| family.cpu_seconds())
    };
    let before = cpu(way);
    let latencies = load(clients, script).await?;
    let calls = latencies.len() as f64;
    sample
        .cpu_us_per_call
        .push((cpu(way) - before) * 1e6 / calls);
    sample
        .calls_per_second
        .push(calls / script.time.as_secs_f64());
    let memory = way
        .family
        .as_ref()
        .map_or(f64::NAN, |family| family.anonymous_bytes() as f64);
    sample.anonymous_mb.push(memory / 1e6);
    let latencies = Latencies::new(latencies);
    sample.p50_us.push(latencies.percentile_us(0.5));
    sample.p99_us.push(latencies.percentile_us(0.99));
    Ok(())
}

fn print(pair: Pair, size: usize, concurrency: usize, ways: &[(Between, Way, Sample)]) {
    println!("\n{}, {size} B, concurrency {concurrency}", pair.name());
    println!(
        "{:<9} {:>26} {:>12} {:>12} {:>22} {:>10}",
        "way", "p50 us", "p99 us", "calls/s", "CPU us/call", "RssAnon MB"
    );
    for (between, _, sample) in ways {
        println!(
            "{:<9} {:>26} {:>12.0} {:>12.0} {:>22} {:>10.1}",
            between.name(),
            with_spread(&sample.p50_us),
            median(&sample.p99_us),
            median(&sample.calls_per_second),
            with_spread(&sample.cpu_us_per_call),
            median(&sample.anonymous_mb),
        );
    }
    let of = |between: Between| {
        ways.iter()
            .find(|(way, ..)| *way == between)
            .map(|(.., sample)| sample)
    };
    if let (Some(direct), Some(raw), Some(gate)) = (
        of(Between::Nothing),
        of(Between::Raw),
        of(Between::Callgate),
    ) {
        let added = |sample: &Sample| median(&sample.p50_us) - median(&direct.p50_us);
        println!(
            "callgate against raw: CPU {:.2}x, added p50 {:.2}x, throughput {:.2}, p99/p50 {:.1}",
            median(&gate.cpu_us_per_call) / median(&raw.cpu_us_per_call),
            added(gate) / added(raw),
            median(&gate.calls_per_second) / median(&raw.calls_per_second),
            median(&gate.p99_us) / median(&gate.p50_us),
        );
    }
}

fn with_spread(figures: &[f64]) -> String {
    let (low, high) = spread(figures);
    format!("{:.0} [{low:.0}, {high:.0}]", median(figures))
}
