//! `/healthz` and `/readyz`.

use std::fs;

use callgate_testkit::{HttpHost, wait_until};
use serde_json::Value;

use crate::activity::copy_folder;
use crate::evidence::{COUNTER, ledger};
use crate::setup::{Bed, Served};
use crate::talk::{DEADLINE, call, parsed};

fn ask(served: &Served, path: &str) -> (u16, String) {
    let host = HttpHost::new(&served.url.replace("/mcp", path)).expect("an http URL");
    let reply = host.send("GET", &[], b"").expect("it answers");
    (reply.status, reply.text().expect("it has a body"))
}

fn health(served: &Served, path: &str) -> Value {
    let (status, text) = ask(served, path);
    assert_eq!(status, 200);
    parsed(&text)
}

#[test]
fn health_needs_no_token_and_readiness_waits_for_the_servers() {
    let bed = Bed::new(COUNTER);
    let served = bed.serve();
    call(&mut served.host_ready(), "n__read_thing", "{}");
    for path in ["/healthz", "/v1/health"] {
        let health = health(&served, path);
        assert_eq!(
            (
                &health["status"],
                health["reasons"].as_array().map(Vec::len)
            ),
            (&"ok".into(), Some(0))
        );
    }
    assert_eq!(ask(&served, "/readyz").0, 200);
}

#[test]
fn a_server_in_its_first_connect_delays_readiness_but_not_health() {
    let config = "servers: {n: {command: '@counter@', args: [--slow-start-ms, '600000']}}\n";
    let bed = Bed::new(config);
    let served = bed.serve();
    assert_eq!(ask(&served, "/readyz").0, 503);
    assert_eq!(health(&served, "/healthz")["status"], "ok");
}

#[test]
fn an_unreachable_server_is_a_reason_for_degraded_health() {
    let bed = Bed::new("servers: {n: {command: '@counter@', args: [--crash-on-start]}}\n");
    let served = bed.serve();
    assert!(wait_until(DEADLINE, || ask(&served, "/readyz").0 == 200));
    let health = health(&served, "/healthz");
    assert_eq!(health["status"], "degraded");
    let reason = health["reasons"][0].as_str().expect("a reason is text");
    assert!(reason.starts_with("server n is stopped: "), "{reason}");
}

fn reasons(served: &Served) -> String {
    health(served, "/healthz")["reasons"].to_string()
}

/// Waits until health names it, and then until it is mended.
fn named_until_mended(served: &Served, name: &str, mend: impl FnOnce()) {
    let is_named = || reasons(served).contains(name);
    assert!(wait_until(DEADLINE, is_named), "{}", reasons(served));
    assert_eq!(health(served, "/healthz")["status"], "degraded");
    mend();
    let is_well = || health(served, "/healthz")["status"] == "ok";
    assert!(wait_until(DEADLINE, is_well), "{}", reasons(served));
}

#[test]
fn health_names_approvals_that_cannot_be_used_until_they_can() {
    let bed = Bed::new(COUNTER);
    let served = bed.serve();
    let database = bed.path("data/approvals.sqlite");
    fs::write(
        &database,
        "this is no database, and it is long enough to be one".repeat(100),
    )
    .expect("it is writable");
    named_until_mended(&served, "approvals", || {
        fs::remove_file(&database).expect("it is ours");
    });
}

#[test]
fn health_names_an_index_that_cannot_be_used_until_it_can() {
    let bed = Bed::new(COUNTER);
    let index = bed.path("data/index.sqlite");
    let served = bed.serve();
    call(&mut served.host_ready(), "n__read_thing", "{}");
    for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        let _ = fs::remove_file(bed.path("data").join(name));
    }
    fs::create_dir(&index).expect("it is writable");
    named_until_mended(&served, "index", || {
        fs::remove_dir(&index).expect("it is ours");
    });
}

#[test]
fn a_data_folder_that_was_away_is_used_again_when_it_is_back() {
    let bed = Bed::new(COUNTER);
    let served = bed.serve();
    let mut host = served.host_ready();
    let done = |answer: &Value| answer["result"]["isError"] != true;
    assert!(done(&call(&mut host, "n__effect", r#"{"key":"one"}"#)));
    let (log, away) = (bed.path("data/activity"), bed.path("away"));

    fs::rename(&log, &away).expect("it is ours");
    named_until_mended(&served, "renamed", || {
        fs::rename(&away, &log).expect("it is ours");
    });
    assert!(done(&call(&mut host, "n__effect", r#"{"key":"two"}"#)));

    // Deleted, and put back from a copy.
    copy_folder(&log, &away);
    fs::remove_dir_all(&log).expect("it is ours");
    let refused = call(&mut host, "n__effect", r#"{"key":"lost"}"#);
    assert!(!done(&refused), "{refused}");
    named_until_mended(&served, "deleted", || {
        copy_folder(&away, &log);
        // The last call could not be recorded, which is a reason of its own until one is.
        assert!(done(&call(&mut host, "n__effect", r#"{"key":"three"}"#)));
    });
    assert_eq!(ledger(&bed), ["one", "two", "three"]);
}
