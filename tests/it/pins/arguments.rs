//! Arguments are checked against the schema that was accepted, whatever the server says meanwhile, by every door that
//! checks them; and what is kept away is told of by its name alone.

use callgate_testkit::{Host, HttpHost, wait_until};
use serde_json::{Value, json};

use super::{ANNOUNCE, KEEP, POISONED, READ, accept_all, bed, lists};
use crate::evidence::ledger;
use crate::guard::asked;
use crate::setup::{Bed, Served, VERSION};
use crate::shell::{named, run};
use crate::talk::{self, DEADLINE};

/// The same tool, which wants a number where it wanted a text.
const NUMBERS: &str = r#"{"name":"read_file","description":"Reads a file.","annotations":{"readOnlyHint":false,"destructiveHint":true},"inputSchema":{"type":"object","properties":{"path":{"type":"integer"}}}}"#;

/// The accepted schema takes a text, the changed one a number.
const TEXT: &str = r#"{"path":"/x"}"#;
const NUMBER: &str = r#"{"path":7}"#;

fn host_at(served: &Served, path: &str) -> HttpHost {
    let host = HttpHost::new(&format!("{}{path}", served.url)).expect("it listens on plain HTTP");
    let mut host = host.header("Authorization", &format!("Bearer {}", served.token));
    host.initialize(VERSION).expect("the gateway shakes hands");
    host
}

/// The word for how a call ended: `done`, or its code.
fn ending(result: &Value) -> String {
    let code = [
        &result["error"]["data"]["code"],
        &result["result"]["structuredContent"]["code"],
    ];
    let code = code.iter().find_map(|code| code.as_str());
    code.unwrap_or("done").to_owned()
}

fn by_view(host: &mut dyn Host, arguments: &str) -> String {
    let call = format!(
        r#"{{"name":"s:read_file","args":{arguments},"intent":{{"operation_type":"destructive"}}}}"#
    );
    ending(&talk::call(host, "call_tool_destructive", &call))
}

fn by_api(served: &Served, arguments: &str) -> String {
    let call =
        format!(r#"{{"name":"s:read_file","args":{arguments},"operation_type":"destructive"}}"#);
    let (_, body) = asked(served, &served.admin_token, "/api/v1/tools/call", &call);
    body["code"].as_str().unwrap_or("done").to_owned()
}

fn by_shell(bed: &Bed, arguments: &str) -> String {
    let words = [
        "call",
        "tool-destructive",
        "s:read_file",
        "--args",
        arguments,
    ];
    let ran = run(&mut named(bed, words));
    let said = [
        ("do not fit the schema", "INVALID_ARGUMENTS"),
        ("is quarantined", "TOOL_QUARANTINED"),
    ];
    let said = said.iter().find(|(text, _)| ran.stderr.contains(text));
    match (ran.code, said) {
        (Some(0), None) => "done".to_owned(),
        (Some(1), Some((_, code))) => (*code).to_owned(),
        (code, _) => panic!("{code:?}: {}", ran.stderr),
    }
}

/// Every door ends such a call in the same way.
fn check(bed: &Bed, served: &Served, arguments: &str, expected: &str) {
    let before = ledger(bed).len();
    let mut host = host_at(served, "/search");
    assert_eq!(by_view(&mut host, arguments), expected, "{arguments}");
    assert_eq!(by_api(served, arguments), expected, "{arguments}");
    assert_eq!(by_shell(bed, arguments), expected, "{arguments}");
    let done = if expected == "done" { 3 } else { 0 };
    assert_eq!(ledger(bed).len() - before, done, "{arguments}");
}

/// The server says something else, and the gateway has heard of it.
fn says(bed: &Bed, served: &Served, tool: &str, (arguments, then): (&str, &str)) {
    lists(bed, &[ANNOUNCE, KEEP, tool]);
    let mut host = host_at(served, "/search");
    let call = r#"{"name":"s:announce","intent":{"operation_type":"read"}}"#;
    talk::call(&mut host, "call_tool_read", call);
    let heard = wait_until(DEADLINE, || by_view(&mut host, arguments) == then);
    assert!(heard, "{arguments} is not {then}");
}

#[test]
fn arguments_are_checked_against_the_accepted_schema() {
    for mode in ["tofu", "locked"] {
        let bed = bed(mode);
        accept_all(&bed);
        let served = bed.serve();
        check(&bed, &served, NUMBER, "INVALID_ARGUMENTS");
        check(&bed, &served, TEXT, "done");
        says(&bed, &served, NUMBERS, (TEXT, "TOOL_QUARANTINED"));
        check(&bed, &served, NUMBER, "TOOL_QUARANTINED");
        check(&bed, &served, TEXT, "TOOL_QUARANTINED");
        says(&bed, &served, READ, (NUMBER, "INVALID_ARGUMENTS"));
        check(&bed, &served, NUMBER, "INVALID_ARGUMENTS");
        check(&bed, &served, TEXT, "done");
        says(&bed, &served, NUMBERS, (TEXT, "TOOL_QUARANTINED"));
        accept_all(&bed);
        says(&bed, &served, NUMBERS, (TEXT, "INVALID_ARGUMENTS"));
        check(&bed, &served, NUMBER, "done");
        check(&bed, &served, TEXT, "INVALID_ARGUMENTS");
        // In the direct view the host has the schema, and the server has the last word.
        let mut direct = host_at(&served, "/direct");
        assert_eq!(
            talk::call_text(&mut direct, "s__read_file", TEXT),
            "read_file"
        );
    }
}

#[test]
fn calls_to_quarantined_tools_are_forbidden() {
    let bed = bed("locked");
    let served = bed.serve();
    let call = r#"{"name":"s:read_file","operation_type":"destructive"}"#;
    let (status, body) = asked(&served, &served.admin_token, "/api/v1/tools/call", call);
    assert_eq!(
        (status, body["code"].as_str()),
        (403, Some("TOOL_QUARANTINED")),
        "{body}"
    );
}

#[test]
fn quarantined_tools_are_found_only_on_request_and_by_name() {
    for (poison, reason) in POISONED {
        let bed = bed("tofu");
        accept_all(&bed);
        lists(&bed, &[ANNOUNCE, KEEP, poison]);
        let served = bed.serve();
        let mut host = host_at(&served, "/search");
        let mut found = |include: bool| {
            let asked = json!({"query": "read a file", "limit": 100, "include_disabled": include});
            let answer = talk::call(&mut host, "retrieve_tools", &asked.to_string());
            let text = answer["result"]["content"][0]["text"].as_str();
            let answer = talk::parsed(text.expect("a text"));
            let tools = answer["tools"].as_array().expect("a list").clone();
            let is_meant = |tool: &&Value| tool["name"].as_str() == Some("s:read_file");
            assert!(
                tools
                    .iter()
                    .all(|tool| tool["name"].as_str().is_some_and(str::is_ascii)),
                "no name that deceives: {answer}"
            );
            tools.iter().find(is_meant).cloned()
        };
        assert!(wait_until(DEADLINE, || found(false).is_none()), "{reason}");
        let changed = reason.starts_with("its definition");
        let Some(told) = found(true) else {
            assert!(!changed, "{reason}");
            continue;
        };
        assert!(changed, "{reason}");
        assert_eq!(told["disabled"], format!("quarantined: {reason}"));
        assert_eq!(
            (&told["description"], &told["inputSchema"]),
            (&json!(""), &json!({}))
        );
        assert_eq!(told["call_with"], "call_tool_destructive");
        assert_eq!(told.get("annotations"), None, "{told}");
    }
}
