//! The conformance suite against `callgate serve` with one upstream whose tools the suite knows.
//!
//! The suite cannot send a token, so a proxy adds it; nothing else of the requests is changed.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use callgate_testkit::{BearerProxy, DataDir, StdioHost, bin, callgate};
use serde_json::json;

use super::install;
use crate::command::command;

const REVISION: &str = "2025-11-25";
const REQUIRED: usize = 30;
const TOKEN: &str = "soak-agent-token";
const LISTENING: &str = "listening http://";
const START_DEADLINE: Duration = Duration::from_secs(20);

/// Runs the suite, prints how many required scenarios passed, and fails unless all did.
pub(super) fn run() -> Result<()> {
    let node = install::node()?;
    let suite = install::conformance(&node)?;
    let data = DataDir::new();
    let gateway = serve(&data)?;
    let proxy = BearerProxy::start(address(&gateway)?, TOKEN)?;
    let out = install::folder()?.join("conformance-out");
    let _ = fs::remove_dir_all(&out);
    let url = format!("http://{}/mcp", proxy.address());
    let output = command(&node.program)
        .arg(&suite)
        .args(["server", "--url", &url, "--requirements", REVISION, "-o"])
        .arg(&out)
        .stdin(Stdio::null())
        .output()
        .context("cannot run the suite")?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    fs::write(out.with_extension("log"), &printed)?;
    let score = Score::read(&printed);
    for failed in &score.failed {
        println!("failed: {failed}");
    }
    println!(
        "conformance {REVISION}: {}/{REQUIRED} required scenarios",
        score.passed
    );
    if score.passed != REQUIRED || !score.failed.is_empty() {
        bail!("the details are in target/soak/conformance-out and conformance-out.log beside it");
    }
    Ok(())
}

fn serve(data: &DataDir) -> Result<StdioHost> {
    // JSON is YAML, and needs no care about quoting.
    let config = json!({
        "servers": {"conformance": {"command": bin("conformance-upstream")}},
        "naming": {"prefix": "never"},
    });
    let config = data.file("callgate.yaml", &config.to_string());
    let mut command = Command::new(callgate());
    command
        .arg("serve")
        .arg("--config")
        .arg(config)
        .arg("--data-dir")
        .arg(data.path().join("data"))
        .args(["--listen", "127.0.0.1:0"])
        .env("CALLGATE_TOKEN", TOKEN)
        .env("CALLGATE_ADMIN_TOKEN", "soak-admin-token");
    StdioHost::spawn(&mut command)
}

fn address(gateway: &StdioHost) -> Result<SocketAddr> {
    let line = gateway.wait_stderr(START_DEADLINE, |line| line.contains(LISTENING))?;
    let (_, rest) = line
        .split_once(LISTENING)
        .context("the line was found by this text")?;
    let authority = rest.split('/').next().unwrap_or_default();
    authority
        .parse()
        .with_context(|| format!("not an address: `{authority}`"))
}

/// The scored scenarios of the suite's summary.
struct Score {
    passed: usize,
    failed: Vec<String>,
}

impl Score {
    fn read(printed: &str) -> Self {
        let summary = printed.split("=== SUMMARY ===").nth(1).unwrap_or_default();
        let (scored, unscored) = summary.split_once("Not scored").unwrap_or((summary, ""));
        let mark = |line: &str| {
            let (mark, rest) = line.trim().split_once(' ')?;
            let name = rest.split([':', ' ']).next().unwrap_or_default().to_owned();
            matches!(mark, "✓" | "✗").then_some((mark == "✓", name))
        };
        let unscored: Vec<String> = unscored
            .lines()
            .filter_map(mark)
            .map(|(_, name)| name)
            .collect();
        let (passed, failed): (Vec<_>, Vec<_>) = scored
            .lines()
            .filter_map(mark)
            .filter(|(_, name)| !unscored.contains(name))
            .partition(|(passed, _)| *passed);
        Self {
            passed: passed.len(),
            failed: failed.into_iter().map(|(_, name)| name).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scored_scenarios_count() {
        let printed = "✓ noise\n=== SUMMARY ===\n✓ ping: 1 passed, 0 failed\n✗ tools-list: 1 passed, 1 failed\n\
                       ✗ server-sse-polling: 0 passed, 1 failed\n✓ late: 1 passed, 0 failed\n\nTotal: 2 passed, 2 failed\n\n\
                       Not scored for 2025-11-25: 2 scenario(s) run, 1 failing. These do not affect conformance.\n\
                       \u{20} ✗ server-sse-polling (pending)\n\u{20} ✓ late (added-after-release)\n";
        let score = Score::read(printed);
        assert_eq!(
            (score.passed, score.failed),
            (1, vec!["tools-list".to_owned()])
        );
    }

    #[test]
    fn no_summary_is_no_pass() {
        assert_eq!(Score::read("it crashed").passed, 0);
    }
}
