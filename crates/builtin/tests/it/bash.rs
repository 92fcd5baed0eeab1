//! Bash: what is answered of a command, what it is started with, and that nothing of it outlives its call.

use std::collections::BTreeSet;

use callgate_call::Failure;
use callgate_record::Effect;
use callgate_testkit::{processes_with, until};
use serde_json::json;

use crate::fixture::{DEADLINE, Fixture, exchange};

async fn assert_no_process_left(fixture: &Fixture) {
    until("no process of the command is left", || {
        processes_with(&fixture.mark()).is_empty()
    })
    .await;
}

#[tokio::test]
async fn an_answer_holds_exit_code_stdout_and_stderr() {
    let fixture = Fixture::new();
    let said = fixture
        .ok("Bash", json!({"command": "echo out; echo err >&2"}))
        .await;
    assert_eq!(said, "exit code: 0\nstdout:\nout\n\nstderr:\nerr\n");
    for (command, expected) in [
        (
            "echo out; exit 3",
            "exit code: 3\nstdout:\nout\n\nstderr:\n",
        ),
        ("kill -9 $$", "exit code: 137\nstdout:\n\nstderr:\n"),
        ("kill -TERM $$", "exit code: 143\nstdout:\n\nstderr:\n"),
    ] {
        assert_eq!(
            fixture.error("Bash", json!({"command": command})).await,
            expected
        );
    }
    let said = fixture
        .error("Bash", json!({"command": "no-such-command-at-all"}))
        .await;
    assert!(said.starts_with("exit code: 127\n"), "{said}");
    let said = fixture.error("Bash", json!({"command": "if ("})).await;
    assert!(said.contains("syntax error"), "{said}");
}

#[tokio::test]
async fn commands_run_in_bash_with_empty_stdin() {
    let fixture = Fixture::new();
    let command = "cat; a=(1 2 3); echo ${#a[@]}; printf 'caf\\xe9'";
    let said = fixture.ok("Bash", json!({"command": command})).await;
    assert_eq!(said, "exit code: 0\nstdout:\n3\ncaf\u{fffd}\nstderr:\n");
}

#[tokio::test]
async fn commands_run_in_their_cwd() {
    let fixture = Fixture::new();
    fixture.file("sub/file", "");
    let said = fixture.ok("Bash", json!({"command": "pwd -P"})).await;
    assert!(
        said.contains(&format!("stdout:\n{}\n", fixture.root().display())),
        "{said}"
    );
    let said = fixture
        .ok("Bash", json!({"command": "ls", "cwd": "sub"}))
        .await;
    assert!(said.contains("stdout:\nfile\n"), "{said}");
    for (cwd, expected) in [
        ("sub/file", "`sub/file` is not a folder"),
        ("none", "`none`: No such file or directory (os error 2)"),
    ] {
        let arguments = json!({"command": "touch made", "cwd": cwd});
        assert_eq!(fixture.error("Bash", arguments).await, expected);
    }
    assert_eq!(fixture.names("."), ["sub"]);
}

/// The test itself has many more variables, `CARGO_MANIFEST_DIR` among them.
#[tokio::test]
async fn commands_get_only_the_configured_environment() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let fixture = Fixture::new().with_env(&[("PATH", "/usr/bin:/bin"), ("GREETING", "a b=c")]);
    let said = fixture.ok("Bash", json!({"command": "env"})).await;
    let stdout = said.strip_prefix("exit code: 0\nstdout:\n").unwrap();
    let stdout = stdout.strip_suffix("\nstderr:\n").unwrap();
    let names: BTreeSet<&str> = stdout
        .lines()
        .map(|line| line.split('=').next().unwrap())
        .collect();
    // Bash itself sets the last three.
    assert_eq!(
        names,
        BTreeSet::from(["GREETING", "PATH", "PWD", "SHLVL", "_"])
    );
    assert!(
        stdout.lines().any(|line| line == "GREETING=a b=c"),
        "{stdout}"
    );
}

#[tokio::test]
async fn a_missing_bash_is_reported() {
    let fixture = Fixture::new().with_env(&[("PATH", "/nonexistent")]);
    let said = fixture.error("Bash", json!({"command": "true"})).await;
    assert!(said.starts_with("exit code: "), "{said}");
    assert!(said.contains("bash"), "{said}");
}

#[tokio::test]
async fn long_bash_output_keeps_head_and_tail() {
    const KEPT: usize = 48 * 1024;
    let fixture = Fixture::new();
    let middle = 1_000_000;
    let command = format!(
        "printf first; head -c {middle} /dev/zero | tr '\\0' x; printf last; head -c {} /dev/zero | tr '\\0' y >&2",
        2 * KEPT
    );
    let said = fixture.ok("Bash", json!({"command": command})).await;
    let left_out = middle + "firstlast".len() - 2 * KEPT;
    let head = format!("first{}", "x".repeat(KEPT - "first".len()));
    let tail = format!("{}last", "x".repeat(KEPT - "last".len()));
    let stderr = "y".repeat(2 * KEPT);
    let expected = format!(
        "exit code: 0\nstdout:\n{head}\n[… {left_out} bytes omitted …]\n{tail}\nstderr:\n{stderr}"
    );
    assert!(
        said == expected,
        "{} bytes, not {}",
        said.len(),
        expected.len()
    );
}

#[tokio::test]
async fn a_command_is_killed_at_its_timeout_and_its_output_kept() {
    let fixture = Fixture::new();
    let command = "echo head; sleep 600 & sleep 600";
    let said = fixture
        .error("Bash", json!({"command": command, "timeout_seconds": 1}))
        .await;
    assert_eq!(
        said,
        "exit code: none (killed after 1 s)\nstdout:\nhead\n\nstderr:\n"
    );
    assert_no_process_left(&fixture).await;
}

#[tokio::test]
async fn background_processes_end_with_their_command() {
    let fixture = Fixture::new();
    let command = "nohup sleep 600 >/dev/null 2>&1 & setsid sleep 600 & trap '' TERM; echo done";
    let said = fixture.ok("Bash", json!({"command": command})).await;
    assert!(said.contains("stdout:\ndone\n"), "{said}");
    assert_no_process_left(&fixture).await;
}

#[tokio::test]
async fn a_cancelled_command_leaves_no_process() {
    let fixture = Fixture::new();
    let exchange = exchange();
    let cancelled = exchange.cancelled.clone();
    let command = "trap '' TERM; setsid sleep 600 & sleep 600 & echo x > started; wait; sleep 600";
    let params = json!({"arguments": {"command": command}});
    let started = fixture.root().join("started");
    let forwarding = fixture.forward("Bash", &params, exchange);
    let (ended, ()) = tokio::join!(tokio::time::timeout(DEADLINE, forwarding), async {
        until("the command runs", || started.exists()).await;
        assert!(!processes_with(&fixture.mark()).is_empty());
        cancelled.cancel();
    });
    let effect = Effect::Unknown;
    assert_eq!(ended.unwrap().unwrap_err(), Failure::Cancelled { effect });
    assert_no_process_left(&fixture).await;
}

/// Each end of a pipe waits for the other, so both commands must run at the same time.
#[tokio::test]
async fn commands_run_concurrently() {
    let fixture = Fixture::new();
    fixture.pipe("pipe");
    let (wrote, read) = tokio::join!(
        fixture.ok("Bash", json!({"command": "echo hello > pipe"})),
        fixture.ok("Bash", json!({"command": "cat pipe"})),
    );
    assert_eq!(wrote, "exit code: 0\nstdout:\n\nstderr:\n");
    assert_eq!(read, "exit code: 0\nstdout:\nhello\n\nstderr:\n");
}

#[tokio::test]
async fn timeouts_out_of_range_are_refused() {
    let fixture = Fixture::new();
    for seconds in [0, 86_401] {
        let arguments = json!({"command": "touch made", "timeout_seconds": seconds});
        let said = fixture.error("Bash", arguments).await;
        assert_eq!(said, "`timeout_seconds` must be between 1 and 86400");
    }
    let said = fixture
        .error("Bash", json!({"command": "touch made\u{0}"}))
        .await;
    assert_eq!(said, "the command contains a NUL");
    assert_eq!(fixture.names("."), [""; 0]);
    let longest = json!({"command": "true", "timeout_seconds": 86_400});
    fixture.ok("Bash", longest).await;
}
