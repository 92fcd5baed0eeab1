//! The REST API: calls by programs, and the record.

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use callgate_testkit::{HttpHost, HttpReply};
use serde_json::{Value, json};

use super::{bed_with, call, search_host, tool};
use crate::evidence::{COUNTER, assert_sound, ledger, record_of, records};
use crate::setup::{Bed, Served};

pub(super) fn admin(served: &Served) -> HttpHost {
    let host = HttpHost::new(&served.url).expect("it listens on plain HTTP");
    host.header("Authorization", &format!("Bearer {}", served.admin_token))
}

/// Asks the API and gives the status and the JSON of its answer.
fn asked(host: &HttpHost, method: &str, path: &str, body: &str) -> (u16, Value) {
    let reply = reply(host, method, path, body);
    let status = reply.status;
    let problem = reply.header("content-type") == Some("application/problem+json");
    let text = reply.text().expect("a body");
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
    assert_eq!(status >= 400, problem, "{text}");
    if problem {
        assert_eq!(json["status"], status, "{text}");
        assert!(
            json["code"].is_string() && json["detail"].is_string(),
            "{text}"
        );
    }
    (status, json)
}

fn reply(host: &HttpHost, method: &str, path: &str, body: &str) -> HttpReply {
    let at = host.at(&format!("/api/v1{path}"));
    let headers = [("Content-Type", "application/json")];
    at.send(method, &headers, body.as_bytes())
        .expect("it answers")
}

pub(super) fn get(host: &HttpHost, path: &str) -> (u16, Value) {
    asked(host, "GET", path, "")
}

pub(super) fn post(host: &HttpHost, body: &Value) -> (u16, Value) {
    asked(host, "POST", "/tools/call", &body.to_string())
}

#[test]
fn the_request_id_links_an_answer_to_its_record() {
    let bed = bed_with(
        &json!([tool("destroys", json!({"destructiveHint": true}))]),
        "",
    );
    let served = bed.serve();
    let host = admin(&served);
    let declared =
        json!({"operation_type": "read", "data_sensitivity": "private", "reason": "only looking"});
    let body = json!({"name": "s:destroys", "args": {"key": "k"}, "intent": declared});
    let refused = reply(&host, "POST", "/tools/call", &body.to_string());
    assert_eq!(refused.status, 403);
    let id = refused
        .header("x-request-id")
        .expect("the header")
        .to_owned();
    let (status, found) = get(&host, &format!("/activity?request_id={id}"));
    assert_eq!((status, &found["total"]), (200, &json!(1)), "{found}");
    let record = &found["activities"][0];
    assert_eq!(record["status"], "blocked");
    assert_eq!(record["metadata"]["intent"], declared);
    assert_eq!(record["metadata"]["tool_variant"], "call_tool_read");
}

#[test]
fn api_calls_return_the_right_status_and_code() {
    let tools = json!([
        tool("reads", json!({"readOnlyHint": true})),
        tool("destroys", json!({"destructiveHint": true})),
        {"name": "strict", "inputSchema": {"type": "object", "required": ["path"]}},
    ]);
    let bed = bed_with(&tools, "");
    let rules = "version: '1'\nname: some\nrules:\n  - scope: mcp_tool\n    deny: [{pattern: 's:reads', when: 'args.key == \"no\"'}]\n    allow: [{pattern: '*:*'}]\n";
    std::fs::write(bed.path("policy.yaml"), rules).expect("the folder is writable");
    let text = bed
        .filled_in(super::CATALOG)
        .replace("policy: allow-all", "policy: policy.yaml");
    std::fs::write(bed.path("callgate.yaml"), text).expect("the folder is writable");
    let served = bed.serve();
    let host = admin(&served);
    let reading = |key: &str| json!({"name": "s:reads", "args": {"key": key}, "intent": {"operation_type": "read"}});
    let (status, result) = post(
        &host,
        &json!({"tool_name": "call_tool_read", "arguments": reading("yes")}),
    );
    assert_eq!(
        (status, &result["content"][0]["text"]),
        (200, &json!("reads yes"))
    );
    let (status, _) = post(&host, &reading("bare"));
    assert_eq!(status, 200, "the arguments alone are enough");
    let cases = [
        (reading("no"), 403, "POLICY_DENIED"),
        (
            json!({"name": "s:destroys", "operation_type": "read"}),
            403,
            "SERVER_MISMATCH",
        ),
        (json!({"name": "s:reads"}), 422, "MISSING_INTENT"),
        (
            json!({"tool_name": "call_tool_write", "arguments": reading("x")}),
            422,
            "INTENT_MISMATCH",
        ),
        (
            json!({"name": "s:strict", "operation_type": "write"}),
            422,
            "INVALID_ARGUMENTS",
        ),
        (
            json!({"name": "s:nothing", "operation_type": "read"}),
            404,
            "TOOL_NOT_FOUND",
        ),
        (
            json!({"tool_name": "call_tool", "arguments": {}}),
            404,
            "TOOL_NOT_FOUND",
        ),
    ];
    for (body, expected, code) in cases {
        let (status, problem) = post(&host, &body);
        assert_eq!(
            (status, problem["code"].as_str()),
            (expected, Some(code)),
            "{body}"
        );
    }
    assert_eq!(asked(&host, "POST", "/tools/call", "[]").0, 400);
    assert_eq!(ledger(&bed), ["reads:yes", "reads:bare"]);
    let all = records(&bed);
    let record = record_of(&all, "yes").expect("it is on record");
    assert_eq!(
        (&record["source"], &record["transport"]),
        (&json!("api"), &json!("http"))
    );
    let anonymous = HttpHost::new(&served.url).expect("it listens");
    assert_eq!(get(&anonymous, "/activity").0, 401);
    let agent = anonymous.header("Authorization", &format!("Bearer {}", served.token));
    assert_eq!(get(&agent, "/activity").0, 403);
}

#[test]
fn the_api_lists_filters_exports_and_counts_records() {
    let bed = Bed::new(COUNTER);
    let served = bed.serve();
    let mut host = search_host(&served);
    for key in ["a", "b", "c"] {
        let arguments =
            json!({"name": "n:effect", "args": {"key": key}, "operation_type": "write"});
        call(&mut host, "call_tool_write", &arguments);
    }
    let blocked = json!({"name": "n:wipe", "args": {"key": "w"}, "operation_type": "destructive"});
    call(&mut host, "call_tool_read", &blocked);
    let host = admin(&served);
    let (_, listed) = get(&host, "/activity?type=tool_call");
    assert_eq!(listed["total"], 4, "{listed}");
    let (_, destructive) = get(&host, "/activity?intent_type=destructive&status=blocked");
    assert_eq!(
        (&destructive["total"], &destructive["activities"][0]["tool"]),
        (&json!(1), &json!("wipe"))
    );
    let (_, by_rule) = get(&host, "/activity?rule=deny:intent:");
    assert_eq!(by_rule["total"], 1, "a rule is asked for by how it begins");
    let id = listed["activities"][0]["id"].as_str().expect("an id");
    assert_eq!(get(&host, &format!("/activity/{id}")).1["id"], id);
    assert_eq!(get(&host, "/activity/01ARZ3NDEKTSV4RRFFQ69G5FAV").0, 404);
    assert_eq!(get(&host, "/activity/nonsense").0, 404);
    for wrong in [
        "status=good",
        "intent_type=delete",
        "decision=MAYBE",
        "type=thing",
        "limit=0",
        "limit=101",
        "since=yesterday",
        "cursor=x",
        "no_such_filter=1",
        "parent_id=7",
    ] {
        let (status, problem) = get(&host, &format!("/activity?{wrong}"));
        assert_eq!(
            (status, problem["code"].as_str()),
            (400, Some("INVALID_PARAMETER")),
            "{wrong}"
        );
    }
    let lines = reply(&host, "GET", "/activity/export?tool=effect", "")
        .text()
        .expect("a body");
    assert_eq!(lines.lines().count(), 3);
    let csv = reply(&host, "GET", "/activity/export?format=csv&tool=effect", "")
        .text()
        .expect("a body");
    assert!(
        csv.starts_with("id,writer,seq,") && csv.lines().count() == 4,
        "{csv}"
    );
    assert_eq!(get(&host, "/activity/export?format=xml").0, 400);
    let (_, counted) = get(&host, "/activity/summary?period=1h");
    assert_eq!(
        counted["by_intent"],
        json!({"write": 3, "destructive": 1}),
        "{counted}"
    );
    assert_eq!(get(&host, "/activity/summary?period=2h").0, 400);
    let (_, described) = get(&host, "/openapi.json");
    for path in [
        "/api/v1/activity",
        "/api/v1/activity/{id}",
        "/api/v1/tools/call",
    ] {
        assert!(described["paths"][path].is_object(), "{path}");
    }
    let parameters = described["paths"]["/api/v1/activity"]["get"]["parameters"].as_array();
    assert_eq!(parameters.map(Vec::len), Some(18));
}

#[test]
fn activity_pages_stay_complete_while_records_arrive() {
    let bed = Bed::new(COUNTER);
    let served = bed.serve();
    let mut host = search_host(&served);
    let mut write = |key: String| {
        let arguments =
            json!({"name": "n:effect", "args": {"key": key}, "operation_type": "write"});
        call(&mut host, "call_tool_write", &arguments);
    };
    (0..25).for_each(|n| write(format!("old-{n}")));
    let reader = admin(&served);
    let mut seen = Vec::new();
    let mut cursor = String::new();
    for round in 0.. {
        let (_, page) = get(
            &reader,
            &format!("/activity?type=tool_call&limit=7{cursor}"),
        );
        let keys = page["activities"].as_array().expect("a list").iter();
        seen.extend(keys.map(|record| {
            record["arguments"]["key"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        }));
        write(format!("new-{round}"));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let unique: HashSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), unique.len()), (25, 25), "{seen:?}");
    assert!(seen.iter().all(|key| key.starts_with("old-")));
}

#[test]
fn two_hundred_answered_calls_are_on_record_after_kill_9() {
    let bed = Bed::new(COUNTER);
    let mut served = bed.serve();
    let calling: Vec<_> = (0..200)
        .map(|n| {
            let mut host = admin(&served);
            host.set_deadline(Duration::from_secs(60));
            thread::spawn(move || {
                let body = json!({"name": "n:effect", "args": {"key": format!("k{n}")}, "operation_type": "write"});
                post(&host, &body).0
            })
        })
        .collect();
    let statuses: Vec<u16> = calling
        .into_iter()
        .map(|call| call.join().expect("it is answered"))
        .collect();
    served.process.kill().expect("it is ours");
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    let all = records(&bed);
    assert_eq!((all.len(), ledger(&bed).len()), (200, 200));
    assert!(all.iter().all(|record| record["status"] == "success"));
    assert_sound(&bed);
}
