//! A model with OpenAI's chat completions: no program, the loop runs here.
//!
//! Whether there are calls decides what comes next, whatever the model says its reason to stop was. The
//! step's own time is the only deadline: a slow model is not a broken one.

mod calls;
mod http;
mod stream;

use std::{sync::Arc, time::Duration};

use callgate_gate::Tool;
use serde_json::{Map, Value, json};

use crate::{
    Proxy, StepEvent, StepFailed, Tokens,
    events::Said,
    running::Watched,
    step::{Options, Run},
};
use calls::Calls;
use http::Client;

/// How many rounds of calls there may be when nothing is said.
const MAX_ROUNDS: u32 = 50;

/// One answer of the model, whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) calls: Vec<Wanted>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

/// A call that the model wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) id: String,
    pub(crate) name: String,
    /// As the model wrote them; no JSON, perhaps.
    pub(crate) arguments: String,
}

/// Runs the loop to its end.
pub(crate) async fn run(run: &Run<'_>, watched: &mut Watched) -> Result<(), StepFailed> {
    let timeout = run.step.timeout.unwrap_or(Duration::MAX);
    tokio::select! {
        ended = rounds(run, watched) => ended,
        () = run.stop.cancelled() => Err(StepFailed::Stopped),
        () = tokio::time::sleep(timeout) => Err(StepFailed::TimedOut(timeout)),
    }
}

async fn rounds(run: &Run<'_>, watched: &mut Watched) -> Result<(), StepFailed> {
    let options = &run.step.options;
    let client = Client::new(run)?;
    let calls = Calls::new(run);
    let tools = match run.step.proxy {
        Proxy::Off => Vec::new(),
        Proxy::Full | Proxy::Additive => calls.tools(),
    };
    let mut messages = opening(options, &run.step.prompt);
    let most = options.max_rounds.unwrap_or(MAX_ROUNDS);
    for _round in 0..=most {
        let request = request(run, options, &messages, &tools)?;
        let answer = client.complete(&request, run).await?;
        watched.note(
            run,
            Said::Used(Tokens {
                input: answer.input_tokens,
                output: answer.output_tokens,
                cost_usd: None,
            }),
        );
        if !answer.text.is_empty() {
            watched.note(run, Said::Text(answer.text.clone()));
        }
        if answer.calls.is_empty() {
            if answer.finish_reason.as_deref() == Some("tool_calls") {
                let why = "the model stopped for tool calls and made none";
                return Err(StepFailed::LoopGuard(why.to_owned()));
            }
            return Ok(());
        }
        messages.push(said(&answer));
        for wanted in &answer.calls {
            watched.note(run, Said::Call(wanted.name.clone()));
        }
        let results = calls.all(&answer.calls).await;
        for (wanted, result) in answer.calls.iter().zip(results) {
            messages.push(json!({"role": "tool", "tool_call_id": wanted.id, "content": result}));
        }
    }
    let why = format!("more than {most} rounds of tool calls (`max_rounds`)");
    (run.tell)(StepEvent::Warning { text: why.clone() });
    Err(StepFailed::LoopGuard(why))
}

fn opening(options: &Options, prompt: &str) -> Vec<Value> {
    let system = options.system_prompt.as_ref();
    let system = system.map(|text| json!({"role": "system", "content": text}));
    let user = json!({"role": "user", "content": prompt});
    system.into_iter().chain([user]).collect()
}

fn request(
    run: &Run<'_>,
    options: &Options,
    messages: &[Value],
    tools: &[Arc<Tool>],
) -> Result<Value, StepFailed> {
    let model = options
        .model
        .clone()
        .or_else(|| variable(run, "OPENAI_MODEL"));
    let model = model.ok_or_else(|| {
        StepFailed::Missing("no model is named: use `--model`, or set OPENAI_MODEL".to_owned())
    })?;
    let mut request = Map::new();
    request.insert("model".to_owned(), json!(model));
    request.insert("messages".to_owned(), json!(messages));
    // Without tools there is no such key at all: some servers refuse an empty list.
    if !tools.is_empty() {
        let tools: Vec<Value> = tools.iter().map(|tool| function(tool)).collect();
        request.insert("tools".to_owned(), json!(tools));
        request.insert("tool_choice".to_owned(), json!("auto"));
    }
    for (key, value) in [
        (
            "temperature",
            options.temperature.map(|number| json!(number)),
        ),
        ("top_p", options.top_p.map(|number| json!(number))),
        (
            "max_completion_tokens",
            options.max_completion_tokens.map(|number| json!(number)),
        ),
    ] {
        if let Some(value) = value {
            request.insert(key.to_owned(), value);
        }
    }
    if options.stream.unwrap_or(true) {
        request.insert("stream".to_owned(), json!(true));
        request.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    Ok(Value::Object(request))
}

/// A tool as the model is told of it.
fn function(tool: &Tool) -> Value {
    let descriptor: Value = serde_json::from_slice(&tool.descriptor).unwrap_or_default();
    json!({
        "type": "function",
        "function": {
            "name": tool.shown,
            "description": descriptor["description"],
            "parameters": descriptor["inputSchema"],
        },
    })
}

/// The model's own message, as it goes back to it.
fn said(answer: &Answer) -> Value {
    let call = |wanted: &Wanted| {
        json!({
            "id": wanted.id,
            "type": "function",
            "function": {"name": wanted.name, "arguments": wanted.arguments},
        })
    };
    let calls: Vec<Value> = answer.calls.iter().map(call).collect();
    let content = if answer.text.is_empty() {
        Value::Null
    } else {
        json!(answer.text)
    };
    json!({"role": "assistant", "content": content, "tool_calls": calls})
}

/// A variable of the environment that agents inherit.
pub(crate) fn variable(run: &Run<'_>, name: &str) -> Option<String> {
    let found = run.context.env.iter().find(|(known, _)| known == name);
    found
        .map(|(_, value)| value.clone())
        .filter(|value| !value.is_empty())
}
