//! The conformance suite against `callgate serve` with one upstream whose tools the suite knows, for hosts
//! and servers of both eras in all combinations.
//!
//! The suite cannot send a token, so a proxy adds it; nothing else of the requests is changed.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use callgate_testkit::{BearerProxy, DataDir, HttpUpstream, StdioHost, bin, callgate};
use serde_json::json;

use super::install;
use crate::command::command;

const TOKEN: &str = "soak-agent-token";
const LISTENING: &str = "listening http://";
const START_DEADLINE: Duration = Duration::from_secs(20);

/// One revision of the protocol, as the suite speaks it, and how many of its scenarios are required.
struct Revision {
    name: &'static str,
    required: usize,
}

const HANDSHAKE: Revision = Revision {
    name: "2025-11-25",
    required: 30,
};
const STATELESS: Revision = Revision {
    name: "2026-07-28",
    required: 37,
};

/// Which hosts meet which servers. A server is named as its fixture calls what it speaks.
const MEETINGS: [(&Revision, &str); 6] = [
    (&HANDSHAKE, "dual"),
    (&STATELESS, "dual"),
    (&HANDSHAKE, "stateless"),
    (&STATELESS, "stateless"),
    (&HANDSHAKE, "handshake"),
    (&STATELESS, "handshake"),
];

/// Runs the suite for all meetings, over stdio and HTTP, prints how many required scenarios passed, and
/// fails unless all did.
pub(super) fn run() -> Result<()> {
    let node = install::node()?;
    let suite = install::conformance(&node)?;
    let mut lost = Vec::new();
    for (revision, speaks) in MEETINGS {
        for over in ["stdio", "http"] {
            let what = format!("{} host, {speaks} server over {over}", revision.name);
            let score = meet(&node.program, &suite, revision, (speaks, over))?;
            for failed in &score.failed {
                println!("failed: {failed}");
            }
            for unscored in &score.unscored {
                println!("not scored, failing: {unscored}");
            }
            println!(
                "{what}: {}/{} required scenarios",
                score.passed, revision.required
            );
            if score.passed != revision.required || !score.failed.is_empty() {
                lost.push(what);
            }
        }
    }
    if !lost.is_empty() {
        let lost = lost.join("; ");
        bail!("not all passed: {lost}; the details are in target/soak/conformance-out");
    }
    Ok(())
}

fn meet(
    node: &Path,
    suite: &Path,
    revision: &Revision,
    (speaks, over): (&str, &str),
) -> Result<Score> {
    let data = DataDir::new();
    let log = data.path().join("upstream.log");
    let log = log.to_str().context("the path is text")?;
    let upstream = match over {
        "http" => Some(HttpUpstream::start(
            "conformance-upstream",
            &["--era", speaks, "--log", log],
        )?),
        _ => None,
    };
    let server = match &upstream {
        Some(upstream) => json!({"url": upstream.url()}),
        None => {
            json!({"command": bin("conformance-upstream"), "args": ["--era", speaks, "--log", log]})
        }
    };
    let gateway = serve(&data, &server)?;
    let proxy = BearerProxy::start(address(&gateway)?, TOKEN)?;
    let out = install::folder()?.join("conformance-out");
    let out = out.join(format!("{}-{speaks}-{over}", revision.name));
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out)?;
    let url = format!("http://{}/mcp", proxy.address());
    let output = command(node)
        .arg(suite)
        .args([
            "server",
            "--url",
            &url,
            "--requirements",
            revision.name,
            "-o",
        ])
        .arg(&out)
        .stdin(Stdio::null())
        .output()
        .context("cannot run the suite")?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    fs::write(out.join("printed.log"), &printed)?;
    let _ = fs::copy(log, out.join("upstream.log"));
    Ok(Score::read(&printed))
}

fn serve(data: &DataDir, server: &serde_json::Value) -> Result<StdioHost> {
    // JSON is YAML, and needs no care about quoting.
    let config = json!({
        "servers": {"conformance": server},
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
    /// Scenarios that do not count, and fail.
    unscored: Vec<String>,
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
        let marked: Vec<(bool, String)> = unscored.lines().filter_map(mark).collect();
        let unscored: Vec<&String> = marked.iter().map(|(_, name)| name).collect();
        let (passed, failed): (Vec<_>, Vec<_>) = scored
            .lines()
            .filter_map(mark)
            .filter(|(_, name)| !unscored.contains(&name))
            .partition(|(passed, _)| *passed);
        let failing = marked.iter().filter(|(passed, _)| !*passed);
        Self {
            passed: passed.len(),
            failed: failed.into_iter().map(|(_, name)| name).collect(),
            unscored: failing.map(|(_, name)| name.clone()).collect(),
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
