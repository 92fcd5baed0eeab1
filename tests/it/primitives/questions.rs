//! Questions of servers to hosts: roots, forms, links and models, each at both doors.

use callgate_testkit::{Frame, Host};
use serde_json::{Value, json};

use super::SEVERAL;
use crate::setup::Bed;
use crate::talk::{answer_line, call, call_line, http_as, parsed, stdio_as, text_of};

const CAPABILITIES: &str =
    r#"{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}"#;

/// Calls an asking tool, answers its question, and gives the question and all frames.
fn asked(host: &mut dyn Host, tool: &str, answer: &str) -> (Frame, Vec<String>) {
    let mut question = None;
    let mut reply = |asked: &Frame| {
        question = Some(asked.clone());
        Some(answer_line(asked, answer))
    };
    let frames = host.exchange(&call_line("1", tool, "{}"), &mut reply);
    let frames = frames.expect("the call is answered");
    (question.expect("it asks"), frames)
}

#[test]
fn every_kind_of_question_is_passed_to_the_host_and_answered() {
    let bed = Bed::new(SEVERAL);
    let served = bed.serve();
    let hosts: [&mut dyn Host; 2] = [
        &mut stdio_as(&bed, Some(CAPABILITIES)),
        &mut http_as(&served, CAPABILITIES),
    ];
    let roots = r#"{"roots":[{"uri":"file:///x","name":null}]}"#;
    let form = r#"{"action":"accept","content":{"name":"n"},"x":1.0}"#;
    let url = r#"{"action":"accept"}"#;
    let model = r#"{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"t","input":{}}],"model":"m"}"#;
    for host in hosts {
        for (tool, answer, method, key, value) in [
            ("ask_roots", roots, "roots/list", "", Value::Null),
            (
                "ask_form",
                form,
                "elicitation/create",
                "message",
                json!("b"),
            ),
            (
                "ask_url",
                url,
                "elicitation/create",
                "elicitationId",
                json!("b-1"),
            ),
            (
                "ask_model",
                model,
                "sampling/createMessage",
                "toolChoice",
                json!({"mode": "auto"}),
            ),
        ] {
            let (question, frames) = asked(host, &format!("b__{tool}"), answer);
            assert_eq!(question.method.as_deref(), Some(method));
            let params = parsed(question.params.as_deref().expect("it has params"));
            assert_eq!(params[key], value, "{tool}");
            let last = frames.last().expect("an exchange ends with its response");
            assert_eq!(text_of(&parsed(last)), answer, "byte for byte");
        }
    }
}

#[test]
fn url_elicitation_completion_is_passed_on_and_its_need_is_an_error() {
    let bed = Bed::new(SEVERAL);
    let mut host = stdio_as(&bed, Some(CAPABILITIES));
    let (_, frames) = asked(&mut host, "b__ask_url", r#"{"action":"accept"}"#);
    let complete = "notifications/elicitation/complete";
    let is_told = |frame: &Frame| frame.method.as_deref() == Some(complete);
    // It belongs to no call, so it may come before the answer or after it.
    let mut frames = frames.iter().filter_map(|line| Frame::parse(line));
    let told = frames.find(is_told).unwrap_or_else(|| {
        let told = host.recv_where(is_told).expect("it is told");
        Frame::parse(&told).expect("a frame")
    });
    assert_eq!(told.param("elicitationId"), Some(r#""b-1""#));
    let needed = call(&mut host, "a__need_url", "{}");
    assert_eq!(needed["error"]["code"], -32042);
    let first = &needed["error"]["data"]["elicitations"][0];
    assert_eq!(first["elicitationId"], "a-1");
}
