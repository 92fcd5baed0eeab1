//! Records of runs, even when a process dies during one.

use callgate_testkit::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;

use super::{bed, host, ran, result_of, said, workers_of};
use crate::evidence::{all_records, assert_sound, run as command, signal, stdout};
use crate::setup::Bed;

/// Every call and every script on record, oldest first.
fn records(bed: &Bed) -> Vec<Value> {
    let all = all_records(&stdout(&command(bed, &["activity", "export"])));
    all.into_iter()
        .filter(|record| record["type"] == "tool_call" || record["type"] == "run")
        .collect()
}

fn of_tool<'a>(records: &'a [Value], tool: &str) -> Vec<&'a Value> {
    records
        .iter()
        .filter(|record| record["tool"] == tool)
        .collect()
}

#[test]
fn inner_calls_are_recorded_below_their_run() {
    let bed = bed("policy: allow-all\n");
    let served = bed.serve();
    let mut host = host(&served);
    ran(&mut host, "wix.list_sites()\nmy_notes.plain()");
    drop((host, served));
    let records = records(&bed);
    let run = of_tool(&records, "run");
    assert_eq!(run.len(), 1, "{records:?}");
    assert_eq!(run[0]["status"], "success");
    assert_eq!(
        (&run[0]["type"], &run[0]["source"]),
        (&json!("run"), &json!("mcp"))
    );
    for tool in ["ListSites", "plain"] {
        let call = of_tool(&records, tool);
        assert_eq!(call.len(), 1);
        assert_eq!(call[0]["parent_id"], run[0]["id"], "{call:?}");
        assert_eq!(call[0]["status"], "success");
        assert_eq!(call[0]["type"], "tool_call");
        assert_eq!(call[0]["source"], "code");
    }
    assert_sound(&bed);
}

#[test]
fn a_killed_worker_fails_its_run_and_is_replaced() {
    let bed = bed("policy: allow-all\n");
    let served = bed.serve();
    let mut host = host(&served);
    ran(&mut host, "1");
    let url = format!("{}/code", served.url);
    let token = served.token.clone();
    let asking = std::thread::spawn(move || {
        let host = callgate_testkit::HttpHost::new(&url).unwrap();
        let mut host = host.header("Authorization", &format!("Bearer {token}"));
        host.initialize(crate::setup::VERSION).unwrap();
        result_of(&mut host, &json!({"command": "wix.slow()\nwix.slow()"}))
    });
    let begun = wait_until(Duration::from_secs(20), || {
        bed.read("ledger").contains("slow")
    });
    assert!(begun, "the call was made");
    for worker in workers_of(&served) {
        signal(worker, Signal::KILL);
    }
    let result = asking.join().unwrap();
    assert_eq!(result["isError"], true, "{result}");
    assert!(said(&result).contains("killed from outside"), "{result}");
    assert_eq!(ran(&mut host, "2"), "2");
    drop((host, served));
    let records = records(&bed);
    let failed = of_tool(&records, "run");
    assert!(
        failed.iter().any(|run| run["status"] == "error"),
        "{failed:?}"
    );
    assert_sound(&bed);
}

#[test]
fn kill_9_during_a_run_leaves_correct_records() {
    let bed = bed("policy: allow-all\n");
    let mut served = bed.serve();
    let mut host = host(&served);
    ran(&mut host, "1");
    let url = format!("{}/code", served.url);
    let token = served.token.clone();
    let asking = std::thread::spawn(move || {
        let host = callgate_testkit::HttpHost::new(&url).unwrap();
        let mut host = host.header("Authorization", &format!("Bearer {token}"));
        host.initialize(crate::setup::VERSION).unwrap();
        let line =
            crate::talk::call_line("9", "run", r#"{"command":"wix.list_sites()\nwix.slow()"}"#);
        callgate_testkit::Host::exchange(&mut host, &line, &mut |_| None).is_err()
    });
    let begun = wait_until(Duration::from_secs(20), || {
        bed.read("ledger").contains("slow")
    });
    assert!(begun, "the call was made");
    let workers = workers_of(&served);
    assert!(!workers.is_empty());
    served.process.kill().unwrap();
    asking.join().unwrap();
    let ended = wait_until(Duration::from_secs(20), || are_gone(&workers));
    assert!(ended, "no worker is left: {workers:?}");
    let records = records(&bed);
    let status = |tool: &str| {
        of_tool(&records, tool)
            .last()
            .map(|record| record["status"].clone())
    };
    assert_eq!(status("ListSites"), Some(json!("success")), "{records:?}");
    assert_eq!(status("slow"), Some(json!("unknown")), "{records:?}");
    assert_eq!(status("run"), Some(json!("unknown")), "{records:?}");
    assert_sound(&bed);
}

#[test]
fn a_gateway_without_scripts_starts_no_worker() {
    let bed = bed("policy: allow-all\n");
    let served = bed.serve();
    let mut direct = served.host_ready();
    crate::talk::call(&mut direct, "wix__ListSites", "{}");
    assert_eq!(workers_of(&served).len(), 0);
    let mut scripts = host(&served);
    ran(&mut scripts, "1");
    let workers = workers_of(&served);
    assert!(!workers.is_empty());
    signal(served.process.pid(), Signal::TERM);
    let ended = wait_until(Duration::from_secs(20), || are_gone(&workers));
    assert!(ended, "a gateway that stops leaves no worker: {workers:?}");
}

fn are_gone(pids: &[u32]) -> bool {
    let is_gone = |pid: &u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    pids.iter().all(is_gone)
}
