//! Starting: servers connect concurrently, none blocks another, and late ones are announced.

use std::fmt::Write;
use std::time::{Duration, Instant};

use callgate_testkit::Host;
use serde_json::json;

use crate::setup::Bed;
use crate::talk::{DEADLINE, call, call_text, is_notification, parsed, tools};

#[test]
fn servers_are_connected_concurrently() {
    let each = Duration::from_millis(1000);
    let mut config = String::from("servers:\n");
    for at in 0..10 {
        let arguments = format!("--slow-start-ms {}", each.as_millis());
        writeln!(config, "  s{at}: {{command: '@counter@ {arguments}'}}")
            .expect("a text can be written to");
    }
    let bed = Bed::new(&config);
    let started = Instant::now();
    let mut host = bed.stdio_ready();
    let listed = tools(&mut host);
    let took = started.elapsed();
    for at in 0..10 {
        assert!(listed.contains(&format!("s{at}__effect")), "s{at}");
    }
    assert!(took >= each, "{took:?} is less than one server needs");
    assert!(took < each * 5, "{took:?} is half of one after the other");
}

#[test]
fn dead_and_crashing_servers_are_reported_and_do_not_block_others() {
    let bed = Bed::new(
        "servers:
  dead: {command: '/no/such/program --flag'}
  crash: {command: '@counter@ --crash-on-start'}
  slow: {command: '@counter@ --slow-start-ms 20000'}
  good: {command: '@counter@'}
server_defaults: {connect_wait: 1s}
",
    );
    let mut host = bed.stdio();
    let started = Instant::now();
    host.initialize("2025-11-25")
        .expect("initialize does not wait for servers");
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(
        call_text(&mut host, "good__read_thing", r#"{"key":"k"}"#),
        "read k"
    );
    for (name, words) in [
        (
            "dead",
            "callgate: cannot start `/no/such/program`: no such command",
        ),
        ("crash", "crashing on start, as asked"),
    ] {
        let line = host.wait_stderr(DEADLINE, |line| {
            line.contains("\"WARN\"") && line.contains(&format!("\"server\":\"{name}\""))
        });
        let line = parsed(&line.expect("a warning names it"));
        let message = line["errorMessage"].as_str().expect("it says why");
        assert!(message.contains(words), "{message}");
        assert_eq!(line["status"], "FAILED");
        let response = call(&mut host, &format!("{name}__effect"), "{}");
        let expected = json!({
            "code": -32002, "message": format!("upstream \"{name}\" unavailable"),
            "data": {"namespace": name, "effect": "none"},
        });
        assert_eq!(response["error"], expected);
    }
    drop(host);
    let shown = bed.command(["servers", "list", "--json"]).output();
    let rows = parsed(&String::from_utf8_lossy(&shown.expect("it runs").stdout));
    let row = |at: usize| {
        (
            rows[at]["name"].as_str().expect("a name").to_owned(),
            rows[at]["status"].as_str().expect("a status").to_owned(),
            rows[at]["reason"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let (name, status, reason) = row(0);
    assert_eq!((name.as_str(), status.as_str()), ("dead", "stopped"));
    assert!(
        reason.contains("cannot start `/no/such/program`"),
        "{reason}"
    );
    let (name, status, reason) = row(1);
    assert_eq!((name.as_str(), status.as_str()), ("crash", "stopped"));
    assert!(reason.contains("crashing on start"), "{reason}");
    assert_eq!(row(2).1, "starting");
    assert_eq!(row(3).1, "ok");
}

#[test]
fn a_server_slower_than_connect_wait_is_listed_once_it_connects() {
    let bed = Bed::new(
        "servers:
  late: {command: '@counter@ --slow-start-ms 2500'}
  soon: {command: '@counter@ --slow-start-ms 300'}
server_defaults: {connect_wait: 1s}
",
    );
    let mut host = bed.stdio_ready();
    let first = tools(&mut host);
    assert!(
        first.iter().all(|name| name.starts_with("soon__")),
        "{first:?}"
    );
    let warned = host.wait_stderr(DEADLINE, |line| {
        line.contains("\"WARN\"") && line.contains("\"server\":\"late\"")
    });
    warned.expect("a warning names what is left out");
    host.recv_where(|frame| is_notification(frame, "notifications/tools/list_changed"))
        .expect("the late server is announced");
    let then = tools(&mut host);
    let late = then.iter().take_while(|name| name.starts_with("late__"));
    assert_eq!(late.count(), first.len(), "it stands where it is written");
    assert_eq!(then[first.len()..], first);
}

#[test]
fn a_first_call_waits_only_for_its_own_server() {
    let bed = Bed::new(
        "servers:
  slow: {command: '@counter@ --slow-start-ms 700'}
  slower: {command: '@counter@ --slow-start-ms 30000'}
",
    );
    let mut host = bed.stdio_ready();
    assert_eq!(
        call_text(&mut host, "slow__read_thing", r#"{"key":"k"}"#),
        "read k"
    );
}

#[test]
fn servers_are_always_listed_in_file_order() {
    let bed = Bed::new(
        "servers:
  zebra: {command: '@counter@ --slow-start-ms 600'}
  apple: {command: '@counter@'}
  mango: {command: '@counter@ --slow-start-ms 300'}
",
    );
    let mut host = bed.stdio_ready();
    let listed = tools(&mut host);
    let mut servers: Vec<&str> = listed
        .iter()
        .filter_map(|name| Some(name.split_once("__")?.0))
        .collect();
    servers.dedup();
    assert_eq!(servers, ["zebra", "apple", "mango"]);
    for _ in 0..5 {
        assert_eq!(tools(&mut host), listed);
    }
}

#[test]
fn hosts_without_a_list_get_no_change_notification_at_start() {
    let bed = Bed::new(
        "servers:
  a: {command: '@counter@ --slow-start-ms 200'}
  b: {command: '@counter@ --slow-start-ms 400'}
",
    );
    let mut host = bed.stdio_ready();
    let line = r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#;
    for _ in 0..2 {
        let frames = host.exchange(line, &mut |_| None).expect("it answers");
        assert_eq!(frames.len(), 1, "the list and nothing before it");
    }
}

#[test]
fn the_first_connects_are_logged_in_one_summary() {
    let bed = Bed::new(
        "servers:
  good: {command: '@counter@'}
  dead: {command: /no/such/program}
  off: {command: cat, enabled: false}
",
    );
    let mut host = bed.stdio_ready();
    tools(&mut host);
    let line = host.wait_stderr(DEADLINE, |line| line.contains("proxy.init"));
    let line = parsed(&line.expect("it is said"));
    let counts = [
        "serverCount",
        "connected",
        "failed",
        "toolCount",
        "unannotated",
    ];
    let counts = counts.map(|name| line[name].as_u64());
    assert_eq!(counts, [2, 1, 1, 13, 1].map(Some), "{line}");
}
