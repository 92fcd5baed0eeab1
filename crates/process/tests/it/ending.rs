//! Nothing that a server starts outlives it, its `Process`, or the gateway. Every test marks its processes with a number no
//! other process carries and looks for that number in `/proc` afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use callgate_process::{CloseTimes, Ending};
use callgate_testkit::until;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::given::{
    DEADLINE, Mark, SHORT, cmdlines, spawn, spec, started, started_spec, wait, warden_program,
};

/// Three survivors-to-be: in a session of its own, forked twice, and both at once.
const ESCAPES: &str =
    "setsid sleep MARK & (sleep MARK &) ; (setsid sh -c 'sleep MARK & sleep MARK' &) ;";

#[tokio::test]
async fn leftover_processes_are_gone_before_the_exit_is_reported() {
    let mark = Mark::new();
    let mut process =
        started(&mark.script(&format!("{ESCAPES} echo ready; read gone; exit 5"))).await;
    until("the escapes run", || mark.sleepers() == 4).await;
    drop(process.take_stdin());
    assert_eq!(wait(&mut process).await, Ending::Exited { code: 5 });
    mark.assert_none_alive();
}

#[tokio::test]
async fn a_server_ignoring_eof_gets_sigterm_with_its_descendants() {
    let mark = Mark::new();
    let script = "trap 'echo bye >&2; exit 3' TERM; echo ready; while :; do sleep MARK; done";
    let process = started(&mark.script(&format!("{ESCAPES} {script}"))).await;
    let stderr = process.stderr().clone();
    let times = CloseTimes {
        after_eof: Duration::from_millis(50),
        after_term: DEADLINE,
    };
    assert_eq!(process.close(times).await, Ending::Exited { code: 3 });
    assert_eq!(stderr.last_line().as_deref(), Some("bye"));
    mark.assert_none_alive();
}

#[tokio::test]
async fn a_server_ignoring_sigterm_is_killed_with_its_descendants() {
    let mark = Mark::new();
    let script = mark.script(&format!(
        "trap '' TERM; {ESCAPES} echo ready; while :; do sleep MARK; done"
    ));
    let process = started(&script).await;
    assert_eq!(process.close(SHORT).await, Ending::Exited { code: 137 });
    mark.assert_none_alive();
}

#[tokio::test]
async fn a_stopped_warden_leaves_no_process() {
    let mark = Mark::new();
    let process = started(&mark.script(&format!("{ESCAPES} echo ready; sleep MARK"))).await;
    let warden = Pid::from_raw(process.warden_pid().unwrap().cast_signed()).unwrap();
    kill_process(warden, Signal::STOP).unwrap();
    assert_eq!(
        process.close(SHORT).await,
        Ending::WardenKilled { signal: 9 }
    );
    mark.assert_none_alive();
}

#[tokio::test]
async fn a_dropped_process_is_ended() {
    let mark = Mark::new();
    let script = mark.script(&format!(
        "trap '' TERM; {ESCAPES} echo ready; while :; do sleep MARK; done"
    ));
    let mut given = spec("sh", &["-c", &script]);
    given
        .env
        .push(("WARDEN_GRACE_MS".to_owned(), "100".to_owned()));
    drop(started_spec(&given).await);
    until("everything is gone", || mark.alive().is_empty()).await;
}

#[tokio::test]
async fn a_process_dropped_at_once_leaves_nothing() {
    let mark = Mark::new();
    for _ in 0..20 {
        drop(spawn(&spec("sleep", &[&mark.0])));
    }
    until("everything is gone", || mark.alive().is_empty()).await;
}

#[tokio::test]
async fn processes_that_keep_forking_and_exiting_are_caught() {
    let mark = Mark::new();
    let folder = tempfile::tempdir().unwrap();
    let relay = folder.path().join("relay");
    fs::write(&relay, "#!/bin/sh\n\"$0\" \"$1\" &\n").unwrap();
    fs::set_permissions(&relay, fs::Permissions::from_mode(0o755)).unwrap();
    let mut process = spawn(&spec(relay.to_str().unwrap(), &[&mark.0]));
    assert_eq!(wait(&mut process).await, Ending::Exited { code: 0 });
    mark.assert_none_alive();
}

#[test]
fn a_warden_without_its_gateway_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("started");
    // This test is its parent, so the parent it is told about cannot be.
    let status = Command::new(warden_program())
        .args(["warden", "1", "--", "touch", trace.to_str().unwrap()])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(125));
    assert!(!trace.exists());
}

/// A gateway of its own, in a process group of its own, to be killed.
fn gateway(script: &str) -> (Child, Pid) {
    let gateway = Command::new(warden_program())
        .args(["gateway", "sh", "-c", script])
        .env(
            "WARDEN_GRACE_MS",
            DEADLINE.as_millis().saturating_mul(10).to_string(),
        )
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&gateway);
    (gateway, pid)
}

#[tokio::test]
async fn nothing_survives_a_killed_gateway() {
    let kill: [fn(Pid) -> rustix::io::Result<()>; 3] = [
        |gateway| kill_process(gateway, Signal::KILL),
        |gateway| kill_process_group(gateway, Signal::KILL),
        |gateway| kill_process(gateway, Signal::TERM),
    ];
    for kill in kill {
        let mark = Mark::new();
        let (mut child, pid) = gateway(&mark.script(&format!(
            "trap '' TERM HUP INT; {ESCAPES} while :; do sleep MARK; done"
        )));
        until("the escapes run", || mark.sleepers() == 5).await;
        kill(pid).unwrap();
        until("everything is gone", || mark.alive().is_empty()).await;
        child.wait().unwrap();
    }
}

#[tokio::test]
async fn killing_the_gateway_while_closing_ends_the_grace_period() {
    let mark = Mark::new();
    let folder = tempfile::tempdir().unwrap();
    let asked = folder.path().join("asked");
    let script = format!(
        "trap 'touch {}' TERM; while :; do sleep MARK; done",
        asked.display()
    );
    let (mut child, pid) = gateway(&mark.script(&script));
    until("the server runs", || mark.sleepers() == 1).await;
    let (warden, _) = cmdlines()
        .into_iter()
        .find(|(_, line)| line.starts_with("cg-warden ") && line.contains(&mark.0))
        .unwrap();
    kill_process(warden, Signal::TERM).unwrap();
    until("the server was asked to end", || asked.exists()).await;
    kill_process(pid, Signal::KILL).unwrap();
    until("everything is gone", || mark.alive().is_empty()).await;
    child.wait().unwrap();
}
