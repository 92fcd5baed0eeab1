//! The era used with a server, and how it is detected.

use serde_json::json;

use super::{config, post, stateless, stateless_as};
use crate::setup::Bed;
use crate::talk::{call_text, received};

const TEXT: &str = "This is a simple text response for testing.";

fn asked(bed: &Bed, method: &str) -> usize {
    received(bed, "upstream.log", method).len()
}

fn call() -> String {
    stateless("tools/call", json!({"name": "test_simple_text"}))
}

#[test]
fn a_dual_era_server_is_used_in_the_hosts_era() {
    let bed = Bed::new(&config("dual"));
    let served = bed.serve();
    let mut host = served.host_ready();
    assert_eq!(call_text(&mut host, "test_simple_text", "{}"), TEXT);
    assert_eq!(
        asked(&bed, "server/discover"),
        0,
        "the era is not probed before it matters"
    );
    assert_eq!(post(&served, &call()).0, 200);
    let calls = received(&bed, "upstream.log", "tools/call");
    let eras: Vec<bool> = calls.iter().map(|frame| frame.is_stateless()).collect();
    assert_eq!(eras, [false, true]);
    // Once in a process that is thrown away, and once where it is used.
    assert_eq!(asked(&bed, "server/discover"), 2);
    drop(served);
    let served = bed.serve();
    assert_eq!(post(&served, &call()).0, 200);
    assert_eq!(
        asked(&bed, "server/discover"),
        3,
        "what was found out is remembered"
    );
}

#[test]
fn a_single_era_server_serves_hosts_of_both_eras() {
    for speaks in ["handshake", "stateless"] {
        let bed = Bed::new(&config(speaks));
        let served = bed.serve();
        let mut host = served.host_ready();
        assert_eq!(
            call_text(&mut host, "test_simple_text", "{}"),
            TEXT,
            "{speaks}"
        );
        let answer = post(&served, &call()).1;
        assert_eq!(answer["result"]["content"][0]["text"], TEXT, "{speaks}");
        let calls = received(&bed, "upstream.log", "tools/call");
        let expected = speaks == "stateless";
        assert!(
            calls.iter().all(|frame| frame.is_stateless() == expected),
            "{speaks}"
        );
    }
}

#[test]
fn the_configuration_can_fix_a_servers_era() {
    for (protocol, expected) in [("handshake", false), ("stateless", true)] {
        let config = config("dual").replace("args:", &format!("protocol: {protocol}, args:"));
        let bed = Bed::new(&config);
        let served = bed.serve();
        let mut host = served.host_ready();
        assert_eq!(
            call_text(&mut host, "test_simple_text", "{}"),
            TEXT,
            "{protocol}"
        );
        assert_eq!(post(&served, &call()).0, 200, "{protocol}");
        let calls = received(&bed, "upstream.log", "tools/call");
        assert_eq!(calls.len(), 2);
        assert!(
            calls.iter().all(|frame| frame.is_stateless() == expected),
            "{protocol}"
        );
        let other = if expected {
            "initialize"
        } else {
            "server/discover"
        };
        assert_eq!(asked(&bed, other), 0, "{protocol}");
    }
}

/// A gateway is the server here: it refuses a call whose headers do not repeat what its tool wants repeated.
#[test]
fn arguments_are_repeated_in_headers_when_a_tool_requires_it() {
    let behind = Bed::new(&config("dual"));
    let strict = behind.serve();
    let bed = Bed::new(&format!(
        "\
servers:
  c:
    url: {}
    headers: {{Authorization: Bearer {}}}
    protocol: stateless
naming: {{prefix: never}}
policy: allow-all
",
        strict.url, strict.token
    ));
    let served = bed.serve();
    let mut host = served.host_ready();
    for arguments in [
        r#"{"region":"köln","priority":7,"verbose":true}"#,
        r#"{"region":" east, =?base64?x?= ","priority":-12}"#,
        r#"{"verbose":false,"other":[1]}"#,
        "{}",
    ] {
        let text = call_text(&mut host, "test_custom_headers", arguments);
        assert_eq!(text, "done", "{arguments}");
    }
    let passed = received(&behind, "upstream.log", "tools/call");
    assert_eq!(passed.len(), 4);
    assert!(passed.iter().all(|frame| frame.is_stateless()));
    let unheaded = json!({"name": "test_custom_headers", "arguments": {"region": "köln"}});
    let refused = post(&strict, &stateless("tools/call", unheaded));
    assert_eq!(refused.0, 400, "it would have noticed");
}

#[test]
fn the_first_list_of_a_stateless_host_has_what_its_capabilities_allow() {
    let bed = Bed::new(
        "\
servers: {s: {command: '@shelf@', args: [--by-capability]}}
naming: {prefix: never}
policy: allow-all
",
    );
    let served = bed.serve();
    let names = |capabilities: &serde_json::Value| {
        let line = stateless_as("tools/list", json!({}), capabilities);
        let listed = post(&served, &line).1;
        let tools = listed["result"]["tools"].as_array().cloned();
        let tools = tools.unwrap_or_else(|| panic!("no list: {listed}"));
        let names = tools.iter().map(|tool| tool["name"].to_string());
        names.collect::<Vec<_>>()
    };
    let all = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let first = names(&all);
    assert_eq!(first.len(), 14, "{first:?}");
    assert!(first.contains(&"\"ask_model\"".to_owned()), "{first:?}");
    let answer = post(
        &served,
        &stateless("tools/call", json!({"name": "declared"})),
    )
    .1;
    let text = answer["result"]["content"][0]["text"].as_str();
    assert!(
        text.is_some_and(|text| text.contains("sampling")),
        "{answer}"
    );
    assert_eq!(names(&all), first, "a call changes no list");
}
