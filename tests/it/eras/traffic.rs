//! What passes during calls between hosts and servers of whichever era: cancellations, timeouts, progress, and what a host
//! can be asked.

use std::fs;
use std::net::TcpStream;
use std::thread;

use callgate_testkit::{Frame, Host, HttpHost, HttpUpstream, StatelessHost, StdioHost, bin};
use callgate_testkit::{wait_until, weird};
use serde_json::{Value, json};

use super::{config, exchange, post, stateless, stateless_as};
use crate::evidence::ledger;
use crate::setup::{Bed, Served, VERSION};
use crate::talk::{DEADLINE, call_text, http_as, parsed, received, stdio_as, text_of};

/// A gateway in front of a server with countable effects.
struct Scene {
    bed: Bed,
    served: Served,
    what: String,
    _listening: Option<HttpUpstream>,
}

/// Every combination of a server's era and the way to it; `more` stands in the server's entry.
fn scenes(more: &str) -> impl Iterator<Item = Scene> {
    let all = [(false, false), (false, true), (true, false), (true, true)];
    all.into_iter()
        .map(move |(is_stateless, over_http)| scene(is_stateless, over_http, more))
}

fn scene(is_stateless: bool, over_http: bool, more: &str) -> Scene {
    let bed = Bed::new("");
    let [ledger, log] = ["ledger", "log"].map(|name| bed.path(name).display().to_string());
    let mut args = vec!["--ledger", &ledger, "--log", &log];
    if is_stateless {
        args.push("--no-handshake");
    }
    let listening = over_http.then(|| HttpUpstream::start("counter-upstream", &args));
    let listening = listening.map(|started| started.expect("it listens"));
    let server = match &listening {
        Some(upstream) => json!({"url": upstream.url()}),
        None => json!({"command": bin("counter-upstream"), "args": args}),
    };
    let server = server.to_string().replacen('{', &format!("{{{more}"), 1);
    let config = format!(
        r#"{{"servers":{{"x":{server}}},"naming":{{"prefix":"never"}},"policy":"allow-all"}}"#
    );
    fs::write(bed.path("callgate.yaml"), config).expect("it is ours");
    let served = bed.serve();
    let era = if is_stateless {
        "stateless"
    } else {
        "handshake"
    };
    let way = if over_http { "HTTP" } else { "stdio" };
    Scene {
        bed,
        served,
        what: format!("{era} server over {way}"),
        _listening: listening,
    }
}

/// A host of either era at either door.
enum Caller {
    HandshakeOverStdio(StdioHost),
    StatelessOverStdio(StdioHost),
    HandshakeOverHttp(HttpHost),
    StatelessOverHttp(StatelessHost),
}

/// One of each, with a name.
fn callers(scene: &Scene) -> [(&'static str, Caller); 4] {
    let mut http = scene.served.host();
    http.initialize(VERSION).expect("it shakes hands");
    let stateless = StatelessHost::new(scene.served.host());
    [
        ("hs", Caller::HandshakeOverStdio(scene.bed.stdio_ready())),
        ("ss", Caller::StatelessOverStdio(scene.bed.stdio())),
        ("hh", Caller::HandshakeOverHttp(http)),
        ("sh", Caller::StatelessOverHttp(stateless)),
    ]
}

impl Caller {
    fn host(&mut self) -> &mut dyn Host {
        match self {
            Self::HandshakeOverStdio(host) | Self::StatelessOverStdio(host) => host,
            Self::HandshakeOverHttp(host) => host,
            Self::StatelessOverHttp(host) => host,
        }
    }

    /// The line of a call with raw params, in the host's era.
    fn line(&self, id: &str, params: &str) -> String {
        let params = match self {
            Self::HandshakeOverStdio(_) | Self::HandshakeOverHttp(_) => params.to_owned(),
            Self::StatelessOverStdio(_) | Self::StatelessOverHttp(_) => {
                weird::with_host(params, weird::OF_THE_HOST)
            }
        };
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
    }

    /// Begins a call; over HTTP the answer would come on the socket.
    fn begin(&mut self, line: &str) -> Option<TcpStream> {
        let posted = match self {
            Self::HandshakeOverStdio(host) | Self::StatelessOverStdio(host) => {
                host.send(line).expect("it reads");
                return None;
            }
            Self::HandshakeOverHttp(host) => host.post_unread(line),
            Self::StatelessOverHttp(host) => {
                host.headed(line).expect("a request").post_unread(line)
            }
        };
        Some(posted.expect("it reads"))
    }

    /// Cancels a call in the way of the host's era.
    fn cancel(&mut self, id: &str, socket: Option<TcpStream>) {
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        );
        match self {
            Self::HandshakeOverStdio(host) | Self::StatelessOverStdio(host) => {
                host.send(&line).expect("it reads");
            }
            Self::HandshakeOverHttp(host) => host.notify(&line).expect("it is accepted"),
            Self::StatelessOverHttp(_) => drop(socket),
        }
    }
}

fn slow(key: &str) -> String {
    format!(r#"{{"name":"slow","arguments":{{"key":"{key}","ms":60000}}}}"#)
}

#[test]
fn a_cancellation_reaches_only_its_request_between_all_eras() {
    thread::scope(|scope| {
        for scene in scenes("") {
            scope.spawn(move || {
                for (name, caller) in callers(&scene) {
                    cancel_one_of_two(&scene, name, caller);
                }
            });
        }
    });
}

fn cancel_one_of_two(scene: &Scene, name: &str, mut caller: Caller) {
    let has = |line: &String| {
        let found = wait_until(DEADLINE, || ledger(&scene.bed).contains(line));
        assert!(found, "{}: {line} of {:?}", scene.what, ledger(&scene.bed));
    };
    let (stays, goes) = (format!("{name}-stays"), format!("{name}-goes"));
    let mut sockets = Vec::new();
    for (id, key) in [("7", &stays), (r#""7""#, &goes)] {
        let line = caller.line(id, &slow(key));
        sockets.push(caller.begin(&line));
        has(key);
    }
    caller.cancel(r#""7""#, sockets.pop().flatten());
    has(&format!("cancelled:{goes}"));
    let all = ledger(&scene.bed);
    let told = all
        .iter()
        .filter(|line| line.starts_with(&format!("cancelled:{name}")));
    assert_eq!(told.count(), 1, "{}: {all:?}", scene.what);
    // The other call ends with its host.
    drop((caller, sockets));
    has(&format!("cancelled:{stays}"));
}

#[test]
fn a_timeout_cancels_only_its_request_between_all_eras() {
    thread::scope(|scope| {
        for scene in scenes(r#""timeout":"1s","#) {
            scope.spawn(move || {
                for (name, caller) in callers(&scene) {
                    time_out(&scene, name, caller);
                }
            });
        }
    });
}

fn time_out(scene: &Scene, name: &str, mut caller: Caller) {
    let mut answer = |id: &str, params: &str| {
        let line = caller.line(id, params);
        let frames = caller.host().exchange(&line, &mut |_| None);
        let frames = frames.expect("it is answered");
        parsed(&frames[frames.len() - 1])
    };
    // On a slow machine it may take longer than a call until the first process is there.
    let ready = r#"{"name":"read_thing","arguments":{"key":"k"}}"#;
    let mut is_ready = || answer("1", ready).get("result").is_some();
    assert!(wait_until(DEADLINE, &mut is_ready), "{}", scene.what);
    let answer = answer("2", &slow(name));
    let message = r#"upstream "x" timed out after 1s"#;
    assert_eq!(answer["error"]["message"], message, "{}", scene.what);
    assert_eq!(answer["error"]["data"]["effect"], "unknown");
    let cancelled = format!("cancelled:{name}");
    let told = || ledger(&scene.bed).contains(&cancelled);
    assert!(wait_until(DEADLINE, told), "{}: {cancelled}", scene.what);
}

#[test]
fn progress_carries_the_hosts_token_between_all_eras() {
    for scene in scenes("") {
        for (name, mut caller) in callers(&scene) {
            for token in [r#""7""#, "7", "-3", r#""""#, "9007199254740993"] {
                let params = format!(
                    r#"{{"name":"progress","arguments":{{"n":2}},"_meta":{{"progressToken":{token}}}}}"#
                );
                let line = caller.line("1", &params);
                let frames = caller.host().exchange(&line, &mut |_| None);
                let frames = frames.expect("it is answered");
                let frames = frames.iter().filter_map(|line| Frame::parse(line));
                let tokens: Vec<String> = frames
                    .filter_map(|frame| frame.param("progressToken").map(str::to_owned))
                    .collect();
                assert_eq!(tokens, [token, token], "{name}, {}", scene.what);
            }
        }
    }
}

#[test]
fn host_capabilities_reach_servers_between_all_eras() {
    let declared = [
        json!({}),
        json!({"elicitation": {}}),
        json!({"sampling": {"tools": {}}, "experimental": {"x": [1, null]}}),
    ];
    let shelf =
        Bed::new("servers: {a: {command: '@shelf@', args: [--tag, a]}}\npolicy: allow-all\n");
    let served = shelf.serve();
    for capabilities in &declared {
        let call = stateless_as("tools/call", json!({"name": "a__declared"}), capabilities);
        let told = post(&served, &call).1;
        assert_eq!(parsed(&text_of(&told)), *capabilities, "with a handshake");
    }
    let bed = Bed::new(&config("stateless"));
    let served = bed.serve();
    for capabilities in &declared {
        let call = json!({"name": "test_simple_text"});
        post(&served, &stateless_as("tools/call", call, capabilities));
        let raw = capabilities.to_string();
        call_text(&mut http_as(&served, &raw), "test_simple_text", "{}");
        call_text(&mut stdio_as(&bed, Some(&raw)), "test_simple_text", "{}");
    }
    let seen: Vec<Value> = received(&bed, "upstream.log", "tools/call")
        .iter()
        .filter_map(|frame| frame.meta("io.modelcontextprotocol/clientCapabilities"))
        .map(parsed)
        .collect();
    let expected: Vec<Value> = declared
        .iter()
        .flat_map(|one| [one, one, one])
        .cloned()
        .collect();
    assert_eq!(seen, expected, "without one");
}

#[test]
fn stateless_hosts_get_the_combined_capabilities_and_stable_pages() {
    let bed = Bed::new(
        "\
servers:
  a: {command: '@shelf@', args: [--tag, a, --resources, '700', --pages, '3', --without, prompts, --without, completions]}
  b: {command: '@shelf@', args: [--tag, b, --resources, '900', --pages, '4', --without, prompts, --without, completions]}
policy: allow-all
",
    );
    let mut host = bed.stdio();
    let mut listed: Vec<String> = Vec::new();
    let mut params = json!({});
    loop {
        let page = exchange(&mut host, &stateless("resources/list", params))["result"].clone();
        assert_eq!(page["cacheScope"], "private");
        let resources = page["resources"].as_array().expect("a list");
        let uris = resources.iter().filter_map(|one| one["uri"].as_str());
        listed.extend(uris.map(str::to_owned));
        match page.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    let mut handshake = bed.stdio_ready();
    assert_eq!(listed, crate::primitives::resources(&mut handshake));
    assert_eq!(listed.len(), 701 + 901);
    let found = exchange(&mut host, &stateless("server/discover", json!({})));
    assert_eq!(
        found["result"]["capabilities"],
        json!({
            "tools": {"listChanged": true},
            "logging": {},
            "resources": {"subscribe": true, "listChanged": true},
        })
    );
}

#[test]
fn stateless_hosts_get_no_session_and_session_headers_are_ignored() {
    let bed = Bed::new(&config("dual"));
    let served = bed.serve();
    let line = stateless("tools/call", json!({"name": "test_simple_text"}));
    let host = super::headed(&served, &line);
    for host in [host.clone(), host.header("Mcp-Session-Id", "made-up")] {
        let reply = host.post(&line).expect("HTTP");
        assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
    }
}
