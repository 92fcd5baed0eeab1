//! A server's process while it lives: its pipes, its environment, how it started and how it ended.

use std::fs;
use std::io::ErrorKind::BrokenPipe;
use std::time::{Duration, Instant};

use callgate_process::stderr_tail::{StderrTail, TAIL_BYTES};
use callgate_process::{Ending, Process, ProcessSpec, SpawnError};
use callgate_testkit::until;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

use crate::given::{
    DEADLINE, EOF_ONLY, Mark, SHORT, line, spawn, spec, started, started_spec, wait,
};

#[tokio::test]
async fn stdio_is_passed_through_and_closing_stdin_ends_a_server() {
    let mut process = spawn(&spec("cat", &[]));
    let mut stdin = process.take_stdin().unwrap();
    let mut stdout = BufReader::new(process.take_stdout().unwrap());
    stdin.write_all(b"{\"jsonrpc\":\"2.0\"}\n").await.unwrap();
    assert_eq!(line(&mut stdout).await, "{\"jsonrpc\":\"2.0\"}\n");
    drop(stdin);
    let asked = Instant::now();
    assert_eq!(process.close(EOF_ONLY).await, Ending::Exited { code: 0 });
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn the_warden_does_not_hold_the_servers_pipes() {
    let mark = Mark::new();
    let mut process = spawn(&spec(
        "sh",
        &["-c", &mark.script("exec sleep MARK >&- <&-")],
    ));
    let mut stdin = process.take_stdin().unwrap();
    let mut stdout = process.take_stdout().unwrap();
    let mut buffer = [0; 8];
    let end = tokio::time::timeout(DEADLINE, stdout.read(&mut buffer));
    assert_eq!(end.await.expect("the end of stdout is seen").unwrap(), 0);
    // A pipe takes 64 KiB unread, so only a closed other end can refuse this.
    let flood = tokio::time::timeout(DEADLINE, stdin.write_all(&[b'x'; 1 << 20]));
    assert_eq!(
        flood
            .await
            .expect("the end of stdin is seen")
            .unwrap_err()
            .kind(),
        BrokenPipe
    );
    assert_eq!(mark.sleepers(), 1);
    process.close(SHORT).await;
    mark.assert_none_alive();
}

#[tokio::test]
async fn exit_codes_pass_through_the_warden() {
    let cases = [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 127", 127),
        ("kill -9 $$", 137),
        ("kill -15 $$", 143),
    ];
    for (script, code) in cases {
        let mut process = spawn(&spec("sh", &["-c", script]));
        assert_eq!(
            wait(&mut process).await,
            Ending::Exited { code },
            "{script}"
        );
        assert_eq!(
            wait(&mut process).await,
            Ending::Exited { code },
            "{script}, asked again"
        );
        assert_eq!(process.warden_pid(), None);
    }
}

#[tokio::test]
async fn commands_that_cannot_start_report_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    let cases = [
        (
            "no-such-server",
            "no such command, or the interpreter its first line names is missing",
        ),
        (plain.to_str().unwrap(), "it is not executable"),
    ];
    for (command, reason) in cases {
        let ending = wait(&mut spawn(&spec(command, &["-y"]))).await;
        let message = format!("callgate: cannot start `{command}`: {reason}");
        assert_eq!(ending, Ending::NotStarted { message });
    }
}

#[tokio::test]
async fn spawn_errors_are_distinguished() {
    let no_folder = ProcessSpec {
        cwd: Some("/no/such/folder".into()),
        ..spec("cat", &[])
    };
    let error = Process::spawn(&no_folder, StderrTail::new()).unwrap_err();
    assert!(matches!(error, SpawnError::FolderMissing { .. }), "{error}");
    let no_warden = ProcessSpec {
        warden_program: "/no/such/program".into(),
        ..spec("cat", &[])
    };
    let error = Process::spawn(&no_warden, StderrTail::new()).unwrap_err();
    assert!(
        matches!(error, SpawnError::WardenNotStarted { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_gets_exactly_its_environment_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut given = spec("sh", &["-c", "env -u PWD -u OLDPWD -u _ -u SHLVL; pwd -P"]);
    given.env.push(("TOKEN".to_owned(), "a b".to_owned()));
    given.cwd = Some(folder.path().to_owned());
    let mut process = spawn(&given);
    let mut seen = String::new();
    process
        .take_stdout()
        .unwrap()
        .read_to_string(&mut seen)
        .await
        .unwrap();
    assert_eq!(wait(&mut process).await, Ending::Exited { code: 0 });
    let mut expected: Vec<String> = given
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    expected.push(folder.path().canonicalize().unwrap().display().to_string());
    expected.sort();
    let mut seen: Vec<&str> = seen.lines().collect();
    seen.sort_unstable();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_warden_has_its_own_name_and_holds_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let given = ProcessSpec {
        cwd: Some(folder.path().to_owned()),
        ..spec("sh", &["-c", "echo ready; cat"])
    };
    let process = started_spec(&given).await;
    let warden = format!("/proc/{}", process.warden_pid().unwrap());
    assert_eq!(
        fs::read_to_string(format!("{warden}/comm")).unwrap(),
        "cg-warden\n"
    );
    assert!(
        fs::read(format!("{warden}/cmdline"))
            .unwrap()
            .starts_with(b"cg-warden\0warden\0")
    );
    // The server prints before the warden has let go of its surroundings.
    until("the warden leaves the folder", || {
        fs::read_link(format!("{warden}/cwd")).unwrap() == *"/"
    })
    .await;
    process.close(EOF_ONLY).await;
}

#[tokio::test]
async fn orphans_are_reaped_while_the_server_runs() {
    let script = "i=0; while [ $i -lt 100 ]; do (true &); i=$((i+1)); done; echo ready; cat";
    let process = started(script).await;
    let warden = process.warden_pid().unwrap().to_string();
    let children_of_warden = || {
        fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
            .filter(|stat| {
                stat.rsplit_once(')')
                    .is_some_and(|(_, rest)| rest.split_whitespace().nth(1) == Some(&warden))
            })
            .count()
    };
    until("only the server is left below the warden", || {
        children_of_warden() == 1
    })
    .await;
    assert_eq!(process.close(EOF_ONLY).await, Ending::Exited { code: 0 });
}

#[tokio::test]
async fn a_flood_on_stderr_never_blocks_the_server() {
    let process =
        started("head -c 3000000 /dev/zero | tr '\\0' 'x' | fold -w 100 >&2; echo ready; cat")
            .await;
    let stderr = process.stderr().clone();
    process.close(EOF_ONLY).await;
    let kept = stderr.lines().join("\n").len();
    assert!((TAIL_BYTES / 2..=TAIL_BYTES).contains(&kept), "{kept}");
}
