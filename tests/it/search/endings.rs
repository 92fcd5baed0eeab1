//! Every outcome of an API call has its status, and every filter finds its records.

use serde_json::{Value, json};

use super::api::{admin, get, post};
use crate::approvals::{token, told};
use crate::evidence::ledger;
use crate::setup::Bed;

const CONFIG: &str = "\
servers:
  n: {command: '@counter@', args: [--ledger, '@dir@/ledger'], timeout: 1s}
  gone: {command: '@dir@/no-such-program'}
policy: '@dir@/policy.yaml'
";

const POLICY: &str = r#"version: "1"
rules:
  - scope: mcp_tool
    deny: [{pattern: "n:env"}]
    require_approval: [{pattern: "n:wipe"}]
    allow: [{pattern: "*:*"}]
  - scope: notes
    allow: [{pattern: "*"}]
    rate_limit: {max_requests: 1, window: 1h}
tool_scope_map: [{pattern: "n:effect", scope: notes}]
"#;

fn bed() -> Bed {
    let bed = Bed::new(CONFIG);
    std::fs::write(bed.path("policy.yaml"), POLICY).expect("the folder is writable");
    bed
}

fn calling(name: &str, operation: &str, args: Value) -> Value {
    json!({"name": name, "args": args, "intent": {"operation_type": operation}})
}

#[test]
fn every_outcome_of_an_api_call_has_its_status() {
    let bed = bed();
    let served = bed.serve();
    let host = admin(&served);
    let ended = |body: &Value| {
        let (status, body) = post(&host, body);
        (status, body["code"].as_str().map(str::to_owned), body)
    };
    let effect = calling("n:effect", "write", json!({"key": "e"}));
    let wipe = calling("n:wipe", "destructive", json!({"key": "w"}));
    let slow = calling("n:slow", "write", json!({"key": "s", "ms": 60_000}));
    for (body, expected, code) in [
        (&effect, 200, None),
        (&effect, 429, Some("LIMIT_REACHED")),
        (
            &calling("n:env", "write", json!({})),
            403,
            Some("POLICY_DENIED"),
        ),
        (
            &calling("n:nothing", "read", json!({})),
            404,
            Some("TOOL_NOT_FOUND"),
        ),
        (
            &calling("gone:x", "read", json!({})),
            502,
            Some("UPSTREAM_UNAVAILABLE"),
        ),
        (&slow, 504, Some("UPSTREAM_TIMEOUT")),
        (
            &calling("n:die", "write", json!({})),
            502,
            Some("UPSTREAM_UNAVAILABLE"),
        ),
    ] {
        let (status, said, whole) = ended(body);
        assert_eq!(
            (status, said.as_deref()),
            (expected, code),
            "{body}: {whole}"
        );
    }
    let (status, code, asked) = ended(&wipe);
    assert_eq!(
        (status, code.as_deref()),
        (409, Some("APPROVAL_REQUIRED")),
        "{asked}"
    );
    let id = asked["approval_id"].as_str().expect("an id");
    assert!(
        asked["approval_url"]
            .as_str()
            .is_some_and(|url| url.ends_with(id))
    );
    let eve = token(&bed, &["--name", "eve", "--role", "approver"]);
    assert_eq!(
        told(&served, &eve, "POST", &format!("/v1/deny/{id}")).0,
        200
    );
    let (status, code, refused) = ended(&wipe);
    assert_eq!(
        (status, code.as_deref()),
        (409, Some("APPROVAL_DENIED")),
        "{refused}"
    );
    let done = ledger(&bed);
    assert!(
        !done.iter().any(|line| line.starts_with("wipe")),
        "{done:?}"
    );
}

#[test]
fn every_activity_filter_finds_exactly_its_matches() {
    let bed = bed();
    let served = bed.serve();
    let host = admin(&served);
    post(&host, &calling("n:effect", "write", json!({"key": "e"})));
    post(&host, &calling("n:env", "write", json!({})));
    post(&host, &calling("n:read_thing", "read", json!({"key": "r"})));
    let all = get(&host, "/activity?type=tool_call").1;
    assert_eq!(all["total"], 3, "{all}");
    let effect = all["activities"].as_array().expect("a list").iter();
    let effect = effect
        .rev()
        .find(|one| one["tool"] == "effect")
        .expect("it is there");
    // A text that is an id of a request is on record with its quotes.
    let of = |key: &str| {
        effect[key]
            .as_str()
            .expect("a text")
            .trim_matches('"')
            .to_owned()
    };
    for (filter, found) in [
        ("type=tool_call".to_owned(), 3),
        ("type=check".to_owned(), 0),
        ("server=n&type=tool_call".to_owned(), 3),
        ("server=other".to_owned(), 0),
        ("tool=effect".to_owned(), 1),
        (format!("session_id={}", of("session_id")), 1),
        (format!("request_id={}", of("request_id")), 1),
        ("status=blocked".to_owned(), 1),
        ("status=success&type=tool_call".to_owned(), 2),
        ("intent_type=write".to_owned(), 2),
        ("intent_type=destructive".to_owned(), 0),
        ("decision=DENY".to_owned(), 1),
        ("rule=deny:mcp_tool:".to_owned(), 1),
        ("rule=mcp_tool".to_owned(), 0),
        ("scope=notes".to_owned(), 1),
        ("tenant=local&type=tool_call".to_owned(), 3),
        ("tenant=other".to_owned(), 0),
        ("agent=api".to_owned(), 3),
        ("agent=nobody".to_owned(), 0),
        (format!("parent_id={}", of("id")), 0),
        ("since=2020-01-01T00:00:00Z&type=tool_call".to_owned(), 3),
        ("until=2020-01-01T00:00:00Z".to_owned(), 0),
    ] {
        let (status, listed) = get(&host, &format!("/activity?{filter}"));
        assert_eq!(
            (status, &listed["total"]),
            (200, &json!(found)),
            "{filter}: {listed}"
        );
        let count = listed["activities"].as_array().map(Vec::len);
        assert_eq!(count, Some(found), "{filter}");
    }
}
