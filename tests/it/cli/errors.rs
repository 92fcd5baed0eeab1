//! What a user reads when something is wrong: exit code, `error:`, `help:`. `UPDATE_EXPECT=1` writes `errors.txt` anew.

use std::fs;

use expect_test::expect_file;

use crate::setup::Bed;
use crate::shell::{named, normalised, run};

const SERVERS: &str = "servers: {x: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}";

/// Commands that are wrong in themselves, beside a configuration that is right.
const COMMANDS: [&[&str]; 34] = [
    &["frobnicate"],
    &["serve", "--liste", "127.0.0.1:0"],
    &["serve", "--listen", "everywhere"],
    &["serve", "--view", "picture"],
    &["serve", "--server", "nameless"],
    &["--config", "missing.yaml", "config", "check"],
    &["--data-dir", "callgate.yaml", "activity", "list"],
    &["call"],
    &["call", "x:read_thing", "{key: 1"],
    &["call", "x:read_thing", "[1]"],
    &["call", "x:reed_thing"],
    &["call", "y:read_thing"],
    &["call", "tool-delete", "x:read_thing"],
    &["tools", "show", "x:reed_thing"],
    &["servers", "logs", "y"],
    &["run", "import os"],
    &["run", "def f(:"],
    &["run", "--resume", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
    &["activity", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
    &["activity", "list", "--since", "yesterday"],
    &["activity", "list", "--status", "fine"],
    &["approvals", "show", "ap_0000"],
    &["approvals", "approve", "ap_0000"],
    &[
        "token",
        "create",
        "--name",
        "ci",
        "--role",
        "agent",
        "--servers",
        "y",
    ],
    &[
        "token",
        "create",
        "--name",
        "ci",
        "--role",
        "agent",
        "--expires",
        "soon",
    ],
    &["token", "revoke", "ci"],
    &["lock", "accept", "x:reed_thing"],
    &["policy", "explain", "x:read_thing", "{"],
    &["policy", "replay", "--since", "lately"],
    &["trust", "missing.yaml"],
    &["explain", "NO.SUCH.CODE"],
    &["agent", "copilot", "--prompt", "x"],
    &["agent", "claude"],
    &["workflow", "status", "no-such-run"],
];

/// Files that are wrong, and the command that reads them as `given.yaml`.
const FILES: [(&str, &[&str]); 15] = [
    ("server: {}", CONFIG),
    ("servers: {x: {}}", CONFIG),
    ("servers: {x: {command: a, url: http://b}}", CONFIG),
    ("servers: [", CONFIG),
    ("approvals: {wait: soon}", CONFIG),
    ("policy: missing.yaml", CONFIG),
    ("view: picture", CONFIG),
    ("guard: {url: 'ftp://guard'}", CONFIG),
    ("telemetry: {otlp: 'grpc://collector'}", CONFIG),
    ("builtins: {enabled: true, roots: [missing]}", CONFIG),
    (
        "version: \"1\"\nrules: [{scope: mcp_tool, alow: [{pattern: '*:*'}]}]",
        POLICY,
    ),
    (
        "version: \"1\"\nrules: [{scope: mcp_tool, deny: [{pattern: 'x:*', when: 'args.size( > 1'}]}]",
        POLICY,
    ),
    (
        "version: \"1\"\nrules: [{scope: mcp_tool, allow: [{pattern: ''}]}]",
        POLICY,
    ),
    ("name: w\nstates: {initial: a}", WORKFLOW),
    ("name: w\nstates: {initial: a, a: {type: jump}}", WORKFLOW),
];

const CONFIG: &[&str] = &["--config", "given.yaml", "config", "check"];
const POLICY: &[&str] = &["policy", "check", "given.yaml"];
const WORKFLOW: &[&str] = &["validate", "given.yaml"];

#[test]
fn mistakes_are_answered_with_a_reason_and_help() {
    let bed = Bed::new(SERVERS);
    let mut pages = String::new();
    let commands = COMMANDS.iter().map(|command| ("", *command));
    for (given, command) in commands.chain(FILES) {
        if !given.is_empty() {
            fs::write(bed.path("given.yaml"), given).expect("the folder is there");
            pages += &format!("=== given.yaml\n{given}\n");
        }
        let ran = run(&mut named(&bed, command));
        assert!(matches!(ran.code, Some(1..=4)), "{command:?}: {ran:?}");
        let code = ran.code.unwrap_or_default();
        let text = normalised(&bed, ran.stderr.trim_end());
        pages += &format!(
            "=== callgate {}: exit {code}\n{text}\n\n",
            command.join(" ")
        );
    }
    expect_file!["errors.txt"].assert_eq(&pages);
}
