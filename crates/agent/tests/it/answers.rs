//! Table: answers of chat-completion servers as they occur, streamed and whole. Each is read right, or fails with its reason.

use callgate_agent::{AgentKind, Proxy};
use callgate_testkit::{ChatModel, ChatReply};
use serde_json::{Value, json};

use crate::stage::Stage;

/// How a step ends after an answer.
enum Ends {
    /// With this text.
    Says(&'static str),
    /// These arguments reach the gate; then the model says it is done.
    Calls(&'static [&'static str]),
    /// A call is answered with an error that contains this text, and reaches no tool; then the model says it is done.
    Answers(&'static str),
    /// With an error that contains this text.
    Fails(&'static str),
}

use Ends::{Answers, Calls, Fails, Says};

struct Case {
    name: &'static str,
    reply: ChatReply,
    ends: Ends,
}

fn case(name: &'static str, reply: ChatReply, ends: Ends) -> Case {
    Case { name, reply, ends }
}

/// A whole answer with this message.
fn whole(message: &Value, reason: &Value) -> ChatReply {
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    ChatReply::json(&json!({"choices": [choice], "usage": {"prompt_tokens": 1}}))
}

fn message(message: &Value) -> ChatReply {
    whole(message, &json!("stop"))
}

/// A stream of these chunks, ended by `[DONE]`.
fn chunks(chunks: &[Value]) -> String {
    let events: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    format!("{events}data: [DONE]\n\n")
}

fn function(name: &str, arguments: &str) -> Value {
    json!({"name": name, "arguments": arguments})
}

fn tool(function: &Value) -> Value {
    json!({"tool_calls": [{"id": "a", "type": "function", "function": function}]})
}

fn piece(function: &Value) -> Value {
    json!({"tool_calls": [{"index": 0, "function": function}]})
}

fn deltas(deltas: &[Value]) -> ChatReply {
    ChatReply::deltas(deltas, "stop")
}

#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn texts() -> Vec<Case> {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}, "c"]);
    let reasoned = json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ok"}]);
    let second = json!({"choices": [
        {"index": 1, "delta": {"content": "other"}}, {"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]});
    let late = json!({"choices": [{"index": 1, "delta": {"content": "other"}}]});
    let in_one = json!({"choices": [{"delta": null, "message": {"content": "ok"}, "finish_reason": "stop"}]});
    let plain = json!({"choices": [{"message": {"content": "ok"}}]}).to_string();
    let event = json!({"choices": [{"delta": {"content": "ok"}}]});
    vec![
        case("text", message(&json!({"content": "ok"})), Says("ok")),
        case(
            "no finish reason",
            whole(&json!({"content": "ok"}), &Value::Null),
            Says("ok"),
        ),
        case(
            "an unknown finish reason",
            whole(&json!({"content": "ok"}), &json!("eos")),
            Says("ok"),
        ),
        case(
            "a list of parts",
            message(&json!({"content": parts})),
            Says("abc"),
        ),
        case(
            "a list of parts, streamed",
            deltas(&[json!({"content": parts})]),
            Says("abc"),
        ),
        case(
            "reasoning beside the text",
            message(&json!({"content": reasoned})),
            Says("ok"),
        ),
        case(
            "reasoning in a member",
            deltas(&[json!({"reasoning_content": "hm"}), json!({"content": "ok"})]),
            Says("ok"),
        ),
        case(
            "null before the text",
            deltas(&[
                json!({"role": "assistant", "content": null}),
                json!({"content": "ok"}),
            ]),
            Says("ok"),
        ),
        case(
            "a second choice beside the first",
            ChatReply::stream(chunks(&[late, second])),
            Says("ok"),
        ),
        case(
            "a whole message in a stream",
            ChatReply::stream(chunks(&[in_one])),
            Says("ok"),
        ),
        case(
            "a stream that is labelled as JSON",
            ChatReply::json(&json!(0)).body(chunks(std::slice::from_ref(&event))),
            Says("ok"),
        ),
        case(
            "a whole answer without usage",
            ChatReply::json(&json!(0)).body(plain),
            Says("ok"),
        ),
        case(
            "a stream without a reason, but done",
            ChatReply::stream(chunks(&[event])),
            Says("ok"),
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn calls() -> Vec<Case> {
    let read = function("Read", r#"{"n":1}"#);
    let object = json!({"name": "Read", "arguments": {"n": 1}});
    let no_reason = whole(&tool(&read), &json!("stop"));
    let split = [
        piece(&function("Re", "")),
        piece(&function("ad", r#"{"n":"#)),
        piece(&json!({"arguments": "1}"})),
    ];
    let repeated = [
        piece(&function("Read", r#"{"n":"#)),
        piece(&function("Read", "1}")),
    ];
    let growing = [
        piece(&function("Re", r#"{"n":"#)),
        piece(&function("Read", "1}")),
    ];
    let legacy = [
        json!({"function_call": {"name": "Read", "arguments": ""}}),
        json!({"function_call": {"arguments": r#"{"n":1}"#}}),
    ];
    let both = json!({"content": "I read it", "tool_calls": tool(&read)["tool_calls"]});
    let nameless =
        json!({"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "Read"}}]});
    vec![
        case("a call", message(&tool(&read)), Calls(&[r#"{"n":1}"#])),
        case(
            "a call that ends with `stop`",
            no_reason,
            Calls(&[r#"{"n":1}"#]),
        ),
        case(
            "arguments as an object",
            message(&tool(&object)),
            Calls(&[r#"{"n":1}"#]),
        ),
        case(
            "a name that is split",
            deltas(&split),
            Calls(&[r#"{"n":1}"#]),
        ),
        case(
            "a name that is repeated",
            deltas(&repeated),
            Calls(&[r#"{"n":1}"#]),
        ),
        case(
            "a name that grows",
            deltas(&growing),
            Calls(&[r#"{"n":1}"#]),
        ),
        case(
            "a `function_call`",
            message(&json!({"function_call": read})),
            Calls(&[r#"{"n":1}"#]),
        ),
        case(
            "a `function_call`, streamed",
            ChatReply::deltas(&legacy, "function_call"),
            Calls(&[r#"{"n":1}"#]),
        ),
        case("text beside a call", message(&both), Calls(&[r#"{"n":1}"#])),
        case(
            "no arguments",
            message(&tool(&function("Read", ""))),
            Calls(&["{}"]),
        ),
        case(
            "null arguments",
            message(&tool(&json!({"name": "Read", "arguments": null}))),
            Calls(&["{}"]),
        ),
        case(
            "a cut call",
            whole(&tool(&function("Read", r#"{"n":"#)), &json!("length")),
            Answers("not valid JSON"),
        ),
        case(
            "a call cut before its arguments",
            whole(&tool(&function("Read", "")), &json!("length")),
            Answers("cut off before"),
        ),
        case(
            "a list as arguments",
            message(&tool(&function("Read", "[1]"))),
            Answers("not a JSON object"),
        ),
        case(
            "a call of an unknown type",
            message(&nameless),
            Fails("a call without a name"),
        ),
        case(
            "an announced call that is missing",
            whole(&json!({"content": "x"}), &json!("tool_calls")),
            Fails("it made no call"),
        ),
        case(
            "an announced function that is missing",
            whole(&json!({"content": "x"}), &json!("function_call")),
            Fails("it made no call"),
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn failures() -> Vec<Case> {
    let cut = whole(&json!({"content": "half a"}), &json!("length"));
    let filtered = whole(&json!({"content": ""}), &json!("content_filter"));
    let refused = json!({"content": null, "refusal": "I cannot help with that"});
    let refusing = [
        json!({"refusal": "I cannot "}),
        json!({"refusal": "help with that"}),
    ];
    let part = json!({"content": [{"type": "refusal", "refusal": "I cannot help with that"}]});
    let failed = whole(&json!({"content": "x"}), &json!("error"));
    let broken = json!({"choices": [{"delta": {"content": "half"}}]});
    let error = json!({"error": {"message": "overloaded"}});
    let in_stream = format!("data: {broken}\n\ndata: {error}\n\n");
    vec![
        case("an answer cut at its limit", cut, Fails("token limit")),
        case(
            "an answer cut at its limit, streamed",
            ChatReply::deltas(&[json!({"content": "half"})], "length"),
            Fails("token limit"),
        ),
        case("a filtered answer", filtered, Fails("content filter")),
        case(
            "a refusal",
            message(&refused),
            Fails("the model refused: I cannot help with that"),
        ),
        case(
            "a refusal, streamed",
            deltas(&refusing),
            Fails("the model refused: I cannot help with that"),
        ),
        case(
            "a refusal as a part",
            message(&part),
            Fails("the model refused: I cannot help with that"),
        ),
        case(
            "an error as a finish reason",
            failed,
            Fails("finish reason `error`"),
        ),
        case(
            "an empty text",
            message(&json!({"content": ""})),
            Fails("neither text nor calls"),
        ),
        case(
            "white space",
            message(&json!({"content": " \n"})),
            Fails("neither text nor calls"),
        ),
        case(
            "null",
            message(&json!({"content": null})),
            Fails("neither text nor calls"),
        ),
        case(
            "no content",
            message(&json!({})),
            Fails("neither text nor calls"),
        ),
        case(
            "an empty list",
            message(&json!({"content": [], "tool_calls": []})),
            Fails("neither text nor calls"),
        ),
        case(
            "reasoning alone",
            deltas(&[json!({"reasoning_content": "hm"})]),
            Fails("neither text nor calls"),
        ),
        case(
            "an empty stream",
            ChatReply::stream("data: [DONE]\n\n"),
            Fails("neither text nor calls"),
        ),
        case(
            "no choices",
            ChatReply::json(&json!({"choices": []})),
            Fails("no `choices`"),
        ),
        case(
            "an error with status 200",
            ChatReply::json(&error),
            Fails("overloaded"),
        ),
        case(
            "an error within a stream",
            ChatReply::stream(in_stream),
            Fails("overloaded"),
        ),
        case(
            "a page of HTML",
            ChatReply::json(&json!(0)).body("<html></html>"),
            Fails("not valid JSON"),
        ),
        case(
            "a redirect",
            ChatReply::json(&json!({})).status(307, Some(("location", "/"))),
            Fails("HTTP 307"),
        ),
    ]
}

#[tokio::test]
async fn every_answer_is_read_right_or_fails_with_its_reason() {
    let cases: Vec<Case> = texts()
        .into_iter()
        .chain(calls())
        .chain(failures())
        .collect();
    assert!(cases.len() >= 40, "{}", cases.len());
    for case in cases {
        let stage = Stage::new();
        let model = ChatModel::start(vec![case.reply, ChatReply::say("done")]);
        let mut step = stage.step(AgentKind::OpenAiCompatible, Proxy::Full);
        step.options.model = Some("m".to_owned());
        step.options.base_url = Some(model.url.clone());
        let ended = stage.run(&step).await.map(|outcome| outcome.text);
        let ended = ended.map_err(|failed| failed.to_string());
        let name = case.name;
        let reached: Vec<String> = stage.reached().iter().map(Value::to_string).collect();
        match case.ends {
            Says(text) => assert_eq!(ended.as_deref(), Ok(text), "{name}"),
            Calls(arguments) => {
                assert_eq!(reached, arguments, "{name}");
                assert!(ended.is_ok_and(|text| text.ends_with("done")), "{name}");
            }
            Answers(text) => {
                assert_eq!(reached, [""; 0], "{name}");
                let messages = model.requests()[1]["messages"].to_string();
                assert!(messages.contains(text), "{name}: {messages}");
            }
            Fails(text) => {
                let error = ended.expect_err(name);
                assert!(error.contains(text), "{name}: {error}");
                assert_eq!(model.requests().len(), 1, "{name}");
            }
        }
    }
}

#[tokio::test]
async fn a_deprecated_function_call_is_answered_in_its_own_form() {
    let stage = Stage::new();
    let called = message(&json!({"function_call": function("Read", "{}")}));
    let model = ChatModel::start(vec![called, ChatReply::say("done")]);
    let mut step = stage.step(AgentKind::OpenAiCompatible, Proxy::Full);
    step.options.model = Some("m".to_owned());
    step.options.base_url = Some(model.url.clone());
    stage.run(&step).await.unwrap();
    let messages = model.requests()[1]["messages"].clone();
    let call =
        json!({"role": "assistant", "content": null, "function_call": function("Read", "{}")});
    let result = json!({"role": "function", "name": "Read", "content": "did {}"});
    assert_eq!((&messages[1], &messages[2]), (&call, &result));
}
