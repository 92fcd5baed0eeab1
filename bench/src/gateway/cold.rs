//! `bench cold`: from starting the gateway to listening, and to the first complete list.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use clap::Args;

use super::{
    host::{HttpHost, Target},
    place,
    processes::Family,
    stats::{Latencies, median},
    way::{listening_at, runtime},
};

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
    let own = place::own_program()?;
    let folder = tempfile::tempdir()?;
    let server = |at: usize| {
        (
            format!("up{at}"),
            serde_json::json!({"command": own, "args": ["echo", "--tools", "10"]}),
        )
    };
    let servers: serde_json::Map<String, serde_json::Value> = (0..upstreams).map(server).collect();
    let config = folder.path().join("callgate.yaml");
    std::fs::write(&config, serde_json::json!({"servers": servers}).to_string())?;
    let mut command = Command::new(place::callgate()?);
    command
        .arg("serve")
        .arg("--config")
        .arg(config)
        .args(["--listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(folder.path().join("data"));
    command
        .env("CALLGATE_TOKEN", "bench")
        .env("CALLGATE_ADMIN_TOKEN", "bench-admin");
    let started = Instant::now();
    let (mut gateway, address) = listening_at(&mut command)?;
    let listening = started.elapsed();
    let mut host = HttpHost::connect(&Target {
        address,
        token: Some("bench".to_owned()),
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
