//! `bench lists`: tools/list over ten upstreams, all pages, against one direct list of as many.

use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;

use super::{
    host::{HttpHost, Listed},
    start::{Setup, Wrapper, echo_http, runtime},
    stats::{Figure, Latencies},
    table::Table,
};

/// How many upstreams share the tools.
const UPSTREAMS: usize = 10;
/// Whole lists in a round.
const LISTS: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Interleaved rounds
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Tools in all, a multiple of ten
    #[arg(long, default_values_t = [10, 100, 1000, 5000])]
    tools: Vec<usize>,
}

/// Lists side by side: the median latency of a whole list in each round.
#[derive(Debug)]
pub(crate) struct Lists {
    pages: usize,
    direct_us: Vec<f64>,
    callgate_us: Vec<f64>,
}

impl Lists {
    /// Callgate's time as a multiple of a direct list's.
    pub(crate) fn ratio(&self) -> Figure {
        Figure::ratio(&self.callgate_us, &self.direct_us)
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut table = Table::new(["tools", "pages", "direct us", "Callgate us", "ratio"]);
    for &tools in &options.tools {
        let lists = runtime()?.block_on(compare(options.rounds, tools))?;
        table.row([
            tools.to_string(),
            lists.pages.to_string(),
            Figure::median_of(&lists.direct_us).to_string(),
            Figure::median_of(&lists.callgate_us).to_string(),
            lists.ratio().to_string(),
        ]);
    }
    println!(
        "{} rounds of {LISTS} whole lists, {UPSTREAMS} upstreams\n",
        options.rounds
    );
    print!("{table}");
    Ok(())
}

/// Measures lists of `tools` tools in interleaved rounds.
pub(crate) async fn compare(rounds: usize, tools: usize) -> anyhow::Result<Lists> {
    eprintln!("lists of {tools} tools");
    let (_upstream, direct) = echo_http(tools)?;
    let folder = tempfile::tempdir()?;
    let setup = Setup::many(folder.path(), UPSTREAMS, tools / UPSTREAMS)?;
    let (_gateway, through) = setup.serve(&Wrapper::default())?;
    let mut direct = HttpHost::connect(&direct).await?;
    let mut through = HttpHost::connect(&through).await?;
    expect(tools, direct.count_tools().await?)?;
    let listed = through.count_tools().await?;
    expect(tools, listed)?;
    let mut lists = Lists {
        pages: listed.pages,
        direct_us: Vec::new(),
        callgate_us: Vec::new(),
    };
    for round in 0..=rounds {
        let one = list_often(&mut direct).await?;
        let other = list_often(&mut through).await?;
        // The first round warms up and does not count.
        if round > 0 {
            lists.direct_us.push(one);
            lists.callgate_us.push(other);
        }
    }
    Ok(lists)
}

fn expect(tools: usize, listed: Listed) -> anyhow::Result<()> {
    if listed.tools != tools {
        bail!("{} tools were listed instead of {tools}", listed.tools);
    }
    Ok(())
}

/// The median of some whole lists, in microseconds.
async fn list_often(host: &mut HttpHost) -> anyhow::Result<f64> {
    let mut all: Vec<Duration> = Vec::new();
    for _ in 0..LISTS {
        let started = Instant::now();
        host.list(|_| {}).await?;
        all.push(started.elapsed());
    }
    Ok(Latencies::new(all).percentile_us(0.5))
}
