//! An OpenAI-compatible model: rounds, parallel calls, defects of streams, guards and retries.

use std::time::{Duration, Instant};

use callgate_testkit::{ChatModel, ChatReply};
use serde_json::{Value, json};

use super::Stage;
use crate::shell::{Ran, run};

/// How slow the slow reply is unless `CALLGATE_SLOW_REPLY_SECONDS` says otherwise.
const SLOW_SECONDS: u64 = 2;

fn step(stage: &Stage, model: &ChatModel, more: &[&str]) -> Ran {
    let args = [
        &["openai-compatible", "--prompt", "do it", "--model", "m"],
        more,
    ]
    .concat();
    let mut command = stage.agent(&args);
    run(command
        .env("OPENAI_BASE_URL", &model.url)
        .env("OPENAI_API_KEY", "sk-test"))
}

#[test]
fn rounds_and_parallel_calls_go_through_the_gate() {
    let stage = Stage::new();
    std::fs::write(stage.bed.path("desk/a"), "alpha").expect("it is ours");
    let model = ChatModel::start(vec![
        ChatReply::call(&[
            ("Read", json!({"path": "a"})),
            ("Glob", json!({"pattern": "*"})),
            ("Write", json!({"path": "b", "content": "beta"})),
        ]),
        ChatReply::call(&[
            ("Read", json!({"path": "b"})),
            ("Read", json!({"path": "none"})),
        ]),
        ChatReply::say("all done"),
    ]);
    let ran = step(&stage, &model, &[]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "all done\n"),
        "{}",
        ran.stderr
    );
    let requests = model.requests();
    assert_eq!(requests.len(), 3);
    let tools: Vec<&Value> = requests[0]["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| &tool["function"]["name"])
        .collect();
    assert_eq!(tools, ["Bash", "Edit", "Glob", "Grep", "Read", "Write"]);
    assert_eq!(requests[0]["tool_choice"], "auto");
    assert_eq!(requests[0]["stream"], true);
    let messages = requests[2]["messages"].as_array().expect("messages");
    let told: Vec<(&str, &str)> = messages
        .iter()
        .map(|message| {
            (
                message["role"].as_str().unwrap_or_default(),
                message["tool_call_id"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    let expected = [
        ("user", ""),
        ("assistant", ""),
        ("tool", "c0"),
        ("tool", "c1"),
        ("tool", "c2"),
        ("assistant", ""),
        ("tool", "c0"),
        ("tool", "c1"),
    ];
    assert_eq!(told, expected);
    assert_eq!(messages[2]["content"], "alpha");
    assert_eq!(messages[6]["content"], "beta");
    assert!(
        messages[7]["content"]
            .as_str()
            .is_some_and(|text| text.starts_with("error: "))
    );
    assert!(
        stage
            .step_record()
            .contains("status=success tokens_input=30 tokens_output=15"),
        "{}",
        stage.step_record()
    );
    let calls = stage
        .records()
        .iter()
        .filter(|record| record["source"] == "agent")
        .count();
    assert_eq!(calls, 5);
}

#[test]
fn unstreamed_model_answers_work() {
    let stage = Stage::new();
    let call = json!({"choices": [{"message": {"content": null, "tool_calls": [{"id": "x", "function": {"name": "Write", "arguments": "{\"path\":\"b\",\"content\":\"beta\"}"}}]}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    let end = json!({"choices": [{"message": {"content": "done"}, "finish_reason": "stop"}]});
    let model = ChatModel::start(vec![ChatReply::json(&call), ChatReply::json(&end)]);
    let ran = step(&stage, &model, &["--no-stream"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "done\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        stage.bed.read("desk/b"),
        "beta",
        "calls count, whatever the reason to stop"
    );
    assert_eq!(model.requests()[0].get("stream"), None);
}

#[test]
fn invalid_arguments_and_unknown_tools_are_reported_to_the_model() {
    let stage = Stage::new();
    let bad = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "Read", "arguments": "{\"path\":"}}, {"index": 1, "id": "b", "function": {"name": "Nothing", "arguments": "{}"}}, {"index": 2, "id": "c", "function": {"name": "Read", "arguments": "[1]"}}, {"index": 3, "id": "d", "function": {"name": "Read", "arguments": ""}}]});
    let model = ChatModel::start(vec![
        ChatReply::deltas(&[bad], "tool_calls"),
        ChatReply::say("ok"),
    ]);
    let ran = step(&stage, &model, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let requests = model.requests();
    let told = |at: usize| {
        requests[1]["messages"][at]["content"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(
        told(2).starts_with("error: the arguments are not valid JSON"),
        "{}",
        told(2)
    );
    assert!(told(3).contains("unknown tool `Nothing`"), "{}", told(3));
    assert!(told(4).starts_with("error: "), "{}", told(4));
    assert!(told(5).contains("`path` is missing"), "{}", told(5));
}

#[test]
fn a_broken_model_stream_is_a_clear_error() {
    let cases = [
        (
            ChatReply::stream("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n"),
            "the stream broke off",
        ),
        (
            ChatReply::stream("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n")
                .broken_off(),
            "the stream broke off",
        ),
        (
            ChatReply::stream("data: {\"error\":{\"message\":\"overloaded in mid-stream\"}}\n\n"),
            "overloaded in mid-stream",
        ),
        (
            ChatReply::stream("data: {\"choices\":\n\n"),
            "not valid JSON",
        ),
        (
            ChatReply::json(&json!({"error": {"message": "bad key"}})).status(401, None),
            "HTTP 401: bad key",
        ),
    ];
    for (reply, expected) in cases {
        let stage = Stage::new();
        let model = ChatModel::start(vec![reply]);
        let ran = step(&stage, &model, &[]);
        assert_eq!(ran.code, Some(3), "{expected}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
}

#[test]
fn unusual_model_streams_are_assembled() {
    let call = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"function\":{\"name\":\"Write\",\"arguments\":\"{\\\"path\\\":\\\"é🦀\\\",\"}}]}}]}\r\n\r\n: ping\r\n\r\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"content\\\":\\\"ü\\\"}\"}}]},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\r\n\r\n";
    let stage = Stage::new();
    let model = ChatModel::start(vec![ChatReply::stream(call), ChatReply::say("ok")]);
    let ran = step(&stage, &model, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(stage.bed.read("desk/é🦀"), "ü");
}

#[test]
fn a_looping_model_is_stopped_at_the_round_limit() {
    let stage = Stage::new();
    let model = ChatModel::start(vec![ChatReply::deltas(
        &[json!({"content": "hm"})],
        "tool_calls",
    )]);
    let ran = step(&stage, &model, &[]);
    assert_eq!(ran.code, Some(3));
    assert!(
        ran.stderr.contains("USER.MCP_PROXY.INFINITE_LOOP_GUARD"),
        "{}",
        ran.stderr
    );
    let model = ChatModel::start(vec![ChatReply::call(&[("Glob", json!({"pattern": "*"}))])]);
    let ran = step(&stage, &model, &["--max-rounds", "3"]);
    assert_eq!(ran.code, Some(3));
    assert!(
        ran.stderr
            .contains("USER.MCP_PROXY.INFINITE_LOOP_GUARD: more than 3 rounds"),
        "{}",
        ran.stderr
    );
    assert_eq!(model.requests().len(), 4);
}

#[test]
fn http_429_and_5xx_are_retried_after_the_servers_delay() {
    let stage = Stage::new();
    let busy = ChatReply::json(&json!({"error": {"message": "slow down"}}));
    let model = ChatModel::start(vec![
        busy.clone().status(429, Some(("retry-after", "1"))),
        busy.status(503, Some(("retry-after", "0"))),
        ChatReply::say("ok"),
    ]);
    let start = Instant::now();
    let ran = step(&stage, &model, &[]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "ok\n"),
        "{}",
        ran.stderr
    );
    assert!(
        start.elapsed() >= Duration::from_secs(1),
        "it waited as it was told"
    );
    assert!(
        ran.stderr
            .contains("HTTP 429: slow down; trying again in 1.0 s"),
        "{}",
        ran.stderr
    );
    assert_eq!(model.requests().len(), 3);
}

#[test]
fn a_slow_model_reply_is_limited_only_by_the_steps_timeout() {
    let seconds = std::env::var("CALLGATE_SLOW_REPLY_SECONDS").ok();
    let seconds = seconds
        .and_then(|text| text.parse().ok())
        .unwrap_or(SLOW_SECONDS);
    let stage = Stage::new();
    let model = ChatModel::start(vec![
        ChatReply::say("at last").after(Duration::from_secs(seconds)),
    ]);
    let ran = step(&stage, &model, &[]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "at last\n"),
        "{}",
        ran.stderr
    );
    let model = ChatModel::start(vec![ChatReply::say("never").after(Duration::from_secs(60))]);
    let ran = step(&stage, &model, &["--timeout", "1"]);
    assert_eq!(ran.code, Some(3));
    assert!(
        ran.stderr.contains("the step was stopped after 1 s"),
        "{}",
        ran.stderr
    );
}
