//! The conformance suite against `callgate serve` with one upstream whose tools the suite knows, for hosts
//! and servers of both eras in all combinations; and against a host in front of `callgate stdio`, whose server
//! is the suite's.
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
use crate::command::{command, root};

/// The server that the suite talks to. It stands first in the file, so it keeps its URIs.
const FIRST: &str = "conformance";
const TOKEN: &str = "soak-agent-token";
const LISTENING: &str = "listening http://";
const START_DEADLINE: Duration = Duration::from_secs(20);

/// What is known to fail, and why. The suite fails for whatever else does, and for what does not any more.
const EXPECTED: &str = "xtask/src/soak/conformance-expected.yaml";
/// The same where a stateless host meets a handshake server.
const EXPECTED_CROSSING: &str = "xtask/src/soak/conformance-expected-crossing.yaml";
/// Scenarios about authorization, which the gateway does not do for its servers.
const AUTHORIZATION: &str = "auth/";

/// One revision of the protocol, as the suite speaks it, and how many of its scenarios are required: of
/// servers, and of clients apart from authorization.
struct Revision {
    name: &'static str,
    required: usize,
    of_clients: usize,
}

const HANDSHAKE: Revision = Revision {
    name: "2025-11-25",
    required: 30,
    of_clients: 4,
};
const STATELESS: Revision = Revision {
    name: "2026-07-28",
    required: 37,
    of_clients: 7,
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

/// How many servers stand behind the gateway. With one, its tools have their own names; with several, a relay gives those
/// of the first to the suite.
const CROWDS: [usize; 3] = [1, 2, 8];

/// Runs the suite for all meetings, over stdio and HTTP, prints how many required scenarios passed, and
/// fails unless all did.
pub(super) fn run() -> Result<()> {
    let node = install::node()?;
    let suite = install::conformance(&node)?;
    let mut lost = Vec::new();
    for servers in CROWDS {
        for (revision, speaks) in MEETINGS {
            for over in ["stdio", "http"] {
                let host = revision.name;
                let what = format!("{host} host, {speaks} server over {over}, {servers} in all");
                let setting = Setting {
                    speaks,
                    over,
                    servers,
                };
                let score = meet(&node.program, &suite, revision, &setting)?;
                lost.extend(score.tell(what, revision.required));
            }
        }
    }
    for revision in [&HANDSHAKE, &STATELESS] {
        let what = format!("{} client, apart from authorization", revision.name);
        let score = as_client(&node.program, &suite, revision)?;
        lost.extend(score.tell(what, revision.of_clients));
    }
    if !lost.is_empty() {
        let lost = lost.join("; ");
        bail!("not all passed: {lost}; the details are in target/soak/conformance-out");
    }
    Ok(())
}

/// What stands behind the gateway.
struct Setting {
    /// Which forms of the protocol the servers speak, and how they are reached.
    speaks: &'static str,
    over: &'static str,
    servers: usize,
}

fn meet(node: &Path, suite: &Path, revision: &Revision, setting: &Setting) -> Result<Score> {
    let Setting {
        speaks,
        over,
        servers,
    } = *setting;
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
    // The others are the same server over stdio, so that everything that the first one names collides.
    let others = (1..servers).map(|number| {
        let arguments = ["--era", speaks];
        let server = json!({"command": bin("conformance-upstream"), "args": arguments});
        (format!("other{number}"), server)
    });
    let all: serde_json::Map<_, _> = [(FIRST.to_owned(), server)]
        .into_iter()
        .chain(others)
        .collect();
    let gateway = serve(&data, &all)?;
    let gateway_address = address(&gateway)?;
    let proxy = match servers {
        1 => BearerProxy::start(gateway_address, TOKEN)?,
        _ => BearerProxy::start_renaming(gateway_address, TOKEN, &format!("{FIRST}__"))?,
    };
    let out = install::folder()?.join("conformance-out");
    let out = out.join(format!("{}-{speaks}-{over}-{servers}", revision.name));
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out)?;
    let url = format!("http://{}/mcp", proxy.address());
    let crosses = revision.name == STATELESS.name && speaks == "handshake";
    let side = Side {
        arguments: ["server", "--url", &url],
        expected: if crosses { EXPECTED_CROSSING } else { EXPECTED },
    };
    let score = suite_says(node, suite, (side, revision), &out);
    let _ = fs::copy(log, out.join("upstream.log"));
    score
}

/// The suite as the server of a host in front of the gateway.
fn as_client(node: &Path, suite: &Path, revision: &Revision) -> Result<Score> {
    // Built here, so that the suite does not wait for it.
    callgate();
    let client = bin("conformance-client");
    let client = client.to_str().context("the path is text")?;
    let out = install::folder()?.join("conformance-out");
    let out = out.join(format!("{}-client", revision.name));
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out)?;
    let side = Side {
        arguments: ["client", "--command", client],
        expected: EXPECTED,
    };
    let score = suite_says(node, suite, (side, revision), &out)?;
    Ok(score.without(AUTHORIZATION))
}

/// Which side of the suite is run, and what is known to fail there.
struct Side<'a> {
    /// The suite's own word for it, and what that needs.
    arguments: [&'a str; 3],
    expected: &'static str,
}

fn suite_says(
    node: &Path,
    suite: &Path,
    (side, revision): (Side<'_>, &Revision),
    out: &Path,
) -> Result<Score> {
    let run = |arguments: &[&str]| {
        command(node)
            .arg(suite)
            .args(arguments)
            .args(["--requirements", revision.name])
            .stdin(Stdio::null())
            .output()
            .context("cannot run the suite")
    };
    let listed = run(&["list"])?;
    let required = required(&String::from_utf8_lossy(&listed.stdout), side.arguments[0]);
    let expected = root().join(side.expected);
    let paths = [expected.to_str(), out.to_str()];
    let [Some(expected), Some(folder)] = paths else {
        bail!("a path is not text");
    };
    let more = ["--expected-failures", expected, "-o", folder];
    let output = run(&[&side.arguments[..], &more].concat())?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    fs::write(out.join("printed.log"), &printed)?;
    fs::write(out.join("errors.log"), &output.stderr)?;
    Ok(Score {
        as_expected: output.status.success(),
        ..Score::read(&printed, &required)
    })
}

/// The scenarios that the suite requires of a `server` or a `client`, as it lists them.
fn required(listed: &str, side: &str) -> Vec<String> {
    let heading = format!("(test against a {side}):");
    let section = listed.split(&heading).nth(1).unwrap_or_default();
    let names = section.trim_start().lines().map(str::trim);
    names
        .map_while(|line| line.strip_prefix("- "))
        .map(str::to_owned)
        .collect()
}

fn serve(
    data: &DataDir,
    servers: &serde_json::Map<String, serde_json::Value>,
) -> Result<StdioHost> {
    let prefix = match servers.len() {
        1 => "never",
        _ => "always",
    };
    // JSON is YAML, and needs no care about quoting.
    let config = json!({"servers": servers, "naming": {"prefix": prefix}});
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
    passed: Vec<String>,
    failed: Vec<String>,
    /// Whether nothing failed that is not known to, and nothing passed that is known to fail.
    as_expected: bool,
    /// Scenarios that do not count, and fail.
    unscored: Vec<String>,
}

impl Score {
    /// Prints it, and gives `what` back where it is not what it should be.
    fn tell(&self, what: String, required: usize) -> Option<String> {
        for failed in &self.failed {
            println!("failed: {failed}");
        }
        for unscored in &self.unscored {
            println!("not scored, failing: {unscored}");
        }
        let passed = self.passed.len();
        println!("{what}: {passed}/{required} required scenarios");
        if !self.as_expected {
            println!("{what}: not what {EXPECTED} says");
        }
        let good = passed == required && self.failed.is_empty() && self.as_expected;
        (!good).then_some(what)
    }

    /// The same without the scenarios whose names begin so.
    fn without(mut self, prefix: &str) -> Self {
        for names in [&mut self.passed, &mut self.failed, &mut self.unscored] {
            names.retain(|name| !name.starts_with(prefix));
        }
        self
    }

    fn read(printed: &str, required: &[String]) -> Self {
        let summary = printed.split("SUMMARY ===").nth(1).unwrap_or_default();
        let summary = summary.split("Total:").next().unwrap_or_default();
        let mut score = Self {
            passed: Vec::new(),
            failed: Vec::new(),
            as_expected: true,
            unscored: Vec::new(),
        };
        for line in summary.lines() {
            let Some((mark, rest)) = line.trim().split_once(' ') else {
                continue;
            };
            let name = rest.split([':', ' ']).next().unwrap_or_default().to_owned();
            match (mark, required.contains(&name)) {
                ("✓", true) => score.passed.push(name),
                ("✗", true) => score.failed.push(name),
                ("✗", false) => score.unscored.push(name),
                _ => {}
            }
        }
        score
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "Required for 2025-11-25 (3 scenarios):\n\nServer scenarios (test against a server):\n  - ping\n  - tools-list\n\n\
                          Client scenarios (test against a client):\n  - initialize\n\nRun and reported, but never scored:\n  pending (1):\n    - late [server]\n";

    #[test]
    fn only_required_scenarios_are_scored() {
        let required_here = required(LISTED, "server");
        assert_eq!(required_here, ["ping", "tools-list"]);
        assert_eq!(required(LISTED, "client"), ["initialize"]);
        let printed = "✓ noise\n=== SUMMARY ===\n✓ ping: 1 passed, 0 failed\n✗ tools-list: 1 passed, 1 failed\n\
                       ✗ server-sse-polling: 0 passed, 1 failed\n✓ late: 1 passed, 0 failed\n\nTotal: 2 passed, 2 failed\n\n  ✗ ping\n";
        let score = Score::read(printed, &required_here);
        assert_eq!(score.passed, ["ping"]);
        assert_eq!(score.failed, ["tools-list"]);
        assert_eq!(score.unscored, ["server-sse-polling"]);
    }

    #[test]
    fn output_without_a_summary_passes_no_scenario() {
        let score = Score::read("it crashed", &["ping".to_owned()]);
        assert!(score.passed.is_empty());
    }
}
