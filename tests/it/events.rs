//! `/events`: every call once, across lost connections.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use callgate_testkit::{Event, EventStream, HttpHost};
use serde_json::Value;

use crate::evidence::{COUNTER, call_line, records};
use crate::setup::{Bed, Served};
use crate::talk::{DEADLINE, call, http_as, parsed, request};

/// Calls of the long run, in batches, by several hosts at once.
const HOSTS: u64 = 4;
const BATCHES: u64 = 25;
const BATCH: u64 = 100;
/// After so many events the connection is dropped.
const DROPPED_AFTER: [usize; 3] = [1_000, 7_500, 15_000];

/// A listener that can lose its connection.
struct Listener {
    host: HttpHost,
    stream: EventStream,
    last_id: Option<String>,
}

impl Listener {
    fn open(served: &Served) -> Self {
        let mut host = admin(served, "/events");
        // Shorter than the heartbeat, which would keep a stream without events open for ever.
        host.set_deadline(Duration::from_secs(10));
        let stream = host.listen().expect("an admin may listen");
        Self {
            host,
            stream,
            last_id: None,
        }
    }

    fn next(&mut self) -> Event {
        let event = self.stream.next_event().expect("the stream is well formed");
        let event = event.expect("the stream stays open");
        self.last_id.clone_from(&event.id);
        event
    }

    fn drop_connection(&mut self) {
        let id = self.last_id.as_deref().expect("an event was heard");
        let host = self.host.clone().header("Last-Event-ID", id);
        self.stream = host.listen().expect("an admin may come back");
    }
}

/// A client of another path with the admin's token.
fn admin(served: &Served, path: &str) -> HttpHost {
    let host = HttpHost::new(&served.url.replace("/mcp", path)).expect("an http URL");
    host.header("Authorization", &format!("Bearer {}", served.admin_token))
}

fn call_in_batches(mut host: HttpHost) {
    host.initialize("2025-03-26").expect("it shakes hands");
    for batch in 0..BATCHES {
        let ids = batch * BATCH..(batch + 1) * BATCH;
        let lines: Vec<String> = ids.map(|id| call_line(id, "read_thing", "{}")).collect();
        let reply = host.post(&format!("[{}]", lines.join(",")));
        let reply = reply.expect("a batch is answered").frames();
        let answers = parsed(&reply.expect("with frames")[0]);
        assert_eq!(answers.as_array().map(Vec::len), Some(BATCH as usize));
    }
}

#[test]
fn every_call_is_delivered_once_across_reconnects() {
    let bed = Bed::new(COUNTER);
    let served = bed.serve();
    call(&mut served.host_ready(), "n__read_thing", "{}");
    let mut listener = Listener::open(&served);
    let calls = (HOSTS * BATCHES * BATCH) as usize;
    let mut heard: HashMap<(String, String), usize> = HashMap::new();
    let mut numbers = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..HOSTS {
            let host = served.host();
            scope.spawn(|| call_in_batches(host));
        }
        while numbers.len() < 2 * calls {
            let event = listener.next();
            let data = parsed(&event.data);
            assert_eq!(event.name.as_deref(), data["type"].as_str());
            assert_eq!(event.id.as_deref(), data["id"].as_str());
            let of = (text(&data, "type"), text(&data, "record_id"));
            *heard.entry(of).or_default() += 1;
            let id = text(&data, "id");
            numbers.push(
                id.rsplit_once('-')
                    .expect("a boot and a number")
                    .1
                    .parse()
                    .expect("a number"),
            );
            if DROPPED_AFTER.contains(&numbers.len()) {
                listener.drop_connection();
            }
        }
    });
    let first: u64 = numbers[0];
    let expected: Vec<u64> = (first..first + 2 * calls as u64).collect();
    assert_eq!(numbers, expected, "in order, without a hole");
    assert!(heard.values().all(|times| *times == 1), "each once");
    let of_type = |kind: &str| -> BTreeSet<String> {
        let of = heard.keys().filter(|(of, _)| of == kind);
        of.map(|(_, id)| id.clone()).collect()
    };
    let finished = of_type("call.finished");
    assert_eq!(of_type("call.started"), finished);
    let recorded: BTreeSet<String> = records(&bed)
        .iter()
        .map(|record| text(record, "id"))
        .collect();
    let unheard: Vec<&String> = recorded.difference(&finished).collect();
    assert_eq!(
        (finished.len(), unheard.len()),
        (calls, 1),
        "all but the call before"
    );
}

#[test]
fn events_carry_the_decision_but_never_the_arguments() {
    let bed = Bed::new(&COUNTER.replace("allow-all", "default"));
    let served = bed.serve();
    let mut host = served.host_ready();
    call(&mut host, "n__read_thing", "{}");
    let mut listener = Listener::open(&served);
    call(&mut host, "n__wipe", r#"{"key":"do-not-tell"}"#);
    let held = parsed(&listener.next().data);
    assert_eq!(held["type"], "approval_required");
    assert_eq!(held["decision"], "require_approval");
    assert_eq!(held["rule"], "require_approval:mcp_tool:*:*");
    assert_eq!(
        (&held["server"], &held["tool"]),
        (&"n".into(), &"wipe".into())
    );
    assert_eq!(
        (&held["scope"], &held["command"]),
        (&"mcp_tool".into(), &"n:wipe".into())
    );
    assert_eq!(
        (&held["tenant"], &held["transport"]),
        (&"local".into(), &"http".into())
    );
    assert!(!held.to_string().contains("do-not-tell"));

    request(&mut host, &call_line(7, "no_such", "{}"));
    let unresolved = parsed(&listener.next().data);
    assert_eq!(unresolved["type"], "call.finished");
    assert_eq!(unresolved["command"], "n__no_such");
    assert_eq!(unresolved["meta"]["request_id"], "7");
    assert_eq!(
        (unresolved.get("server"), unresolved.get("tool")),
        (None, None)
    );

    call(&mut host, "n__fail", "{}");
    assert_eq!(parsed(&listener.next().data)["type"], "call.started");
    let failed = parsed(&listener.next().data);
    assert_eq!(failed["meta"]["status"], "error");
    assert_eq!(failed["meta"]["error"], "TOOL_ERROR");
    assert_eq!(failed["reason"], "the tool reported an error");
}

#[test]
fn a_servers_loss_and_return_are_reported_as_events() {
    let bed = Bed::new(&format!(
        "{COUNTER}server_defaults: {{reconnect_cap: 100ms}}\n"
    ));
    let served = bed.serve();
    // A host without capabilities shares the process that the gateway watches over.
    let mut host = http_as(&served, "{}");
    call(&mut host, "n__read_thing", "{}");
    let mut listener = Listener::open(&served);
    call(&mut host, "n__die", r#"{"key":"x"}"#);
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("upstream.up") {
        seen.push(listener.next().name.expect("an event has a name"));
    }
    assert!(seen.contains(&"upstream.down".to_owned()), "{seen:?}");
}

#[test]
fn an_event_id_of_an_earlier_process_gets_a_gap() {
    let bed = Bed::new(COUNTER);
    let served = bed.serve();
    let host = admin(&served, "/events").header("Last-Event-ID", "01ARZ3NDEKTSV4RRFFQ69G5FAV-3");
    let mut stream = host.listen().expect("an admin may listen");
    let gap = stream
        .next_event()
        .expect("it is well formed")
        .expect("it is open");
    assert_eq!(
        (gap.name.as_deref(), gap.data.as_str()),
        (Some("gap"), r#"{"type":"gap"}"#)
    );
}

#[test]
fn only_admins_can_listen_and_a_stopping_gateway_ends_the_stream() {
    let bed = Bed::new(COUNTER);
    let mut served = bed.serve();
    let url = served.url.replace("/mcp", "/events");
    let bare = HttpHost::new(&url).expect("an http URL");
    let agent = bare
        .clone()
        .header("Authorization", &format!("Bearer {}", served.token));
    let status = |host: &HttpHost| host.send("GET", &[], b"").expect("it answers").status;
    assert_eq!((status(&bare), status(&agent)), (401, 403));

    let mut listener = Listener::open(&served);
    let pid = rustix::process::Pid::from_raw(served.process.pid() as i32).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
    // What the end of the server says comes before the end of the stream.
    while listener
        .stream
        .next_event()
        .expect("it ends in good order")
        .is_some()
    {}
    assert!(
        served
            .process
            .wait(DEADLINE.max(Duration::from_secs(30)))
            .expect("it ends")
            .success()
    );
}

fn text(data: &Value, key: &str) -> String {
    data[key]
        .as_str()
        .unwrap_or_else(|| panic!("no {key}: {data}"))
        .to_owned()
}
