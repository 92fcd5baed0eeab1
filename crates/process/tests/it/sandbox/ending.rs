//! Nothing of a sandbox outlives its process, its warden or the gateway.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use callgate_process::sandbox::{Mode, Namespaces, Sandbox};
use callgate_testkit::until;
use rustix::process::{Pid, Signal, kill_process};

use super::KINDS;
use crate::given::{Mark, SHORT, spec, started_spec, warden_program};

const ESCAPES: &str =
    "setsid sleep MARK & (sleep MARK &) ; (setsid sh -c 'sleep MARK & sleep MARK' &) ;";

fn sandbox(namespaces: Namespaces) -> Sandbox {
    Sandbox {
        namespaces,
        ..Sandbox::new(Mode::Required)
    }
}

#[tokio::test]
async fn closing_a_sandboxed_process_leaves_nothing() {
    for kind in KINDS {
        let mark = Mark::new();
        let script = mark.script(&format!(
            "trap '' TERM; {ESCAPES} echo ready; while :; do sleep MARK; done"
        ));
        let mut given = spec("sh", &["-c", &script]);
        given.sandbox = Some(sandbox(kind));
        let process = started_spec(&given).await;
        until("the escapes run", || mark.sleepers() == 5).await;
        process.close(SHORT).await;
        mark.assert_none_alive();
    }
}

#[tokio::test]
async fn nothing_of_a_sandbox_survives_a_killed_gateway() {
    for kind in KINDS {
        let mark = Mark::new();
        let mut gateway = Command::new(warden_program())
            .args([
                "gateway",
                "sh",
                "-c",
                &mark.script(&format!("trap '' TERM; {ESCAPES} sleep MARK")),
            ])
            .env(
                "GATEWAY_SANDBOX",
                serde_json::to_string(&sandbox(kind)).unwrap(),
            )
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        until("the escapes run", || mark.sleepers() == 5).await;
        kill_process(Pid::from_child(&gateway), Signal::KILL).unwrap();
        until("everything is gone", || mark.alive().is_empty()).await;
        gateway.wait().unwrap();
    }
}

#[tokio::test]
async fn nothing_in_namespaces_survives_a_killed_warden() {
    let mark = Mark::new();
    let script = mark.script(&format!("trap '' TERM; {ESCAPES} echo ready; sleep MARK"));
    let mut given = spec("sh", &["-c", &script]);
    given.sandbox = Some(sandbox(Namespaces::WhereAllowed));
    let process = started_spec(&given).await;
    until("the escapes run", || mark.sleepers() == 5).await;
    let warden = Pid::from_raw(process.warden_pid().unwrap().cast_signed()).unwrap();
    kill_process(warden, Signal::KILL).unwrap();
    until("everything is gone", || mark.alive().is_empty()).await;
}

#[tokio::test]
async fn the_private_folder_of_a_sandbox_is_removed() {
    let mut given = spec("sh", &["-c", "echo x > $TMPDIR/file; echo $TMPDIR"]);
    given.sandbox = Some(sandbox(Namespaces::Off));
    let outcome = super::run(&given).await;
    let folder = std::path::PathBuf::from(outcome.stdout.trim());
    assert!(folder.is_absolute(), "{outcome:?}");
    assert!(!folder.exists());
}
