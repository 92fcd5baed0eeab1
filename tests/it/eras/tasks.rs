//! Tasks of the extension of 2026-07-28: each is shown under an id that leads back to its server, and only hosts that
//! can ask for its result are given one.

use serde_json::{Value, json};

use super::{post, post_with, stateless_as};
use crate::approvals::token;
use crate::setup::Bed;
use crate::talk::{call, http_as, introduction, received, request};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn two(speaks: &str) -> String {
    let server = |name: &str| {
        format!(
            "  {name}: {{command: '@conformance@', args: [--era, {speaks}, --log, '@dir@/{name}.log']}}\n"
        )
    };
    format!(
        "servers:\n{}{}policy: allow-all\n",
        server("a"),
        server("b")
    )
}

fn capabilities() -> Value {
    json!({"elicitation": {}, "extensions": {EXTENSION: {}}})
}

fn line(method: &str, params: Value) -> String {
    stateless_as(method, params, &capabilities())
}

fn begin(tool: &str) -> String {
    line(
        "tools/call",
        json!({"name": tool, "arguments": {"as_task": "yes"}}),
    )
}

fn about(method: &str, id: &str) -> String {
    line(method, json!({"taskId": id}))
}

#[test]
fn a_task_of_the_stateless_era_leads_back_to_its_server() {
    let bed = Bed::new(&two("stateless"));
    let served = bed.serve();
    let discovered = post(&served, &line("server/discover", json!({}))).1;
    let offered = &discovered["result"]["capabilities"]["extensions"];
    assert_eq!(*offered, json!({EXTENSION: {}}), "{discovered}");
    for (server, expected) in [("a", "a:t0"), ("b", "b:t0"), ("b", "b:t1")] {
        let created = post(&served, &begin(&format!("{server}__test_simple_text"))).1;
        assert_eq!(created["result"]["resultType"], "task", "{created}");
        assert_eq!(created["result"]["taskId"], expected);
    }
    let asked = post(&served, &about("tasks/get", "b:t0")).1;
    assert_eq!(asked["result"]["taskId"], "b:t0", "{asked}");
    assert_eq!(asked["result"]["resultType"], "complete");
    let question = &asked["result"]["inputRequests"]["q"];
    assert_eq!(question["params"]["message"], "t0", "text stays");
    let answers =
        json!({"taskId": "b:t0", "inputResponses": {"q": {"action": "accept", "content": {}}}});
    let updated = post(&served, &line("tasks/update", answers)).1;
    assert_eq!(updated["result"]["resultType"], "complete", "{updated}");
    let done = post(&served, &about("tasks/get", "b:t0")).1;
    assert_eq!(done["result"]["status"], "completed", "{done}");
    // What the result of a task names is its server's as well.
    let link = done["result"]["result"]["content"][0]["uri"].as_str();
    assert_eq!(link, Some("memo://t0"));
    let cancelled = post(&served, &about("tasks/cancel", "b:t1")).1;
    assert!(cancelled.get("result").is_some(), "{cancelled}");
    let still = post(&served, &about("tasks/get", "a:t0")).1;
    assert_eq!(still["result"]["status"], "input_required", "{still}");
    for (server, methods) in [
        ("a", vec!["tasks/get"]),
        ("b", vec!["tasks/get", "tasks/update", "tasks/cancel"]),
    ] {
        for method in methods {
            let told = received(&bed, &format!("{server}.log"), method);
            let is_own = |id: &str| id.starts_with("\"t");
            assert!(
                !told.is_empty()
                    && told
                        .iter()
                        .all(|frame| frame.param("taskId").is_some_and(is_own))
            );
        }
    }
    let secret = token(&bed, &["--name", "other", "--role", "agent"]);
    for id in ["a:t0", "t0", "c:t0"] {
        let refused = post_with(&served, &secret, &about("tasks/get", id)).1;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
}

#[test]
fn only_hosts_that_can_ask_for_a_task_declare_tasks_to_a_server() {
    let bed = Bed::new(&two("stateless"));
    let served = bed.serve();
    let mut host = served.host();
    let introduced = request(
        &mut host,
        &introduction(Some(capabilities().to_string().as_str())),
    );
    assert_eq!(
        introduced["result"]["capabilities"].get("extensions"),
        None,
        "{introduced}"
    );
    let mut host = http_as(&served, &capabilities().to_string());
    let answer = call(&mut host, "a__test_simple_text", "{}");
    assert!(answer.get("result").is_some(), "{answer}");
    let calls = received(&bed, "a.log", "tools/call");
    let declared = calls[0].meta("io.modelcontextprotocol/clientCapabilities");
    let declared: Value = serde_json::from_str(declared.expect("it declares some")).expect("JSON");
    assert_eq!(declared, json!({"elicitation": {}, "extensions": {}}));

    let handshake = Bed::new(&two("handshake"));
    let served = handshake.serve();
    let plain = line("tools/call", json!({"name": "a__test_simple_text"}));
    assert_eq!(post(&served, &plain).1["result"]["resultType"], "complete");
    for introduced in received(&handshake, "a.log", "initialize") {
        let declared = introduced.param("capabilities").unwrap_or_default();
        assert!(!declared.contains(EXTENSION), "{declared}");
    }
    let wanting = json!({"notifications": {"taskIds": ["a:t0"]}});
    let refused = post(
        &served,
        &stateless_as("subscriptions/listen", wanting, &json!({})),
    );
    assert_eq!(refused.0, 400, "{}", refused.1);
    let needed = &refused.1["error"]["data"]["requiredCapabilities"];
    assert_eq!(*needed, json!({"extensions": {EXTENSION: {}}}));
}
