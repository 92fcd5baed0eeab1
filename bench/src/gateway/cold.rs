//! `bench cold`: from starting the gateway to its first answer and to the first complete list; and
//! its memory when it has nothing to do.

use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;

use super::{
    host::HttpHost,
    place,
    processes::{Family, Memory},
    start::{Setup, Wrapper, runtime},
    stats::Figure,
    table::Table,
};

/// Tools of each upstream.
const TOOLS_EACH: usize = 10;
/// Idle means after the first bustle.
const SETTLE: Duration = Duration::from_secs(3);
/// How long upstreams may take until all their tools are listed.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Starts
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Upstreams
    #[arg(long, default_value_t = 10)]
    upstreams: usize,
}

/// What starts showed, a figure per start.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    listening_ms: Vec<f64>,
    pub(crate) initialized_ms: Vec<f64>,
    pub(crate) listed_ms: Vec<f64>,
    idle_gateway_mb: Vec<f64>,
    pub(crate) idle_mb: Vec<f64>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let starts = runtime()?.block_on(measure(options.rounds, options.upstreams))?;
    println!(
        "{} upstreams, {} starts, medians [least, most]\n",
        options.upstreams, options.rounds
    );
    let mut table = Table::new(["from starting the gateway", "measured"]);
    for (what, unit, figures) in [
        ("to listening", "ms", &starts.listening_ms),
        ("to `initialize` answered", "ms", &starts.initialized_ms),
        ("to the first complete list", "ms", &starts.listed_ms),
        ("idle RssAnon, gateway alone", "MB", &starts.idle_gateway_mb),
        ("idle RssAnon with its wardens", "MB", &starts.idle_mb),
    ] {
        let figure = Figure::median_of(figures);
        table.row([what.to_owned(), format!("{figure} {unit}")]);
    }
    print!("{table}");
    Ok(())
}

/// Starts a gateway some times, each with a data folder of its own.
pub(crate) async fn measure(rounds: usize, upstreams: usize) -> anyhow::Result<Starts> {
    eprintln!("cold starts with {upstreams} upstreams");
    // Building it is not part of starting it.
    place::callgate()?;
    let mut starts = Starts::default();
    for _ in 0..rounds {
        let idle = start(upstreams, &mut starts).await?;
        starts.idle_gateway_mb.push(idle.gateway_mb);
        starts.idle_mb.push(idle.total_mb());
    }
    Ok(starts)
}

async fn start(upstreams: usize, starts: &mut Starts) -> anyhow::Result<Memory> {
    let folder = tempfile::tempdir()?;
    let setup = Setup::many(folder.path(), upstreams, TOOLS_EACH)?;
    let started = Instant::now();
    let ms = || started.elapsed().as_secs_f64() * 1000.0;
    let (gateway, target) = setup.serve(&Wrapper::default())?;
    starts.listening_ms.push(ms());
    let mut host = HttpHost::connect(&target).await?;
    starts.initialized_ms.push(ms());
    while host.count_tools().await?.tools < upstreams * TOOLS_EACH {
        if started.elapsed() > PATIENCE {
            bail!("no complete list within {} s", PATIENCE.as_secs());
        }
    }
    starts.listed_ms.push(ms());
    drop(host);
    tokio::time::sleep(SETTLE).await;
    Ok(Family::of(gateway.pid()).memory())
}
