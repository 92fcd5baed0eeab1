//! Declared intent: which calls pass, the texts of refusals, and the record.

use std::time::Duration;

use callgate_testkit::wait_until;
use serde_json::{Value, json};

use super::{bed_with, call, host_at, offer, refusal, search_host, tool};
use crate::evidence::{ledger, record_of, records, run, stdout};
use crate::setup::Bed;
use crate::talk;

const VARIANTS: [&str; 3] = ["read", "write", "destructive"];
/// How long a changed file may take until it counts.
const SOON: Duration = Duration::from_secs(10);

/// Tools of the five states that annotations can have.
fn states() -> Value {
    json!([
        tool("none", Value::Null),
        tool("reads", json!({"readOnlyHint": true})),
        tool("destroys", json!({"destructiveHint": true})),
        tool(
            "both",
            json!({"readOnlyHint": true, "destructiveHint": true})
        ),
        tool("changes", json!({"readOnlyHint": false})),
        tool("announce", Value::Null),
    ])
}

/// What the matrix says, row by row: nothing, or the code and the text of the refusal.
fn expected(variant: &str, declared: Option<&str>, state: &str) -> Option<(String, String)> {
    let own = format!("call_tool_{variant}");
    let (code, text) = match (declared, state) {
        (None, _) => (
            "MISSING_INTENT",
            format!("intent parameter is required for {own}"),
        ),
        (Some("unknown"), _) => (
            "INVALID_OPERATION_TYPE",
            "Invalid intent.operation_type 'unknown': must be read, write, or destructive"
                .to_owned(),
        ),
        (Some(declared), _) if declared != variant => (
            "INTENT_MISMATCH",
            format!("Intent mismatch: tool is {own} but intent declares {declared}"),
        ),
        (Some(_), "destroys" | "both") if variant != "destructive" => (
            "SERVER_MISMATCH",
            format!("Tool 's:{state}' is marked destructive by server, use call_tool_destructive"),
        ),
        (Some(_), _) => return None,
    };
    Some((code.to_owned(), text))
}

#[test]
fn every_row_of_the_intent_matrix_is_enforced_in_both_spellings() {
    let bed = bed_with(&states(), "");
    let served = bed.serve();
    let mut host = search_host(&served);
    let mut let_through = Vec::new();
    let mut rows = 0;
    for variant in VARIANTS {
        for declared in [
            Some("read"),
            Some("write"),
            Some("destructive"),
            Some("unknown"),
            None,
        ] {
            for state in ["none", "reads", "destroys", "both", "changes"] {
                for spelling in ["nested", "flat"] {
                    let key = format!(
                        "{variant}-{}-{state}-{spelling}",
                        declared.unwrap_or("missing")
                    );
                    let mut arguments = json!({"name": format!("s:{state}"), "args": {"key": key}});
                    match (declared, spelling) {
                        (None, _) => {}
                        (Some(word), "nested") => {
                            arguments["intent"] = json!({"operation_type": word})
                        }
                        (Some(word), _) => arguments["operation_type"] = json!(word),
                    }
                    let result = call(&mut host, &format!("call_tool_{variant}"), &arguments);
                    match expected(variant, declared, state) {
                        None => {
                            assert_eq!(result["content"][0]["text"], format!("{state} {key}"));
                            let_through.push(format!("{state}:{key}"));
                        }
                        Some(refused) => assert_eq!(refusal(&result), refused, "{key}"),
                    }
                    rows += 1;
                }
            }
        }
    }
    assert_eq!(rows, 150);
    assert_eq!(
        ledger(&bed),
        let_through,
        "the server saw what was let through, and nothing else"
    );
    check_matrix_records(&bed);
}

/// Each attempt is on record once, with its intent, its arguments and its caller.
fn check_matrix_records(bed: &Bed) {
    let all = records(bed);
    assert_eq!(all.len(), 150);
    for record in &all {
        let key = record["arguments"]["key"].as_str().expect("a key");
        let parts: Vec<&str> = key.split('-').collect();
        let (variant, declared, state) = (parts[0], parts[1], parts[2]);
        let declared = Some(declared).filter(|declared| *declared != "missing");
        let is_blocked = expected(variant, declared, state).is_some();
        assert_eq!(
            record["status"],
            if is_blocked { "blocked" } else { "success" },
            "{key}"
        );
        assert_eq!(
            (&record["server"], &record["tool"]),
            (&json!("s"), &json!(state)),
            "{key}"
        );
        assert_eq!(record["agent"], "testkit");
        let metadata = &record["metadata"];
        assert_eq!(
            metadata["tool_variant"],
            format!("call_tool_{variant}"),
            "{key}"
        );
        assert_eq!(
            metadata["intent"]["operation_type"],
            json!(declared),
            "{key}"
        );
        assert_eq!(metadata["intent"].get("inferred"), None, "{key}");
        let doubtful = matches!((variant, state), ("read", "changes") | ("write", "reads"));
        let warnings = metadata["warnings"].as_array().map_or(0, Vec::len);
        assert_eq!(warnings, usize::from(!is_blocked && doubtful), "{key}");
        if is_blocked {
            assert_eq!(record["decision"], "DENY", "{key}");
            let rule = record["rule"].as_str().expect("a rule");
            assert!(rule.starts_with("deny:intent:"), "{rule}");
        }
    }
}

#[test]
fn invalid_intents_are_reported_and_the_session_continues() {
    let bed = bed_with(&states(), "");
    let served = bed.serve();
    let mut host = search_host(&served);
    let long = "ü".repeat(1001);
    let cases = [
        (
            json!({"intent": {"operation_type": "read"}, "operation_type": "write"}),
            (
                "INTENT_CONFLICT",
                "intent is given twice and differs in operation_type",
            ),
        ),
        (
            json!({"intent": {"reason": "x"}}),
            (
                "MISSING_OPERATION_TYPE",
                "intent.operation_type is required",
            ),
        ),
        (
            json!({"data_sensitivity": "public"}),
            (
                "MISSING_OPERATION_TYPE",
                "intent.operation_type is required",
            ),
        ),
        (
            json!({"intent": {"operation_type": "read", "data_sensitivity": "secret"}}),
            (
                "INVALID_SENSITIVITY",
                "Invalid intent.data_sensitivity 'secret': must be public, internal, private, or unknown",
            ),
        ),
        (
            json!({"intent": {"operation_type": "read", "reason": long}}),
            (
                "REASON_TOO_LONG",
                "intent.reason exceeds maximum length of 1000 characters",
            ),
        ),
        (
            json!({"intent": {"operation_type": "read"}, "args_json": "{}"}),
            (
                "INVALID_ARGUMENTS",
                "give either `args` or `args_json`, not both",
            ),
        ),
    ];
    for (mut arguments, (code, text)) in cases {
        arguments["name"] = json!("s:reads");
        arguments["args"] = json!({});
        let result = call(&mut host, "call_tool_read", &arguments);
        assert_eq!(refusal(&result), (code.to_owned(), text.to_owned()));
    }
    let response = talk::call(&mut host, "call_tool", r#"{"name":"s:reads"}"#);
    assert_eq!(response["error"]["code"], -32602);
    assert_eq!(
        response["error"]["message"],
        "Tool 'call_tool' not found. Use call_tool_read, call_tool_write, or call_tool_destructive with matching intent.operation_type. See retrieve_tools for annotations and recommendations."
    );
    let response = talk::call(&mut host, "s__reads", "{}");
    assert_eq!(
        response["error"]["code"], -32602,
        "only the view's own tools are there"
    );
    let fine = json!({"name": "s:reads", "args_json": "{\"key\":\"k\"}", "operation_type": "read",
        "data_sensitivity": "internal", "reason": "to see"});
    let result = call(&mut host, "call_tool_read", &fine);
    assert_eq!(result["content"][0]["text"], "reads k");
    let record = records(&bed).pop().expect("a record");
    assert_eq!(
        record["metadata"]["intent"],
        json!({"operation_type": "read", "data_sensitivity": "internal", "reason": "to see"})
    );
    assert_eq!(ledger(&bed), ["reads:k"]);
}

#[test]
fn intents_are_judged_by_current_annotations() {
    // With pins, a tool whose annotations change is not offered at all.
    let bed = bed_with(&states(), "pins: off\n");
    let served = bed.serve();
    let mut host = search_host(&served);
    let reading = json!({"name": "s:reads", "args": {"key": "k"}, "operation_type": "read"});
    let found = call(
        &mut host,
        "retrieve_tools",
        &json!({"query": "the tool reads"}),
    );
    assert!(
        super::answer_of(&found)["tools"][0]["call_with"] == "call_tool_read",
        "{found}"
    );
    offer(
        &bed,
        &json!([
            tool("reads", json!({"destructiveHint": true})),
            tool("announce", Value::Null)
        ]),
    );
    let announce = json!({"name": "s:announce", "operation_type": "write"});
    call(&mut host, "call_tool_write", &announce);
    let flipped = wait_until(SOON, || {
        call(&mut host, "call_tool_read", &reading)["isError"] == json!(true)
    });
    assert!(flipped, "the server's new word counts");
    let result = call(&mut host, "call_tool_read", &reading);
    assert_eq!(refusal(&result).0, "SERVER_MISMATCH");
}

#[test]
fn relaxed_strictness_applies_at_once_and_turns_errors_into_warnings() {
    let bed = bed_with(&states(), "");
    let served = bed.serve();
    let mut host = search_host(&served);
    let wrong =
        |key: &str| json!({"name": "s:destroys", "args": {"key": key}, "operation_type": "read"});
    let result = call(&mut host, "call_tool_read", &wrong("strict"));
    assert_eq!(refusal(&result).0, "SERVER_MISMATCH");
    let loose = "intent_declaration: {strict_server_validation: false, required: false}\n";
    let text = bed.filled_in(&format!("{}{loose}", super::CATALOG));
    std::fs::write(bed.path("callgate.yaml"), text).expect("the folder is writable");
    let inferred = json!({"name": "s:none", "args": {"key": "inferred"}});
    let taken_over = wait_until(SOON, || {
        call(&mut host, "call_tool_write", &inferred)["isError"] != json!(true)
    });
    assert!(taken_over, "the file is taken over");
    let result = call(&mut host, "call_tool_read", &wrong("loose"));
    assert_eq!(result["content"][0]["text"], "destroys loose");
    let all = records(&bed);
    let record = record_of(&all, "loose").expect("it is on record");
    assert_eq!(
        record["metadata"]["warnings"],
        json!(["Tool 's:destroys' is marked destructive by server, use call_tool_destructive"])
    );
    let done = all
        .iter()
        .find(|record| record["status"] == "success" && record["tool"] == "none");
    let intent = &done.expect("it went through")["metadata"]["intent"];
    assert_eq!(
        *intent,
        json!({"operation_type": "write", "inferred": true})
    );
}

#[test]
fn policy_sees_declared_intents_and_infers_them_for_other_doors() {
    let bed = bed_with(&states(), "");
    let rules = "version: '1'\nname: intent\nrules:\n  - scope: mcp_tool\n    deny:\n      - {pattern: 's:none', when: 'intent.data_sensitivity == \"private\" || intent.reason.contains(\"delete\")'}\n      - {pattern: 's:changes', when: 'intent.inferred'}\n      - {pattern: 's:destroys', when: 'intent.operation_type == \"destructive\"'}\n    allow: [{pattern: '*:*'}]\n";
    std::fs::write(bed.path("policy.yaml"), rules).expect("the folder is writable");
    let text = bed
        .filled_in(super::CATALOG)
        .replace("policy: allow-all", "policy: policy.yaml");
    std::fs::write(bed.path("callgate.yaml"), text).expect("the folder is writable");
    let served = bed.serve();
    let mut host = search_host(&served);
    let mut declared = |tool: &str, intent: Value| {
        let arguments =
            json!({"name": format!("s:{tool}"), "args": {"key": tool}, "intent": intent});
        call(&mut host, "call_tool_write", &arguments)["isError"] == json!(true)
    };
    assert!(!declared("none", json!({"operation_type": "write"})));
    assert!(declared(
        "none",
        json!({"operation_type": "write", "data_sensitivity": "private"})
    ));
    assert!(declared(
        "none",
        json!({"operation_type": "write", "reason": "to delete"})
    ));
    assert!(!declared("changes", json!({"operation_type": "write"})));
    let mut direct = host_at(&served, "/direct");
    for tool in ["changes", "destroys"] {
        let text = talk::call_text(&mut direct, &format!("s__{tool}"), r#"{"key":"direct"}"#);
        assert!(
            text.starts_with("[callgate] Action denied by policy."),
            "{text}"
        );
    }
    let found = stdout(&run(
        &bed,
        &["activity", "list", "--json", "--intent-type", "destructive"],
    ));
    let found: Value = serde_json::from_str(&found).expect("JSON on stdout");
    assert_eq!(found["total"], 1, "{found}");
    let record = &found["activities"][0];
    assert_eq!(
        (&record["status"], &record["tool"]),
        (&json!("blocked"), &json!("destroys"))
    );
    assert_eq!(
        record["metadata"]["intent"],
        json!({"operation_type": "destructive", "inferred": true})
    );
}

#[test]
fn arguments_that_violate_the_schema_are_refused_and_not_forwarded() {
    let strict = json!([{"name": "open", "inputSchema": {"type": "object",
        "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}, "required": ["path"]}}]);
    let bed = bed_with(&strict, "");
    let served = bed.serve();
    let mut host = search_host(&served);
    let bad = json!({"name": "s:open", "args": {"depth": "two"}, "operation_type": "write"});
    let (code, text) = refusal(&call(&mut host, "call_tool_write", &bad));
    assert_eq!(code, "INVALID_ARGUMENTS");
    for part in [
        "'s:open'",
        "depth: \"two\" is not of type \"integer\"",
        "\"path\" is a required property",
        "\"required\":[\"path\"]",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(ledger(&bed), [""; 0]);
    let mended =
        json!({"name": "s:open", "args": {"path": "a", "depth": 2}, "operation_type": "write"});
    assert!(
        call(&mut host, "call_tool_write", &mended)
            .get("isError")
            .is_none()
    );
    let mut direct = host_at(&served, "/direct");
    talk::call_text(&mut direct, "s__open", r#"{"depth":"two"}"#);
    assert_eq!(
        ledger(&bed).len(),
        2,
        "the direct view leaves arguments to the server"
    );
}
