//! Bash: the output of a command, and that none of its processes outlives its call or its gateway.

use std::time::{Duration, Instant};

use callgate_testkit::{processes_with, wait_until};
use rustix::process::Signal;
use serde_json::json;

use super::{BUILTINS, Fixture};
use crate::evidence::{records, signal};
use crate::setup::Bed;

#[test]
fn bash_works_as_documented() {
    let mut fixture = Fixture::new();
    fixture.file("sub/x", "");
    fixture.table(&[
        (
            "Bash",
            json!({"command": "echo out; echo err >&2"}),
            false,
            "exit code: 0\nstdout:\nout\n\nstderr:\nerr\n",
        ),
        (
            "Bash",
            json!({"command": "echo out; echo err >&2; exit 3"}),
            true,
            "exit code: 3\nstdout:\nout\n\nstderr:\nerr\n",
        ),
        (
            "Bash",
            json!({"command": "kill -9 $$"}),
            true,
            "exit code: 137",
        ),
        (
            "Bash",
            json!({"command": "cat; echo done"}),
            false,
            "stdout:\ndone",
        ),
        (
            "Bash",
            json!({"command": "ls", "cwd": "sub"}),
            false,
            "stdout:\nx\n",
        ),
        (
            "Bash",
            json!({"command": "echo head; sleep 600", "timeout_seconds": 1}),
            true,
            "exit code: none (killed after 1 s)\nstdout:\nhead\n",
        ),
        (
            "Bash",
            json!({"command": "exec 1>&- 2>&-; true"}),
            false,
            "exit code: 0",
        ),
        ("Bash", json!({}), true, "`command` is missing"),
        (
            "Bash",
            json!({"command": ["ls"]}),
            true,
            "`command` must be a string",
        ),
        (
            "Bash",
            json!({"command": "true", "timeout_seconds": 0}),
            true,
            "between 1 and 86400",
        ),
        (
            "Bash",
            json!({"command": "true", "timeout_seconds": -5}),
            true,
            "`timeout_seconds` must be a non-negative integer",
        ),
        (
            "Bash",
            json!({"command": "true", "cwd": "none"}),
            true,
            "No such file",
        ),
        (
            "Bash",
            json!({"command": "true", "cwd": "sub/x"}),
            true,
            "is not a folder",
        ),
        (
            "Bash",
            json!({"command": "a\u{0}b"}),
            true,
            "contains a NUL",
        ),
    ]);
}

#[test]
fn long_command_output_keeps_head_and_tail() {
    let mut fixture = Fixture::new();
    let command = "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last";
    let (failed, text) = fixture.call("Bash", &json!({"command": command}));
    assert!(!failed);
    assert!(
        text.contains("stdout:\nfirst\n") && text.contains("\nlast\n"),
        "head and tail"
    );
    assert!(text.contains("bytes omitted"), "it says so");
    assert!(text.len() < 120 * 1024, "{}", text.len());
}

#[test]
fn commands_do_not_inherit_keys() {
    let bed = Bed::new(BUILTINS);
    std::fs::create_dir(bed.path("desk")).expect("the folder is fresh");
    let mut command = bed.command(["stdio"]);
    command
        .env("OPENAI_API_KEY", "sk-keys")
        .env("CALLGATE_TOKEN", "sk-token");
    let mut host = callgate_testkit::StdioHost::connect(&mut command, crate::setup::VERSION)
        .expect("it starts");
    let (_, text) = super::said(&mut host, "Bash", &json!({"command": "env"}));
    assert!(text.contains("PATH=") && !text.contains("sk-"), "{text}");
}

#[test]
fn processes_left_behind_by_a_command_end_with_its_call() {
    let mut fixture = Fixture::new();
    let mark = fixture.bed.path("left-behind").display().to_string();
    let command = format!(
        "MARK={mark} setsid sleep 600 & MARK={mark} nohup sleep 600 >/dev/null 2>&1 & echo started"
    );
    let start = Instant::now();
    let (failed, text) = fixture.call("Bash", &json!({"command": command}));
    assert!(!failed && text.contains("started"), "{text}");
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "it did not wait for them"
    );
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[test]
fn a_timeout_ends_all_processes_of_a_command() {
    let mut fixture = Fixture::new();
    let mark = fixture.bed.path("too-slow").display().to_string();
    let command = format!("export MARK={mark}; trap '' TERM; (sleep 600; true) & sleep 600");
    let (failed, text) = fixture.call("Bash", &json!({"command": command, "timeout_seconds": 1}));
    assert!(failed && text.contains("killed after 1 s"), "{text}");
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[test]
fn a_running_command_ends_however_its_gateway_ends() {
    for how in [
        None,
        Some(Signal::TERM),
        Some(Signal::INT),
        Some(Signal::KILL),
    ] {
        let mut fixture = Fixture::new();
        let mark = fixture.bed.path("running").display().to_string();
        let command = format!("export MARK={mark}; sleep 600; true");
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"name":"builtin__Bash","arguments":{}}}}}"#,
            json!({"command": command})
        );
        fixture.host.send(&line).expect("it reads");
        let patience = Duration::from_secs(20);
        assert!(
            wait_until(patience, || processes_with(&mark).len() >= 2),
            "it runs"
        );
        match how {
            None => fixture.host.close_stdin(),
            Some(how) => signal(fixture.host.pid(), how),
        }
        let gone = wait_until(Duration::from_secs(8), || processes_with(&mark).is_empty());
        assert!(gone, "after {how:?}: {:?}", processes_with(&mark));
        drop(fixture.host);
        let told = records(&fixture.bed);
        assert_eq!(told[0]["status"], "unknown", "after {how:?}");
    }
}

#[test]
fn a_cancelled_command_is_ended() {
    let mut fixture = Fixture::new();
    let mark = fixture.bed.path("cancelled").display().to_string();
    let arguments = json!({"command": format!("export MARK={mark}; sleep 600; true")});
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"name":"builtin__Bash","arguments":{arguments}}}}}"#
    );
    fixture.host.send(&line).expect("it reads");
    let patience = Duration::from_secs(20);
    assert!(
        wait_until(patience, || processes_with(&mark).len() >= 2),
        "it runs"
    );
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#;
    fixture.host.send(cancel).expect("it reads");
    assert!(wait_until(Duration::from_secs(8), || processes_with(&mark).is_empty()));
}

#[test]
fn each_call_logs_one_line_without_arguments() {
    let mut fixture = Fixture::new();
    fixture.call("Bash", &json!({"command": "echo hush-hush"}));
    let line = fixture
        .host
        .wait_stderr(Duration::from_secs(20), |line| line.contains("tool call"));
    let line = line.expect("a line");
    for part in ["Bash", "builtin", "duration"] {
        assert!(line.contains(part), "{line}");
    }
    let all = fixture.host.stderr().join("\n");
    assert!(
        !all.contains("hush-hush") && !all.contains("proxy.tool.call"),
        "{all}"
    );
}
