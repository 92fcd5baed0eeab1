//! The loop of an OpenAI-compatible model, against a model on loopback.

use callgate_agent::{AgentKind, Outcome, Proxy, Step, StepEvent, StepFailed};
use callgate_testkit::{ChatModel, ChatReply};
use serde_json::{Value, json};

use crate::stage::Stage;

fn step(stage: &Stage, model: &ChatModel) -> Step {
    let mut step = stage.step(AgentKind::OpenAiCompatible, Proxy::Full);
    step.options.model = Some("m".to_owned());
    step.options.base_url = Some(model.url.clone());
    step
}

async fn ended(stage: &Stage, replies: Vec<ChatReply>) -> Result<Outcome, StepFailed> {
    let model = ChatModel::start(replies);
    stage.run(&step(stage, &model)).await
}

#[tokio::test]
async fn a_models_calls_pass_the_gate_and_results_return_in_order() {
    let stage = Stage::new();
    let wanted = [
        ("Read", json!({"n": 1})),
        ("Write", json!({"n": 2})),
        ("Nope", json!({})),
    ];
    let model = ChatModel::start(vec![ChatReply::call(&wanted), ChatReply::say("done")]);
    let outcome = stage.run(&step(&stage, &model)).await.unwrap();
    assert_eq!(outcome.text, "done");
    assert_eq!((outcome.tokens.input, outcome.tokens.output), (20, 10));
    assert_eq!(stage.reached(), [json!({"n": 1}), json!({"n": 2})]);
    let requests = model.requests();
    let messages = requests[1]["messages"].as_array().unwrap();
    let results: Vec<(&Value, &str)> = messages[2..]
        .iter()
        .map(|message| {
            (
                &message["tool_call_id"],
                message["content"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(results[0], (&json!("c0"), r#"did {"n":1}"#));
    assert_eq!(results[1], (&json!("c1"), r#"did {"n":2}"#));
    assert_eq!(results[2].0, "c2");
    assert!(results[2].1.starts_with("error: "), "{}", results[2].1);
}

#[tokio::test]
async fn invalid_json_arguments_are_answered_with_an_error_and_reach_no_tool() {
    let stage = Stage::new();
    let function = json!({"name": "Read", "arguments": "{\"path\": "});
    let broken = json!({"tool_calls": [{"index": 0, "id": "c0", "function": function}]});
    let model = ChatModel::start(vec![
        ChatReply::deltas(&[broken], "tool_calls"),
        ChatReply::say("sorry"),
    ]);
    stage.run(&step(&stage, &model)).await.unwrap();
    assert_eq!(stage.reached(), Vec::<Value>::new());
    let told = model.requests()[1]["messages"][2]["content"].clone();
    let told = told.as_str().unwrap();
    assert!(
        told.starts_with("error: the arguments are not valid JSON"),
        "{told}"
    );
}

#[tokio::test]
async fn a_truncated_model_stream_is_a_failure() {
    let stage = Stage::new();
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"all done\"}}]}\n\n";
    for reply in [
        ChatReply::stream(half),
        ChatReply::stream(half).broken_off(),
    ] {
        let failed = ended(&stage, vec![reply]).await.unwrap_err();
        assert!(matches!(failed, StepFailed::Model(_)), "{failed}");
        assert!(failed.to_string().contains("broke off"), "{failed}");
    }
}

#[tokio::test]
async fn a_model_is_stopped_at_its_round_limit() {
    let stage = Stage::new();
    let model = ChatModel::start(vec![ChatReply::call(&[("Read", json!({}))])]);
    let mut step = step(&stage, &model);
    step.options.max_rounds = Some(2);
    let failed = stage.run(&step).await.unwrap_err();
    assert!(matches!(failed, StepFailed::LoopGuard(_)), "{failed}");
    assert_eq!(failed.code(), "USER.MCP_PROXY.INFINITE_LOOP_GUARD");
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn a_tool_calls_finish_without_calls_is_a_failure() {
    let reply = ChatReply::deltas(&[json!({"content": "x"})], "tool_calls");
    let failed = ended(&Stage::new(), vec![reply]).await.unwrap_err();
    assert!(matches!(failed, StepFailed::LoopGuard(_)), "{failed}");
}

#[tokio::test]
async fn http_429_is_retried_and_http_401_is_not() {
    let stage = Stage::new();
    let error = json!({"error": {"message": "not now"}});
    let busy = ChatReply::json(&error).status(429, Some(("retry-after", "0")));
    let model = ChatModel::start(vec![busy, ChatReply::say("done")]);
    let outcome = stage.run(&step(&stage, &model)).await.unwrap();
    assert_eq!(outcome.text, "done");
    let warned = StepEvent::Warning {
        text: "HTTP 429: not now; trying again in 0.0 s".to_owned(),
    };
    assert!(stage.events().contains(&warned), "{:?}", stage.events());

    let refusing = ChatModel::start(vec![ChatReply::json(&error).status(401, None)]);
    let failed = stage.run(&step(&stage, &refusing)).await.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "the model request failed: HTTP 401: not now"
    );
    assert_eq!(refusing.requests().len(), 1);
}

#[tokio::test]
async fn an_hour_long_retry_after_is_not_honoured() {
    let busy = ChatReply::json(&json!({})).status(503, Some(("retry-after", "3600")));
    let failed = ended(&Stage::new(), vec![busy]).await.unwrap_err();
    assert!(
        failed.to_string().contains("retry after 3600 s"),
        "{failed}"
    );
}

#[tokio::test]
async fn a_model_is_offered_no_tools_when_the_proxy_is_off() {
    let stage = Stage::new();
    let model = ChatModel::start(vec![ChatReply::say("done")]);
    let mut step = step(&stage, &model);
    step.proxy = Proxy::Off;
    stage.run(&step).await.unwrap();
    let request = model.requests().remove(0);
    assert_eq!(request.get("tools"), None);
    assert_eq!(request.get("tool_choice"), None);
}

#[tokio::test]
async fn options_and_unusual_prompts_reach_the_model_unchanged() {
    let stage = Stage::new();
    let whole = json!({"choices": [{"message": {"content": "done"}, "finish_reason": "stop"}]});
    let model = ChatModel::start(vec![ChatReply::json(&whole)]);
    let mut step = step(&stage, &model);
    step.prompt = "\"\u{0}\u{202e}é🦀\\\n".to_owned();
    step.options.system_prompt = Some("be brief".to_owned());
    step.options.temperature = Some(0.5);
    step.options.stream = Some(false);
    stage.run(&step).await.unwrap();
    let request = model.requests().remove(0);
    let system = json!({"role": "system", "content": "be brief"});
    let user = json!({"role": "user", "content": step.prompt});
    assert_eq!(request["messages"], json!([system, user]));
    assert_eq!(request["temperature"], 0.5);
    assert_eq!(request.get("stream"), None);
}

#[tokio::test]
async fn the_environment_supplies_missing_model_options() {
    let model = ChatModel::start(vec![ChatReply::say("done")]);
    let stage = Stage::with_env(&[("OPENAI_BASE_URL", &model.url), ("OPENAI_MODEL", "env-m")]);
    let step = stage.step(AgentKind::OpenAiCompatible, Proxy::Full);
    stage.run(&step).await.unwrap();
    assert_eq!(model.requests()[0]["model"], "env-m");
    let nameless = Stage::with_env(&[("OPENAI_BASE_URL", &model.url)]);
    let failed = nameless.run(&step).await.unwrap_err();
    assert!(matches!(failed, StepFailed::Missing(_)), "{failed}");
}
