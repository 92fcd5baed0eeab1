//! `/healthz` and `/readyz`.

use callgate_testkit::{HttpHost, wait_until};
use serde_json::Value;

use crate::evidence::COUNTER;
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
