//! What a script costs over the calls it makes: one call through `run` against the same call made directly, on a
//! fresh worker and on one that was used, and a thousand calls in one run against the upstream alone. Then how
//! many tokens a task of three calls takes against listing every tool.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::{
    host::{HttpHost, StdioHost, Target},
    start::{self, Setup, Wrapper},
};

/// How much to measure.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Calls and runs on a worker that was used
    #[arg(long, default_value_t = 300)]
    warm: usize,
    /// Gateways started to see the first run on a fresh worker
    #[arg(long, default_value_t = 9)]
    cold: usize,
    /// Calls in the run of many
    #[arg(long, default_value_t = 1000)]
    inner: usize,
    /// Fail when a budget is broken
    #[arg(long)]
    strict: bool,
}

/// Budgets: over a direct call warm and cold, and over the upstream's time for all inner calls.
const WARM: Duration = Duration::from_micros(300);
const COLD: Duration = Duration::from_millis(2);
const INNER: Duration = Duration::from_millis(50);
/// How long fresh workers are given to begin.
const SETTLE: Duration = Duration::from_millis(1500);
/// Servers and tools of the token figure.
const SERVERS: usize = 18;
const TOOLS: usize = 23;
/// How many percent fewer tokens the view must take.
const LEAST_SAVED: f64 = 90.0;
/// How many bytes of JSON and English a token is, about.
const TOKEN_BYTES: f64 = 4.0;

pub(crate) fn run(options: &Options) -> Result<()> {
    start::runtime()?.block_on(measure(options))
}

async fn measure(options: &Options) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let setup = Setup::one(folder.path(), start::echo_server(1)?)?;
    let mut firsts = Vec::new();
    for _ in 0..options.cold {
        let (running, target) = setup.serve(&Wrapper::default())?;
        let mut host = HttpHost::connect_at(&target, "/mcp/code").await?;
        let mut direct = HttpHost::connect_at(&target, "/mcp/direct").await?;
        host.list(|_| ()).await?;
        tokio::time::sleep(SETTLE).await;
        let mut times = Vec::new();
        for _ in 0..20 {
            times.push(timed(&mut direct, call("up__echo", &json!({"text": "x"}))).await?);
        }
        let over = median(times);
        let first = timed(&mut host, script("up.echo(text='x')")).await?;
        firsts.push(first.saturating_sub(over));
        drop(running);
    }
    let (running, target) = setup.serve(&Wrapper::default())?;
    let (warm, many) = of_one(&target, options).await?;
    drop(running);
    let upstream = alone(options).await?;
    let told = [
        (
            "a call through run, fresh worker, over direct",
            median(firsts),
            COLD,
        ),
        ("a call through run, used worker, over direct", warm, WARM),
        (
            "many calls in one run, over the upstream",
            many.saturating_sub(upstream),
            INNER,
        ),
    ];
    println!("{:<50} {:>12} {:>12}", "what", "median", "budget");
    let mut broken = Vec::new();
    for (what, time, budget) in told {
        println!("{what:<50} {:>9.3} ms {:>9.3} ms", ms(time), ms(budget));
        if time > budget {
            broken.push(what);
        }
    }
    println!(
        "many calls alone: {:.3} ms in one run, {:.3} ms at the upstream",
        ms(many),
        ms(upstream)
    );
    if tokens().await? < LEAST_SAVED {
        broken.push("tokens");
    }
    if options.strict && !broken.is_empty() {
        bail!("over budget: {}", broken.join(", "));
    }
    Ok(())
}

/// One call over a direct one, interleaved; and a run of many calls.
async fn of_one(target: &Target, options: &Options) -> Result<(Duration, Duration)> {
    let mut host = HttpHost::connect_at(target, "/mcp/code").await?;
    let mut direct = HttpHost::connect_at(target, "/mcp/direct").await?;
    for _ in 0..20 {
        timed(&mut host, script("up.echo(text='x')")).await?;
    }
    let (mut through, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..options.warm {
        through.push(timed(&mut host, script("up.echo(text='x')")).await?);
        plain.push(timed(&mut direct, call("up__echo", &json!({"text": "x"}))).await?);
    }
    let command = format!("for i in range({}):\n    up.echo(text='x')", options.inner);
    let mut many = Vec::new();
    for _ in 0..5 {
        many.push(timed(&mut host, script(&command)).await?);
    }
    Ok((median(through).saturating_sub(median(plain)), median(many)))
}

/// The same calls made to the upstream itself, one after the other.
async fn alone(options: &Options) -> Result<Duration> {
    let host = StdioHost::start(&start::echo_command(1)?).await?;
    let mut rounds = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        for id in 0..options.inner {
            let line = call_with(id + 10, "echo", &json!({"text": "x"}));
            host.call((id + 10) as u64, line.into()).await?;
        }
        rounds.push(begun.elapsed());
    }
    Ok(median(rounds))
}

/// A task of three calls, discovery included: what the model reads and writes, in each view.
/// Gives how many percent fewer there are.
async fn tokens() -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let setup = Setup::many(folder.path(), SERVERS, TOOLS)?;
    let (_running, target) = setup.serve(&Wrapper::default())?;
    let mut direct = HttpHost::connect_at(&target, "/mcp/direct").await?;
    let mut listed = 0;
    direct.list(|page| listed += page.len()).await?;
    let mut host = HttpHost::connect_at(&target, "/mcp/code").await?;
    let mut code = 0;
    host.list(|page| code += page.len()).await?;
    let steps = [
        "tools.search('echo a text', limit=5)",
        "tools.describe('up3.echo')",
        "a = up3.echo(text='x')\nb = up7.echo(text=a)\nc = up11.echo(text=b)\nc",
    ];
    for step in steps {
        let request = script(step);
        code += request.len() + host.post(request.into()).await?.len();
    }
    let mut calls = 0;
    for server in [3, 7, 11] {
        let request = call(&format!("up{server}__echo"), &json!({"text": "x"}));
        calls += request.len() + direct.post(request.into()).await?.len();
    }
    let all = SERVERS * TOOLS;
    let count = |bytes: usize| bytes as f64 / TOKEN_BYTES;
    let saved = 100.0 * (1.0 - code as f64 / (listed + calls) as f64);
    println!(
        "three calls over {SERVERS} servers with {all} tools: {:.0} tokens in the code view, {:.0} with every tool listed ({saved:.1} % less)",
        count(code),
        count(listed + calls)
    );
    Ok(saved)
}

async fn timed(host: &mut HttpHost, request: String) -> Result<Duration> {
    let begun = Instant::now();
    let answer = host.post(request.into()).await?;
    let took = begun.elapsed();
    let text = String::from_utf8_lossy(&answer);
    ensure!(
        !text.contains("isError\":true") && text.contains("result"),
        "{text}"
    );
    Ok(took)
}

fn script(command: &str) -> String {
    call("run", &json!({"command": command}))
}

fn call(tool: &str, arguments: &Value) -> String {
    call_with(7, tool, arguments)
}

fn call_with(id: usize, tool: &str, arguments: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
        .to_string()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
