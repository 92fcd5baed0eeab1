//! `bench lists`: tools/list over ten upstreams, all pages, against one direct list of as many.

use std::time::{Duration, Instant};

use clap::Args;

use super::{
    host::{HttpHost, Target},
    place,
    stats::{Latencies, median},
    way::{listening_at, runtime, serve_many, token},
};

/// How many upstreams share the tools.
const UPSTREAMS: usize = 10;

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Interleaved rounds
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Tools in all
    #[arg(long, default_values_t = [10, 100, 1000, 5000])]
    tools: Vec<usize>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    println!("tools   direct us   callgate us   ratio");
    for &tools in &options.tools {
        let (direct, through) = runtime()?.block_on(measure(options.rounds, tools))?;
        println!(
            "{tools:>5}   {direct:>9.0}   {through:>11.0}   {:>5.2}",
            through / direct
        );
    }
    Ok(())
}

async fn measure(rounds: usize, tools: usize) -> anyhow::Result<(f64, f64)> {
    let own = place::own_program()?;
    let mut echo = std::process::Command::new(&own);
    let tools_text = tools.to_string();
    let (mut upstream, address) =
        listening_at(echo.args(["echo", "--http", "127.0.0.1:0", "--tools", &tools_text]))?;
    let folder = tempfile::tempdir()?;
    let share = (tools / UPSTREAMS).max(1);
    let (mut gateway, gate_address) = serve_many(folder.path(), UPSTREAMS, share)?;
    let mut direct = HttpHost::connect(&Target {
        address,
        token: None,
    })
    .await?;
    let through = Target {
        address: gate_address,
        token: token(),
    };
    let mut through = HttpHost::connect(&through).await?;
    let (mut of_direct, mut of_through) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let one = list_often(&mut direct).await?;
        let other = list_often(&mut through).await?;
        if round > 0 {
            of_direct.push(one);
            of_through.push(other);
        }
    }
    for child in [&mut gateway, &mut upstream] {
        child.kill()?;
        child.wait()?;
    }
    Ok((median(&of_direct), median(&of_through)))
}

/// The median of some whole lists, in microseconds.
async fn list_often(host: &mut HttpHost) -> anyhow::Result<f64> {
    let mut all: Vec<Duration> = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        let mut cursor: Option<String> = None;
        loop {
            let params = cursor.map(|cursor| format!(r#","params":{{"cursor":"{cursor}"}}"#));
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list"{}}}"#,
                params.unwrap_or_default()
            );
            let answer = host.post(body.into()).await?;
            cursor = next_cursor(&answer);
            if cursor.is_none() {
                break;
            }
        }
        all.push(started.elapsed());
    }
    Ok(Latencies::new(all).percentile_us(0.5))
}

/// The cursor stands behind the tools.
fn next_cursor(answer: &[u8]) -> Option<String> {
    let tail = String::from_utf8_lossy(&answer[answer.len().saturating_sub(200)..]).into_owned();
    let (_, after) = tail.split_once(r#""nextCursor":""#)?;
    after.split_once('"').map(|(cursor, _)| cursor.to_owned())
}
