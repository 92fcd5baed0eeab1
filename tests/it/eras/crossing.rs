//! A host and a server of different eras, when the server asks something in the middle of a call.

use std::fs;

use callgate_testkit::{Frame, Host, HttpUpstream, wait_until};
use serde_json::{Value, json};

use super::{config, exchange, post, stateless};
use crate::evidence::{assert_sound, records};
use crate::reload::reloads;
use crate::setup::{Bed, Served};
use crate::talk::{DEADLINE, call_line, parsed, received, stdio_as, text_of};

const TOOL: &str = "test_input_required_result_elicitation";

/// A call of the asking tool, in its first or in a later round.
fn round(state: Option<&Value>, responses: Value) -> String {
    let mut params = json!({"name": TOOL, "arguments": {"k": 1.0}});
    if let Some(state) = state {
        params["requestState"] = state.clone();
        params["inputResponses"] = responses;
    }
    stateless("tools/call", params)
}

fn alice() -> Value {
    json!({"user_name": {"action": "accept", "content": {"name": "Alice"}}})
}

/// The state that a first round gave.
fn asked(answer: &Value) -> Value {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let question = &result["inputRequests"]["user_name"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "What is your name?");
    result["requestState"].clone()
}

/// How often the server was asked to do the tool.
fn calls(bed: &Bed) -> usize {
    let calls = received(bed, "upstream.log", "tools/call");
    let of_tool = |frame: &&Frame| frame.raw.contains(TOOL);
    calls.iter().filter(of_tool).count()
}

fn greeted(answer: &Value) {
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(text_of(answer), "Hello, Alice!");
}

#[test]
fn a_handshake_server_that_asks_runs_its_tool_once() {
    let over_stdio = Bed::new(&config("handshake"));
    let over_http = Bed::new(&config("handshake"));
    let log = over_http.path("upstream.log").display().to_string();
    let upstream = HttpUpstream::start("conformance-upstream", &["--log", &log]);
    let upstream = upstream.expect("it listens");
    let config = format!(
        "servers: {{c: {{url: '{}'}}}}\nnaming: {{prefix: never}}\npolicy: allow-all\n",
        upstream.url()
    );
    fs::write(over_http.path("callgate.yaml"), config).expect("it is ours");
    for bed in [over_stdio, over_http] {
        let mut served = bed.serve();
        let state = asked(&post(&served, &round(None, Value::Null)).1);
        assert_eq!(calls(&bed), 1);
        let missing = post(&served, &round(Some(&state), json!({"other": {}}))).1;
        let state = asked(&missing);
        greeted(&post(&served, &round(Some(&state), alice())).1);
        assert_eq!(calls(&bed), 1, "three rounds, and the tool was done once");
        let sent = received(&bed, "upstream.log", "tools/call");
        let call = sent
            .iter()
            .find(|frame| frame.raw.contains(TOOL))
            .expect("the call");
        assert!(
            !call.raw.contains("io.modelcontextprotocol/"),
            "{}",
            call.raw
        );
        assert!(call.raw.contains(r#""k":1.0"#), "{}", call.raw);
        stop(&mut served);

        let records = records(&bed);
        let parents: Vec<_> = records
            .iter()
            .map(|record| record["parent_id"].clone())
            .collect();
        let first = records[0]["id"].clone();
        assert_eq!(
            parents,
            [Value::Null, first.clone(), first],
            "each round is on record"
        );
        assert!(records.iter().all(|record| record["decision"] == "ALLOW"));
        assert!(records.iter().all(|record| record["status"] == "success"));
        assert_sound(&bed);
    }
}

fn stop(served: &mut Served) {
    crate::evidence::signal(served.process.pid(), rustix::process::Signal::TERM);
    served.process.wait(DEADLINE).expect("it ends");
}

#[test]
fn a_restarted_host_can_answer_without_running_the_tool_again() {
    let bed = Bed::new(&config("handshake"));
    let _served = bed.serve();
    let mut first = bed.stdio();
    let state = asked(&exchange(&mut first, &round(None, Value::Null)));
    first.close(DEADLINE).expect("it ends with its host");
    let mut second = bed.stdio();
    greeted(&exchange(&mut second, &round(Some(&state), alice())));
    assert_eq!(calls(&bed), 1);
}

#[test]
fn foreign_forged_and_used_request_states_are_refused() {
    let bed = Bed::new(&config("handshake"));
    let served = bed.serve();
    let refused = |answer: &Value, why: &str| {
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(message, format!("`requestState` refused: {why}"));
    };
    let state = asked(&post(&served, &round(None, Value::Null)).1);
    let text = state.as_str().expect("a string");
    let forged = json!(format!("{text}-TAMPERED"));
    let not_ours = "it was issued for another request";
    refused(&post(&served, &round(Some(&forged), alice())).1, not_ours);
    let foreign = json!("somebody else's");
    refused(
        &post(&served, &round(Some(&foreign), alice())).1,
        "this gateway did not issue it",
    );
    let other = round(Some(&state), alice()).replace(r#""k":1.0"#, r#""k":2.0"#);
    refused(&post(&served, &other).1, not_ours);
    // The local user is another principal than the agent's token.
    let mut local = bed.stdio();
    refused(
        &exchange(&mut local, &round(Some(&state), alice())),
        not_ours,
    );
    greeted(&post(&served, &round(Some(&state), alice())).1);
    let used = "it was already used, or its call was cancelled";
    refused(&post(&served, &round(Some(&state), alice())).1, used);
    assert_eq!(calls(&bed), 1);
    drop(served);

    let served = bed.serve();
    let gone = "the gateway process that issued it has ended";
    refused(&post(&served, &round(Some(&state), alice())).1, gone);
    assert_eq!(calls(&bed), 1);
}

#[test]
fn policy_decides_every_round_again() {
    let allow = "version: '1'\nrules: [{scope: mcp_tool, allow: [{pattern: '*:*'}]}]\n";
    let deny = "version: '1'\nrules: [{scope: mcp_tool, deny: [{pattern: '*:*', message: 'not any more'}]}]\n";
    let bed = Bed::new(&config("handshake").replace("allow-all", "policy.yaml"));
    let write = |text: &str| fs::write(bed.path("policy.yaml"), text).expect("it is ours");
    write(allow);
    let served = bed.serve();
    let state = asked(&post(&served, &round(None, Value::Null)).1);
    write(deny);
    assert!(wait_until(DEADLINE, || reloads(&served).0 == 1));
    let denied = post(&served, &round(Some(&state), alice())).1;
    assert!(
        text_of(&denied).contains("Reason: not any more"),
        "{denied}"
    );
    assert_eq!(denied["result"]["resultType"], "complete");
    write(allow);
    assert!(wait_until(DEADLINE, || reloads(&served).0 == 2));
    greeted(&post(&served, &round(Some(&state), alice())).1);
    assert_eq!(calls(&bed), 1);
}

#[test]
fn questions_can_come_together_or_in_sequence() {
    let bed = Bed::new(&config("handshake"));
    let served = bed.serve();
    let call = |name: &str, more: Value| {
        let mut params = json!({"name": name});
        for (key, value) in more.as_object().into_iter().flatten() {
            params[key] = value.clone();
        }
        post(&served, &stateless("tools/call", params)).1["result"].clone()
    };
    let several = "test_input_required_result_multiple_inputs";
    let asked = call(several, json!({}));
    let keys: Vec<_> = asked["inputRequests"]
        .as_object()
        .expect("questions")
        .keys()
        .collect();
    assert_eq!(keys.len(), 3, "{asked}");
    let answers = json!({
        "user_name": {"action": "accept", "content": {"name": "A"}},
        "greeting": {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"},
        "client_roots": {"roots": []},
    });
    let done = call(
        several,
        json!({"requestState": asked["requestState"], "inputResponses": answers}),
    );
    assert_eq!(done["resultType"], "complete", "{done}");

    let twice = "test_input_required_result_multi_round";
    let accept = json!({"action": "accept", "content": {}});
    let one = call(twice, json!({}));
    let two = call(
        twice,
        json!({"requestState": one["requestState"], "inputResponses": {"step1": accept}}),
    );
    assert!(two["inputRequests"]["step2"].is_object(), "{two}");
    assert_ne!(one["requestState"], two["requestState"]);
    let done = call(
        twice,
        json!({"requestState": two["requestState"], "inputResponses": {"step2": accept}}),
    );
    assert_eq!(done["resultType"], "complete", "{done}");
}

#[test]
fn questions_of_a_stateless_server_reach_handshake_hosts() {
    let bed = Bed::new(&config("stateless"));
    let served = bed.serve();
    let capabilities = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;
    let hosts: [&mut dyn Host; 2] = [
        &mut stdio_as(&bed, Some(capabilities)),
        &mut crate::talk::http_as(&served, capabilities),
    ];
    for host in hosts {
        let mut questions = Vec::new();
        let mut answer = |question: &Frame| {
            questions.push(question.method.clone().unwrap_or_default());
            let id = question.id.as_deref()?;
            let result = r#"{"action":"accept","content":{"name":"Alice","x":1.0}}"#;
            Some(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
            ))
        };
        let line = call_line("1", TOOL, "{}");
        let frames = host.exchange(&line, &mut answer).expect("it is answered");
        let last = parsed(frames.last().expect("a response"));
        assert_eq!(text_of(&last), "Hello, Alice!");
        assert_eq!(last["result"].get("resultType"), None, "{last}");
        let line = call_line("2", "test_input_required_result_multi_round", "{}");
        let frames = host.exchange(&line, &mut answer).expect("it is answered");
        let last = parsed(frames.last().expect("a response"));
        assert!(text_of(&last).contains("step2"), "{last}");
        assert_eq!(questions, ["elicitation/create"; 3]);
    }
    let sent = received(&bed, "upstream.log", "tools/call");
    assert!(
        sent.iter().any(|frame| frame.raw.contains(r#""x":1.0"#)),
        "answers pass byte for byte"
    );
}

const SHELF: &str = "servers: {a: {command: '@shelf@', args: [--tag, a, --log, '@dir@/upstream.log']}}\npolicy: allow-all\n";

#[test]
fn a_url_needed_by_a_handshake_server_becomes_a_question_and_a_retry() {
    let bed = Bed::new(SHELF);
    let served = bed.serve();
    let all = json!({"elicitation": {"form": {}, "url": {}}});
    let call = |more: Value| {
        let mut params = json!({"name": "a__need_url", "arguments": {}});
        for (key, value) in more.as_object().into_iter().flatten() {
            params[key] = value.clone();
        }
        let line = super::stateless_as("tools/call", params, &all);
        post(&served, &line).1["result"].clone()
    };
    let asked = call(json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let questions = asked["inputRequests"].as_object().expect("questions");
    let (key, question) = questions.iter().next().expect("one question");
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["mode"], "url");
    assert_eq!(question["params"]["url"], "https://example.com/");
    assert_eq!(question["params"].get("elicitationId"), None);
    let mut more = json!({"inputResponses": {key: {"action": "accept"}}});
    if let Some(state) = asked.get("requestState") {
        more["requestState"] = state.clone();
    }
    let again = call(more);
    assert_eq!(
        again["resultType"], "input_required",
        "it still needs it: {again}"
    );
    let calls = received(&bed, "upstream.log", "tools/call");
    assert_eq!(
        calls.len(),
        2,
        "the call is made anew once the link was opened"
    );
    assert_sound(&bed);
}

#[test]
fn a_stateless_host_subscribes_to_a_handshake_servers_resource() {
    let bed = Bed::new(SHELF);
    let mut host = bed.stdio();
    exchange(&mut host, &stateless("resources/list", json!({})));
    let wanted = json!({"notifications": {"resourceSubscriptions": ["a://1"]}});
    let listen = stateless("subscriptions/listen", wanted.clone());
    host.send(&listen.replace("\"id\":\"m\"", "\"id\":77"))
        .expect("it reads");
    let acknowledged = parsed(&host.recv().expect("the first thing said"));
    assert_eq!(
        acknowledged["params"]["notifications"],
        wanted["notifications"]
    );
    let follows = |method: &str| received(&bed, "upstream.log", method).len();
    assert!(wait_until(DEADLINE, || follows("resources/subscribe") == 1));
    let touch = json!({"name": "a__touch", "arguments": {"key": "a://1"}});
    host.send(&stateless("tools/call", touch))
        .expect("it reads");
    let updated =
        |frame: &Frame| frame.method.as_deref() == Some("notifications/resources/updated");
    let told = parsed(&host.recv_where(updated).expect("it is told"));
    assert_eq!(told["params"]["uri"], "a://1");
    let tag = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(tag, 77);
    host.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}"#)
        .expect("it reads");
    assert!(
        wait_until(DEADLINE, || follows("resources/unsubscribe") == 1),
        "no host is subscribed any more"
    );
}
