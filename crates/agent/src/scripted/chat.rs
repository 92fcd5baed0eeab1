//! OpenAI's chat completions API.

use serde_json::{Value, json};

use super::{OfferedTool, ResolvedCall, ResolvedTurn, ScriptState};

pub(super) fn answer(stage: &ScriptState, body: &Value) -> (&'static str, String) {
    let tools = body["tools"].as_array().into_iter().flatten();
    let offered = tools.filter_map(|tool| {
        Some(OfferedTool {
            namespace: None,
            name: tool.pointer("/function/name")?.as_str()?.to_owned(),
        })
    });
    let (mut message, reason) = match stage.next(offered.collect()) {
        ResolvedTurn::Say(text) => (json!({"role": "assistant", "content": text}), "stop"),
        ResolvedTurn::Call(calls) => {
            let calls: Vec<Value> = calls.iter().enumerate().map(tool_call).collect();
            let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
            (message, "tool_calls")
        }
    };
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let head = json!({"id": "chat_1", "created": 1, "model": body["model"]});
    if body["stream"] != true {
        let mut whole = head;
        whole["object"] = json!("chat.completion");
        whole["choices"] =
            json!([{"index": 0, "message": message.take(), "finish_reason": reason}]);
        whole["usage"] = usage;
        return ("application/json", whole.to_string());
    }
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = head.clone();
        chunk["object"] = json!("chat.completion.chunk");
        chunk["choices"] = choices;
        chunk["usage"] = usage;
        format!("data: {chunk}\n\n")
    };
    let said = chunk(
        json!([{"index": 0, "delta": message, "finish_reason": null}]),
        Value::Null,
    );
    let ended = chunk(
        json!([{"index": 0, "delta": {}, "finish_reason": reason}]),
        Value::Null,
    );
    let used = chunk(json!([]), usage);
    (
        "text/event-stream",
        format!("{said}{ended}{used}data: [DONE]\n\n"),
    )
}

fn tool_call((index, call): (usize, &ResolvedCall)) -> Value {
    json!({
        "index": index, "id": call.id, "type": "function",
        "function": {"name": call.tool.name, "arguments": call.arguments.to_string()},
    })
}
