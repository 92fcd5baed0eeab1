//! One gateway asks another: what a guarded call costs over a local one, how long it takes at a steady
//! pace, and how many questions a guard answers.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http1::SendRequest, header};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet, time::MissedTickBehavior};

use super::{
    host::{HttpHost, Target},
    start::{Running, Setup, Wrapper, echo_server, runtime},
    stats::{Figure, Latencies},
    table::Table,
};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__echo","arguments":{"text":"hello"}}}"#;
const CHECK: &str = r#"{"schema_version":"v1","scope":"mcp_tool","command":"up:echo","agent_id":"bench","session_id":"s","meta":{"transport":"mcp_gateway","namespace":"up","tool_name":"echo","args_sha256":"0","arg_text":"hello"}}"#;
/// What a guarded call may take over a local one, in microseconds.
const OVER_LOCAL_US: f64 = 300.0;
/// What nearly all guarded calls stay below at a steady pace, in microseconds.
const STEADY_P99_US: f64 = 2000.0;

const CALLS_PER_SECOND: u64 = 200;
/// Questions that a guard has to answer.
const CHECKS_PER_SECOND: u64 = 1000;
/// Connections that ask at once.
const ASKERS: u64 = 20;

/// How long is measured.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds of calls, one after the other, through each gateway
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Calls in a round
    #[arg(long, default_value_t = 500)]
    calls: usize,
    /// Seconds of calls at a steady pace
    #[arg(long, default_value_t = 15)]
    steady_s: u64,
    /// Seconds of questions to the guard
    #[arg(long, default_value_t = 60)]
    checks_s: u64,
    /// Print the figures and fail for none
    #[arg(long)]
    only_measure: bool,
}

/// A gateway and where it is.
struct Gateway {
    target: Target,
    _running: Running,
    _folder: tempfile::TempDir,
}

/// Measures, prints, and fails when a budget is broken.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    runtime()?.block_on(measure(options))
}

async fn measure(options: &Options) -> anyhow::Result<()> {
    let guard = start(None)?;
    let local = start(Some(None))?;
    let guarded = start(Some(Some(&guard.target)))?;
    let over = over_local(&local.target, &guarded.target, options).await?;
    let steady = steady(&guarded.target, options.steady_s).await?;
    let (rate, checked) = checks(&guard.target, options.checks_s).await?;
    let mut table = Table::new(["what", "measured", "budget"]);
    let us = |value: f64| format!("{value:.0} µs");
    table.row([
        "p50 of a guarded call over a local one".to_owned(),
        format!("{:.0} µs ({:.0} to {:.0})", over.value, over.low, over.high),
        us(OVER_LOCAL_US),
    ]);
    let p99 = steady.percentile_us(0.99);
    table.row([
        format!("p99 of a guarded call at {CALLS_PER_SECOND} calls/s"),
        us(p99),
        us(STEADY_P99_US),
    ]);
    table.row([
        format!("checks per second over {} s", options.checks_s),
        format!("{rate:.0} (p99 {:.0} µs)", checked.percentile_us(0.99)),
        CHECKS_PER_SECOND.to_string(),
    ]);
    println!("{table}");
    let holds = over.value <= OVER_LOCAL_US
        && p99 <= STEADY_P99_US
        && rate >= CHECKS_PER_SECOND as f64 * 0.99;
    if !holds && !options.only_measure {
        bail!("a budget is broken");
    }
    Ok(())
}

/// A guard (`None`), a gateway with rules of its own (`Some(None)`), or one that asks a guard.
fn start(asks: Option<Option<&Target>>) -> anyhow::Result<Gateway> {
    let folder = tempfile::tempdir()?;
    let setup = match asks {
        None => Setup::none(folder.path())?,
        Some(None) => Setup::one(folder.path(), echo_server(1)?)?,
        Some(Some(guard)) => Setup::guarded(folder.path(), echo_server(1)?, guard)?,
    };
    let (running, target) = setup.serve(&Wrapper::default())?;
    Ok(Gateway {
        target,
        _running: running,
        _folder: folder,
    })
}

/// The difference of medians, round by round.
async fn over_local(local: &Target, guarded: &Target, options: &Options) -> anyhow::Result<Figure> {
    let mut hosts = [
        HttpHost::connect(local).await?,
        HttpHost::connect(guarded).await?,
    ];
    for host in &mut hosts {
        calls(host, options.calls).await?;
    }
    let mut over = Vec::new();
    for _ in 0..options.rounds {
        let mut medians = [0.0; 2];
        for (median, host) in medians.iter_mut().zip(&mut hosts) {
            *median = calls(host, options.calls).await?.percentile_us(0.5);
        }
        over.push(medians[1] - medians[0]);
    }
    Ok(Figure::median_of(&over))
}

async fn calls(host: &mut HttpHost, count: usize) -> anyhow::Result<Latencies> {
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(one_call(host).await?);
    }
    Ok(Latencies::new(all))
}

async fn one_call(host: &mut HttpHost) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let answer = host.post(CALL.into()).await?;
    if !answer.windows(5).any(|part| part == b"hello") {
        bail!("a call was not done: {}", String::from_utf8_lossy(&answer));
    }
    Ok(began.elapsed())
}

/// Calls at a steady pace, whatever became of the one before.
async fn steady(target: &Target, seconds: u64) -> anyhow::Result<Latencies> {
    const LANES: u64 = 8;
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let mut host = HttpHost::connect(target).await?;
        lanes.spawn(async move {
            let every = Duration::from_micros(1_000_000 * LANES / CALLS_PER_SECOND);
            tokio::time::sleep(every * u32::try_from(lane)? / u32::try_from(LANES)?).await;
            let mut ticks = tokio::time::interval(every);
            let mut all = Vec::new();
            for _ in 0..seconds * CALLS_PER_SECOND / LANES {
                ticks.tick().await;
                all.push(one_call(&mut host).await?);
            }
            anyhow::Ok(all)
        });
    }
    let mut all = Vec::new();
    while let Some(lane) = lanes.join_next().await {
        all.extend(lane??);
    }
    Ok(Latencies::new(all))
}

/// Questions at the pace that a guard has to hold; gives the pace that it held.
async fn checks(target: &Target, seconds: u64) -> anyhow::Result<(f64, Latencies)> {
    let began = Instant::now();
    let mut askers = JoinSet::new();
    for _ in 0..ASKERS {
        let mut asker = Asker::connect(target).await?;
        askers.spawn(async move {
            let every = Duration::from_micros(1_000_000 * ASKERS / CHECKS_PER_SECOND);
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut all = Vec::new();
            for _ in 0..seconds * CHECKS_PER_SECOND / ASKERS {
                ticks.tick().await;
                all.push(asker.ask().await?);
            }
            anyhow::Ok(all)
        });
    }
    let mut all = Vec::new();
    while let Some(asker) = askers.join_next().await {
        all.extend(asker??);
    }
    let rate = all.len() as f64 / began.elapsed().as_secs_f64();
    Ok((rate, Latencies::new(all)))
}

/// One connection that asks.
struct Asker {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
}

impl Asker {
    async fn connect(target: &Target) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self {
            target: target.clone(),
            sender,
        })
    }

    async fn ask(&mut self) -> anyhow::Result<Duration> {
        let token = self
            .target
            .token
            .as_deref()
            .context("a guard has a token")?;
        let request = Request::post("/v1/check")
            .header(header::HOST, self.target.address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {token}"));
        let request = request.body(Full::new(Bytes::from_static(CHECK.as_bytes())))?;
        let began = Instant::now();
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        if !response.status().is_success() {
            bail!("the guard answered {}", response.status());
        }
        let body = response.into_body().collect().await?.to_bytes();
        if !body.windows(7).any(|part| part == b"\"ALLOW\"") {
            bail!("the guard said {}", String::from_utf8_lossy(&body));
        }
        Ok(began.elapsed())
    }
}
