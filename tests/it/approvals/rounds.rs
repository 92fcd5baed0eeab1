//! Hosts of 2026-07-28, and calls of several rounds: a person is asked once, and the question cannot be skipped.

use serde_json::{Value, json};

use super::{ASKING, approve, host_with, token};
use crate::eras::{post, post_with, stateless_as};
use crate::evidence::{ledger, records, signal};
use crate::setup::{Bed, Served};
use crate::talk::{DEADLINE, answer_line, call_line, parsed, received, stdio_as, text_of};
use callgate_testkit::Host as _;

const LOGGED: &str = "\
servers: {n: {command: '@counter@', args: [--log, '@dir@/log', --ledger, '@dir@/ledger']}}
policy: default
";

/// A call of `wipe` by a host that can open pages, or come back to one.
fn wipe(capabilities: &Value, key: &str, back: Option<(&Value, Value)>) -> String {
    let mut params = json!({"name": "n__wipe", "arguments": {"key": key}});
    if let Some((state, responses)) = back {
        params["requestState"] = state.clone();
        params["inputResponses"] = responses;
    }
    stateless_as("tools/call", params, capabilities)
}

fn pages() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}})
}

fn accepts() -> Value {
    json!({"approval": {"action": "accept"}})
}

/// The state of an answer that asks for an approval, and the approval.
fn asked(answer: &Value) -> (Value, String) {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let id = result["_meta"]["dev.callgate/approval_id"].as_str();
    let id = id.expect("it names the approval").to_owned();
    let question = &result["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create");
    let message = question["params"]["message"].as_str().expect("a message");
    assert!(message.starts_with("[callgate] Action requires approval.\nReason: "));
    assert!(message.contains(&id), "{message}");
    (result["requestState"].clone(), id)
}

fn stop(mut served: Served) {
    signal(served.process.pid(), rustix::process::Signal::TERM);
    served.process.wait(DEADLINE).expect("it ends");
}

#[test]
fn a_stateless_host_is_sent_to_the_approval_page() {
    let bed = Bed::new(LOGGED);
    let served = bed.serve();
    let first = post(&served, &wipe(&pages(), "a", None)).1;
    let (state, id) = asked(&first);
    let question = &first["result"]["inputRequests"]["approval"]["params"];
    assert_eq!(question["mode"], "url");
    let url = served.url.replace("/mcp", &format!("/approvals/{id}"));
    assert_eq!(question["url"], url.as_str());
    // Resending the call does not approve it.
    let (state, again) = asked(&post(&served, &wipe(&pages(), "a", Some((&state, accepts())))).1);
    assert_eq!(again, id, "one decision per call");
    assert_eq!(ledger(&bed), Vec::<String>::new());
    // Neither the question nor the state is lost with the gateway.
    stop(served);
    let served = bed.serve();
    approve(&served, &id);
    let done = post(&served, &wipe(&pages(), "a", Some((&state, accepts())))).1;
    assert_eq!(text_of(&done), "wipe a", "{done}");
    assert_eq!(done["result"]["resultType"], "complete");
    let sent = received(&bed, "log", "tools/call");
    assert_eq!(sent.len(), 1);
    let ours = ["requestState", "inputResponses", "approval"];
    assert!(
        !ours.iter().any(|ours| sent[0].raw.contains(ours)),
        "{}",
        sent[0].raw
    );
    // The yes is used up, whatever is brought back.
    let (_, other) = asked(&post(&served, &wipe(&pages(), "a", Some((&state, accepts())))).1);
    assert_ne!(other, id);
    assert_eq!(ledger(&bed), ["wipe:a"]);
}

#[test]
fn stateless_hosts_are_asked_in_a_form_they_support() {
    let bed = Bed::new(ASKING);
    let served = bed.serve();
    let forms = json!({"elicitation": {}});
    let shown = post(&served, &wipe(&forms, "a", None)).1;
    let (state, id) = asked(&shown);
    let params = &shown["result"]["inputRequests"]["approval"]["params"];
    assert_eq!(params["requestedSchema"]["type"], "object", "{shown}");
    assert_eq!(params.get("url"), None);
    // A host that declines, or cannot be asked, gets a text answer.
    let declined = json!({"approval": {"action": "decline"}});
    let words = [
        post(&served, &wipe(&forms, "a", Some((&state, declined)))).1,
        post(&served, &wipe(&json!({}), "a", None)).1,
    ];
    for answer in words {
        let text = text_of(&answer);
        assert!(
            text.starts_with("[callgate] Action requires approval.\n"),
            "{text}"
        );
        assert!(text.contains(&id), "{text}");
    }
    approve(&served, &id);
    let done = post(&served, &wipe(&json!({}), "a", None)).1;
    assert_eq!(
        text_of(&done),
        "wipe a",
        "the same call again goes on as well"
    );
}

#[test]
fn a_request_state_is_bound_to_one_call_and_principal() {
    let bed = Bed::new(ASKING);
    let served = bed.serve();
    let (state, id) = asked(&post(&served, &wipe(&pages(), "a", None)).1);
    approve(&served, &id);
    let forged = json!(format!("{}-TAMPERED", state.as_str().expect("a text")));
    let refused = [
        post(&served, &wipe(&pages(), "b", Some((&state, accepts())))).1,
        post(&served, &wipe(&pages(), "a", Some((&forged, accepts())))).1,
    ];
    for answer in refused {
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let ci = token(&bed, &["--name", "ci", "--role", "agent"]);
    let line = wipe(&pages(), "a", Some((&state, accepts())));
    let stolen = post_with(&served, &ci, &line).1;
    assert_eq!(stolen["error"]["code"], -32602, "{stolen}");
    assert_eq!(ledger(&bed), Vec::<String>::new());
    assert_eq!(text_of(&post(&served, &line).1), "wipe a");
    // The same token over the other form of the protocol has nothing of it.
    let mut host = host_with(&served, &served.token);
    super::approval_of(&super::wipe(&mut host, "a"));
}

#[test]
fn a_stateless_host_confirms_by_repeating_the_call() {
    let bed = Bed::new(
        "servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}\npolicy: '@dir@/policy.yaml'\n",
    );
    let policy = "version: \"1\"\nrules: [{scope: mcp_tool, confirm: [{pattern: \"n:wipe\"}], allow: [{pattern: \"*:*\"}]}]\n";
    std::fs::write(bed.path("policy.yaml"), policy).expect("it is ours");
    let served = bed.serve();
    let forms = json!({"elicitation": {}});
    let says = |action: &str| json!({"confirmation": {"action": action}});
    let question = |answer: &Value| {
        assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
        let asked = &answer["result"]["inputRequests"]["confirmation"]["params"]["message"];
        let asked = asked.as_str().expect("a message");
        assert!(asked.starts_with("Allow the call of `n:wipe`?"), "{asked}");
        answer["result"]["requestState"].clone()
    };
    let state = question(&post(&served, &wipe(&forms, "a", None)).1);
    // What answers another question confirms nothing.
    let state = question(&post(&served, &wipe(&forms, "a", Some((&state, accepts())))).1);
    assert_eq!(ledger(&bed), Vec::<String>::new());
    let done = post(&served, &wipe(&forms, "a", Some((&state, says("accept"))))).1;
    assert_eq!(text_of(&done), "wipe a", "{done}");
    let state = question(&post(&served, &wipe(&forms, "b", None)).1);
    let refused = post(&served, &wipe(&forms, "b", Some((&state, says("decline"))))).1;
    assert!(
        text_of(&refused).contains("the user did not confirm this call"),
        "{refused}"
    );
    assert_eq!(ledger(&bed), ["wipe:a"]);
    let statuses: Vec<_> = records(&bed).iter().map(|r| r["status"].clone()).collect();
    assert_eq!(
        statuses,
        ["blocked", "blocked", "success", "blocked", "rejected"]
    );
}

const TOOL: &str = "test_input_required_result_elicitation";
const ASKED_TOOL: &str = "version: \"1\"\nrules: [{scope: mcp_tool, require_approval: [{pattern: \"c:test_input_required_result_elicitation\"}], allow: [{pattern: \"*:*\"}]}]\n";

fn asking_server(era: &str) -> Bed {
    let bed = Bed::new(&format!(
        "servers: {{c: {{command: '@conformance@', args: [--era, {era}, --log, '@dir@/upstream.log']}}}}\nnaming: {{prefix: never}}\npolicy: '@dir@/policy.yaml'\n"
    ));
    std::fs::write(bed.path("policy.yaml"), ASKED_TOOL).expect("it is ours");
    bed
}

#[test]
fn one_approval_covers_all_rounds_of_a_parked_call() {
    let bed = asking_server("handshake");
    let served = bed.serve();
    let line = |back: Option<(&Value, Value)>| {
        let mut params = json!({"name": TOOL, "arguments": {}});
        if let Some((state, responses)) = back {
            params["requestState"] = state.clone();
            params["inputResponses"] = responses;
        }
        stateless_as("tools/call", params, &json!({"elicitation": {}}))
    };
    let (state, id) = asked(&post(&served, &line(None)).1);
    approve(&served, &id);
    // Released, the call is parked by its server's question.
    let parked = post(&served, &line(Some((&state, accepts())))).1;
    let question = &parked["result"]["inputRequests"]["user_name"]["params"]["message"];
    assert_eq!(question, "What is your name?", "{parked}");
    let alice = json!({"user_name": {"action": "accept", "content": {"name": "Alice"}}});
    let state = parked["result"]["requestState"].clone();
    let done = post(&served, &line(Some((&state, alice)))).1;
    assert_eq!(text_of(&done), "Hello, Alice!", "{done}");
    // Another call of the same kind needs another yes.
    let (_, other) = asked(&post(&served, &line(None)).1);
    assert_ne!(other, id);
    let of_call = records(&bed);
    let used: Vec<_> = of_call
        .iter()
        .filter(|record| record["status"] == "success")
        .map(|record| record["metadata"]["approval_id"].clone())
        .collect();
    assert_eq!(used, [id.as_str(), id.as_str()], "{of_call:?}");
}

#[test]
fn one_approval_covers_all_rounds_of_a_resent_call() {
    let bed = asking_server("stateless");
    let served = bed.serve();
    let mut host = stdio_as(&bed, Some(r#"{"elicitation":{}}"#));
    let asked = parsed(
        &host
            .request(&call_line("1", TOOL, "{}"))
            .expect("it answers"),
    );
    let id = super::approval_of(&asked);
    approve(&served, &id);
    let mut questions = 0;
    let frames = host.exchange(&call_line("2", TOOL, "{}"), &mut |question| {
        questions += 1;
        let alice = r#"{"action":"accept","content":{"name":"Alice"}}"#;
        Some(answer_line(question, alice))
    });
    let frames = frames.expect("it is answered");
    let done = parsed(frames.last().expect("an answer"));
    assert_eq!(text_of(&done), "Hello, Alice!", "{done}");
    assert_eq!(questions, 1);
}
