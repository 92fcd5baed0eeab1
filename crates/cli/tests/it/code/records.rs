//! What the record says of runs, whatever dies in the middle of one.

use callgate_testkit::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;

use super::{bed, host, ran, result_of, said, workers_of};
use crate::evidence::{assert_sound, records, signal};

fn of_tool<'a>(records: &'a [Value], tool: &str) -> Vec<&'a Value> {
    records
        .iter()
        .filter(|record| record["tool"] == tool)
        .collect()
}

#[test]
fn inner_calls_are_on_record_below_their_run() {
    let bed = bed("policy: allow-all\n");
    let served = bed.serve();
    let mut host = host(&served);
    ran(&mut host, "wix.list_sites()\nmy_notes.plain()");
    drop((host, served));
    let records = records(&bed);
    let run = of_tool(&records, "run");
    assert_eq!(run.len(), 1, "{records:?}");
    assert_eq!(run[0]["status"], "success");
    for tool in ["ListSites", "plain"] {
        let call = of_tool(&records, tool);
        assert_eq!(call.len(), 1);
        assert_eq!(call[0]["parent_id"], run[0]["id"], "{call:?}");
        assert_eq!(call[0]["status"], "success");
    }
    assert_sound(&bed);
}

#[test]
fn a_killed_worker_is_an_error_and_replaced() {
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
    assert!(said(&result).contains("ended from outside"), "{result}");
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
fn kill_9_in_the_middle_of_a_run_leaves_true_records() {
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
    served.process.kill().unwrap();
    asking.join().unwrap();
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
fn a_gateway_without_scripts_has_no_worker() {
    let bed = bed("policy: allow-all\n");
    let served = bed.serve();
    let mut direct = served.host_ready();
    crate::talk::call(&mut direct, "wix__ListSites", "{}");
    assert_eq!(workers_of(&served).len(), 0);
    let mut scripts = host(&served);
    ran(&mut scripts, "1");
    assert!(!workers_of(&served).is_empty());
}
