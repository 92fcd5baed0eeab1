//! Connecting to a server: headers, refusals, redirects, the legacy transport, and ending the session.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use callgate_testkit::{StdioHost, wait_until};
use serde_json::Value;

use super::Remote;
use crate::setup::{Bed, VERSION};
use crate::talk::{DEADLINE, call_text, is_notification, parsed, tools};

const READ: (&str, &str) = ("x__read_thing", r#"{"key":"k"}"#);

/// How the only server stands, as the command line says it.
fn row(bed: &Bed) -> Value {
    let output = bed.command(["servers", "list", "--json"]).output();
    let output = output.expect("it runs").stdout;
    parsed(&String::from_utf8_lossy(&output))[0].clone()
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(_) => found.push(fs::read(entry.path()).unwrap_or_default()),
            Err(_) => {}
        }
    }
    found
}

#[test]
fn configured_headers_are_sent_and_kept_secret() {
    let secret = "s3cret-of-the-test";
    let header = format!("Authorization=Bearer {secret}");
    let remote = Remote::start(&["--header", &header, "--header", "X-Team=red"]);
    let headers = ", headers: {Authorization: 'Bearer ${REMOTE_TOKEN}', X-Team: red}";
    let bed = remote.bed(headers);
    let mut command = bed.command(["stdio"]);
    command.env("REMOTE_TOKEN", secret);
    let mut host = StdioHost::connect(&mut command, VERSION).expect("it answers");
    assert_eq!(call_text(&mut host, READ.0, READ.1), "read k");
    host.close(DEADLINE).expect("it ends");
    assert_eq!(
        remote.events("DELETE /mcp"),
        1,
        "headers go with every method"
    );
    let said = host.stderr().join("\n");
    assert!(!said.contains(secret), "{said}");
    let kept = files(&bed.path("data"));
    let leaks = |file: &&Vec<u8>| String::from_utf8_lossy(file).contains(secret);
    assert_eq!(kept.iter().filter(leaks).count(), 0);
    let missing = row(&bed)["reason"].clone();
    assert!(
        missing
            .as_str()
            .is_some_and(|why| why.contains("REMOTE_TOKEN")),
        "{missing}"
    );
}

#[test]
fn refusals_are_explained_and_do_not_trigger_the_legacy_transport() {
    for (status, words) in [
        (
            "401",
            "the server rejected the configured credentials with 401 Unauthorized",
        ),
        (
            "403",
            "the server rejected the configured credentials with 403 Forbidden",
        ),
        ("500", "the server answered 500 Internal Server Error"),
    ] {
        let remote = Remote::start(&["--status", status]);
        let bed = remote.bed("");
        let row = row(&bed);
        assert_eq!(row["status"], "stopped");
        let reason = row["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(words), "{row}");
        assert!(remote.events("POST /mcp") > 0);
        assert_eq!(remote.events("GET /mcp"), 0, "no older transport is tried");
    }
}

#[test]
fn redirects_of_servers_are_not_followed() {
    let elsewhere = Remote::start(&[]);
    let to = elsewhere.upstream.url().to_owned();
    let remote = Remote::start(&["--status", "307", "--location", &to]);
    let bed = remote.bed(", headers: {Authorization: 'Bearer secret'}");
    let reason = row(&bed)["reason"].clone();
    let words = format!("the server redirects to `{to}` (307 Temporary Redirect)");
    assert!(
        reason.as_str().is_some_and(|why| why.contains(&words)),
        "{reason}"
    );
    assert_eq!(elsewhere.events("connected"), 0);
}

#[test]
fn a_legacy_sse_server_is_detected_by_its_refusal() {
    let remote = Remote::start(&["--legacy-sse"]);
    let bed = remote.bed("");
    let mut host = bed.stdio_ready();
    assert_eq!(call_text(&mut host, READ.0, READ.1), "read k");
    assert_eq!(remote.events("GET /sse"), 1);
    assert_eq!(remote.received("notifications/initialized").len(), 1);
    assert_eq!(row(&bed)["type"], "http");
}

#[test]
fn servers_without_sessions_or_get_streams_work() {
    let remote = Remote::start(&["--stateless", "--no-get"]);
    let bed = remote.bed("");
    let mut host = bed.stdio_ready();
    for _ in 0..3 {
        assert_eq!(call_text(&mut host, READ.0, READ.1), "read k");
    }
    assert_eq!(remote.received("initialize").len(), 1);
    host.close(DEADLINE).expect("it ends");
    assert_eq!(remote.events("DELETE /mcp"), 0, "there is nothing to end");
}

#[test]
fn a_system_without_certificates_can_still_use_plain_http() {
    let remote = Remote::start(&[]);
    let secure = remote.upstream.url().replace("http://", "https://");
    let bed = remote.bed_with("", &format!("  y: {{url: '{secure}'}}\n"));
    let mut command = bed.command(["servers", "list", "--json"]);
    command.env("SSL_CERT_FILE", "/dev/null");
    command.env("SSL_CERT_DIR", bed.path("nothing"));
    let output = command.output().expect("it runs").stdout;
    let rows = parsed(&String::from_utf8_lossy(&output));
    assert_eq!(rows[0]["status"], "ok", "{rows}");
    let why = rows[1]["reason"].as_str().unwrap_or_default();
    assert!(
        why.contains("could not load the system's certificates"),
        "{rows}"
    );
}

#[test]
fn upstream_sessions_are_ended_with_the_gateway() {
    let remote = Remote::start(&[]);
    let bed = remote.bed("");
    let mut host = bed.stdio_ready();
    tools(&mut host);
    host.close(DEADLINE).expect("it ends");
    assert_eq!(remote.events("DELETE /mcp"), 1);
}

#[test]
fn unreachable_servers_do_not_block_and_connect_when_they_appear() {
    let mut remote = Remote::start(&[]);
    remote.upstream.stop();
    let bed = remote.bed_with(
        "",
        "  dead: {command: sh, args: [-c, 'test -e @dir@/go && exec @counter@; exit 1']}\n  good: {command: '@counter@'}\n",
    );
    let mut host = bed.stdio();
    let started = Instant::now();
    host.initialize(VERSION)
        .expect("initialize does not wait for servers");
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(call_text(&mut host, "good__read_thing", "{}"), "read ");
    for (name, words) in [("x", "could not connect"), ("dead", "disconnected")] {
        let warned = host.wait_stderr(DEADLINE, |line| {
            line.contains("\"WARN\"") && line.contains(&format!("\"server\":\"{name}\""))
        });
        let warned = warned.expect("a warning names it");
        assert!(warned.contains(words), "{warned}");
    }
    remote.start_again_with(&[]);
    fs::write(bed.path("go"), "").expect("the folder is ours");
    for _ in 0..2 {
        host.recv_where(|frame| is_notification(frame, "notifications/tools/list_changed"))
            .expect("each is announced");
    }
    let both = ["x__read_thing", "dead__read_thing"];
    assert!(wait_until(DEADLINE, || {
        let listed = tools(&mut host);
        both.iter()
            .all(|name| listed.iter().any(|tool| tool == name))
    }));
    for name in both {
        assert_eq!(call_text(&mut host, name, r#"{"key":"k"}"#), "read k");
    }
}
