//! What is measured on a gateway.

use anyhow::{Result, bail};
use serde_json::{Map, json};

use crate::gateway::{
    host::HttpHost,
    processes::Family,
    start::{Setup, Wrapper, echo_http, runtime},
};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// The CPU time of a gateway from its start until it lists the tools of so many servers that it never saw.
pub(super) fn starting(servers: usize) -> Result<f64> {
    const TOOLS: usize = 5;
    let (_upstream, target) = echo_http(TOOLS)?;
    let folder = tempfile::tempdir()?;
    let url = format!("http://{}/mcp", target.address);
    let one = |at: usize| (format!("up{at}"), json!({"url": url}));
    let setup = Setup::servers(folder.path(), (0..servers).map(one).collect::<Map<_, _>>())?;
    let (gateway, through) = setup.serve(&Wrapper::default())?;
    let family = Family::of(gateway.pid());
    runtime()?.block_on(async {
        let mut host = HttpHost::connect(&through).await?;
        // The first list waits for the first connects.
        let listed = host.count_tools().await?;
        if listed.tools != servers * TOOLS {
            bail!("{} tools are listed", listed.tools);
        }
        let used = family.cpu_times().seconds_since(&Default::default());
        Ok(used * 1e6)
    })
}

pub(super) fn beside_sessions(sessions: usize) -> Result<f64> {
    const REQUESTS: usize = 2_000;
    with_sessions(sessions, async |_, family, host| {
        let before = family.cpu_times();
        for _ in 0..REQUESTS {
            host.post(PING.into()).await?;
        }
        Ok(family.cpu_times().seconds_since(&before) * 1e6 / REQUESTS as f64)
    })
}

pub(super) fn opening_sessions(sessions: usize) -> Result<f64> {
    with_sessions(sessions, async |opening_us, _, _| Ok(opening_us))
}

/// Opens so many sessions, and measures.
fn with_sessions(
    sessions: usize,
    measure: impl AsyncFnOnce(f64, Family, &mut HttpHost) -> Result<f64>,
) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let setup = Setup::none(folder.path())?;
    let (gateway, target) = setup.serve(&Wrapper::default())?;
    let family = Family::of(gateway.pid());
    runtime()?.block_on(async {
        let before = family.cpu_times();
        for _ in 1..sessions {
            HttpHost::connect(&target).await?;
        }
        let opening = family.cpu_times().seconds_since(&before);
        let mut host = HttpHost::connect(&target).await?;
        measure(opening * 1e6 / sessions as f64, family, &mut host).await
    })
}
