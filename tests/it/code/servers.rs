//! Scripts with servers that are slow, crash or are reached over HTTP.

use std::{
    fs,
    time::{Duration, Instant},
};

use callgate_testkit::{HttpHost, HttpUpstream, processes_with, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use super::{failed, host, ran, run, said, workers_of};
use crate::{evidence::signal, setup::Bed};

const DEADLINE: Duration = Duration::from_secs(30);

const CONFIG: &str = "\
servers:
  n: {command: '@counter@', args: [--ledger, '@dir@/ledger'], timeout: 2s}
policy: allow-all
";

#[test]
fn a_call_past_its_timeout_is_cancelled_at_its_server() {
    let bed = Bed::new(CONFIG);
    let served = bed.serve();
    let mut host = host(&served);
    let text = failed(&mut host, "n.slow(key='late', ms=60000)");
    let told = "line 1: RuntimeError: server n timed out: `slow` took longer than 2s";
    assert!(text.starts_with(told), "{text}");
    assert!(text.contains("raise the server's `timeout`"), "{text}");
    let cancelled = wait_until(DEADLINE, || bed.read("ledger").contains("cancelled:late"));
    assert!(cancelled, "{}", bed.read("ledger"));
}

#[test]
fn a_server_that_dies_during_a_run_is_unavailable_then_restarted() {
    let bed = Bed::new(CONFIG);
    let served = bed.serve();
    let mut host = host(&served);
    let text = failed(&mut host, "x = 1\nn.die(key='last')");
    let told = "line 2: RuntimeError: server n unavailable; it may or may not have taken effect";
    assert!(text.starts_with(told), "{text}");
    assert!(text.contains("try again later"), "{text}");
    let again = wait_until(DEADLINE, || {
        let result = run(&mut host, "n.effect(key='again')");
        said(&result) == "did again"
    });
    assert!(again, "it is connected again by itself");
    let deaths = bed.read("ledger").matches("last").count();
    assert_eq!(deaths, 1, "nothing is done twice");
}

#[test]
fn http_servers_are_listed_with_transport_and_status() {
    let bed = Bed::new(CONFIG);
    let ledger = bed.path("ledger").display().to_string();
    let upstream = HttpUpstream::start("counter-upstream", &["--ledger", &ledger]);
    let mut upstream = upstream.expect("it listens");
    let config = format!(
        "servers: {{n: {{url: '{}'}}}}\npolicy: allow-all\n",
        upstream.url()
    );
    fs::write(bed.path("callgate.yaml"), config).expect("it is ours");
    let served = bed.serve();
    let mut host = host(&served);
    let listed = |host: &mut HttpHost| -> Value {
        let servers = ran(host, "proxy.list_servers()");
        let servers: Vec<Value> = serde_json::from_str(&servers).expect("a list");
        servers[0].clone()
    };
    assert_eq!(ran(&mut host, "n.effect(key='there')"), "did there");
    let there = listed(&mut host);
    assert_eq!(
        (&there["type"], &there["status"]),
        (&"http".into(), &"ok".into())
    );
    upstream.stop();
    failed(&mut host, "n.effect(key='gone')");
    let told = wait_until(DEADLINE, || {
        let gone = listed(&mut host);
        gone["status"] != "ok" && gone["reason"].is_string()
    });
    assert!(told, "{}", listed(&mut host));
}

#[test]
fn a_stopping_gateway_leaves_no_child_process() {
    let bed = Bed::new(CONFIG);
    let mut served = bed.serve();
    let mut host = host(&served);
    ran(&mut host, "n.effect(key='once')");
    let mark = bed.path("ledger").display().to_string();
    let children = || [processes_with(&mark), workers_of(&served)].concat();
    let started = children();
    assert!(started.len() > 1, "a server and a worker: {started:?}");
    signal(served.process.pid(), Signal::TERM);
    let stopping = Instant::now();
    let is_gone = |pid: &u32| !fs::exists(format!("/proc/{pid}")).unwrap_or(true);
    let gone = wait_until(DEADLINE, || started.iter().all(is_gone));
    println!("no child is left after {:?}", stopping.elapsed());
    assert!(gone, "{started:?}");
    served.process.wait(DEADLINE).expect("it ends");
}
