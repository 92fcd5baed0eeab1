//! Drives a model with OpenAI's chat completions API: there is no agent program, the loop runs here.
//!
//! The presence of tool calls decides whether there is another round, not the reported `finish_reason`. The
//! step's time limit is the only deadline: a slow model is not a broken one.

mod calls;
mod http;
mod stream;

use std::{sync::Arc, time::Duration};

use callgate_gate::Tool;
use serde_json::{Map, Value, json};

use crate::{
    Proxy, StepEvent, StepFailed, Tokens,
    events::AgentEvent,
    progress::StepProgress,
    step::{Options, Run},
};
use calls::GateCalls;
use http::Client;

/// The default limit of rounds with tool calls.
const MAX_ROUNDS: u32 = 50;

/// A complete answer of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The model's own words for why it does not answer.
    pub(crate) refusal: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

/// A tool call requested by the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// As the model wrote them, possibly not JSON.
    pub(crate) arguments: String,
    /// Whether it was made with the deprecated `function_call`, and is answered in that form.
    pub(crate) is_function: bool,
}

/// Runs the loop to its end.
pub(crate) async fn run(run: &Run<'_>, progress: &mut StepProgress) -> Result<(), StepFailed> {
    let timeout = run.step.timeout.unwrap_or(Duration::MAX);
    tokio::select! {
        ended = rounds(run, progress) => ended,
        () = run.stop.cancelled() => Err(StepFailed::Stopped),
        () = tokio::time::sleep(timeout) => Err(StepFailed::TimedOut(timeout)),
    }
}

async fn rounds(run: &Run<'_>, progress: &mut StepProgress) -> Result<(), StepFailed> {
    let options = &run.step.options;
    let client = Client::new(run)?;
    let calls = GateCalls::new(run);
    let tools = match run.step.proxy {
        Proxy::Off => Vec::new(),
        Proxy::Full | Proxy::Additive => calls.tools(),
    };
    let mut messages = opening(options, &run.step.prompt);
    let most = options.max_rounds.unwrap_or(MAX_ROUNDS);
    for _round in 0..=most {
        let request = request(run, options, &messages, &tools)?;
        let answer = client.complete(&request, run).await?;
        progress.note(
            run,
            AgentEvent::Used(Tokens {
                input: answer.input_tokens,
                output: answer.output_tokens,
                cost_usd: None,
            }),
        );
        if !answer.text.is_empty() {
            progress.note(run, AgentEvent::Text(answer.text.clone()));
        }
        if answer.calls.is_empty() {
            return finished(&answer);
        }
        messages.push(assistant_message(&answer));
        progress.note(run, AgentEvent::Call);
        let results = calls.all(&answer.calls, answer.is_cut()).await;
        for (requested, result) in answer.calls.iter().zip(results) {
            messages.push(if requested.is_function {
                json!({"role": "function", "name": requested.name, "content": result})
            } else {
                json!({"role": "tool", "tool_call_id": requested.id, "content": result})
            });
        }
    }
    let why = format!("more than {most} rounds of tool calls (`max_rounds`)");
    (run.tell)(StepEvent::Warning { text: why.clone() });
    Err(StepFailed::LoopGuard(why))
}

impl Answer {
    /// Whether the server ended the answer before the model did.
    fn is_cut(&self) -> bool {
        matches!(
            self.finish_reason.as_deref(),
            Some("length" | "content_filter")
        )
    }
}

/// Judges an answer without calls, which ends the step. Only a text that the model itself ended is a success.
fn finished(answer: &Answer) -> Result<(), StepFailed> {
    let why = match answer.finish_reason.as_deref() {
        Some(reason @ ("tool_calls" | "function_call")) => {
            let why = format!("the model's finish reason was `{reason}`, but it made no call");
            return Err(StepFailed::LoopGuard(why));
        }
        _ if !answer.refusal.trim().is_empty() => {
            format!("the model refused: {}", answer.refusal.trim())
        }
        Some("length") => "the answer was cut off at the model's token limit (finish reason \
             `length`); raise `max_completion_tokens` or ask for less"
            .to_owned(),
        Some("content_filter") => {
            "the provider's content filter ended the answer (finish reason `content_filter`)"
                .to_owned()
        }
        Some("error") => {
            "the provider ended the answer with an error (finish reason `error`)".to_owned()
        }
        _ if answer.text.trim().is_empty() => {
            let reason = answer.finish_reason.as_deref().unwrap_or("none");
            format!("the model answered with neither text nor calls (finish reason: {reason})")
        }
        Some(_) | None => return Ok(()),
    };
    Err(StepFailed::Model(why))
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
        StepFailed::Missing("no model is configured: use `--model` or set OPENAI_MODEL".to_owned())
    })?;
    let mut request = Map::new();
    request.insert("model".to_owned(), json!(model));
    request.insert("messages".to_owned(), json!(messages));
    // Without tools the key is left out: some servers refuse an empty list.
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

/// A tool in the format of the request.
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

/// The model's answer as a message of the next request.
fn assistant_message(answer: &Answer) -> Value {
    let call = |requested: &ToolCall| {
        json!({
            "id": requested.id,
            "type": "function",
            "function": {"name": requested.name, "arguments": requested.arguments},
        })
    };
    let (functions, tools): (Vec<&ToolCall>, Vec<&ToolCall>) =
        answer.calls.iter().partition(|call| call.is_function);
    let content = if answer.text.is_empty() {
        Value::Null
    } else {
        json!(answer.text)
    };
    let mut message = json!({"role": "assistant", "content": content});
    if let Some(function) = functions.first() {
        message["function_call"] = json!({"name": function.name, "arguments": function.arguments});
    }
    if !tools.is_empty() {
        message["tool_calls"] = tools.into_iter().map(call).collect();
    }
    message
}

/// A non-empty variable of the environment that agents inherit.
pub(crate) fn variable(run: &Run<'_>, name: &str) -> Option<String> {
    let found = run.context.env.iter().find(|(known, _)| known == name);
    found
        .map(|(_, value)| value.clone())
        .filter(|value| !value.is_empty())
}
