//! `bench cold`: from starting the gateway to listening, and to the first complete list.

use std::time::{Duration, Instant};

use clap::Args;

use super::{
    host::{HttpHost, Target},
    place,
    processes::Family,
    stats::{Latencies, median},
    way::{runtime, serve_many, token},
};

/// Tools of each upstream.
const TOOLS_EACH: usize = 10;

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Starts
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Upstreams
    #[arg(long, default_value_t = 10)]
    upstreams: usize,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let (mut listening, mut listed, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let (up, first, memory) = runtime()?.block_on(start(options.upstreams))?;
        listening.push(up);
        listed.push(first);
        idle.push(memory);
    }
    let ms = |all: Vec<Duration>| Latencies::new(all).percentile_us(0.5) / 1000.0;
    println!(
        "{} upstreams, {} starts, medians",
        options.upstreams, options.rounds
    );
    println!("to listening            {:>8.1} ms", ms(listening));
    println!("to the first whole list {:>8.1} ms", ms(listed));
    println!(
        "idle RssAnon            {:>8.1} MB (gateway and wardens)",
        median(&idle)
    );
    Ok(())
}

async fn start(upstreams: usize) -> anyhow::Result<(Duration, Duration, f64)> {
    let folder = tempfile::tempdir()?;
    // Building it is not part of starting it.
    place::callgate()?;
    let started = Instant::now();
    let (mut gateway, address) = serve_many(folder.path(), upstreams, TOOLS_EACH)?;
    let listening = started.elapsed();
    let mut host = HttpHost::connect(&Target {
        address,
        token: token(),
    })
    .await?;
    host.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.into())
        .await?;
    let listed = started.elapsed();
    drop(host);
    // Idle means after the first bustle.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let idle = Family::of(gateway.id()).anonymous_bytes() as f64 / 1e6;
    gateway.kill()?;
    gateway.wait()?;
    Ok((listening, listed, idle))
}
