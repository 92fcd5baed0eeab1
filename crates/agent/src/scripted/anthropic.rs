//! Anthropic's messages API.

use serde_json::{Value, json};

use super::{OfferedTool, ResolvedCall, ResolvedTurn, ScriptState, event};

/// A tool that Claude Code sends to keep deferred loading enabled. It does nothing, so it does not count as offered.
const PLACEHOLDER: &str = "DeferredToolPlaceholder";

pub(super) fn answer(stage: &ScriptState, body: &Value) -> (&'static str, String) {
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools = tools.filter(|tool| tool["name"] != PLACEHOLDER);
    let offered = tools.filter_map(|tool| {
        Some(OfferedTool {
            namespace: None,
            name: tool["name"].as_str()?.to_owned(),
        })
    });
    let (blocks, reason) = match stage.next(offered.collect()) {
        ResolvedTurn::Say(text) => (vec![json!({"type": "text", "text": text})], "end_turn"),
        ResolvedTurn::Call(calls) => (calls.iter().map(tool_use).collect(), "tool_use"),
    };
    let message = |content: Value, reason: Value| {
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
            "content": content, "stop_reason": reason, "stop_sequence": null,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        })
    };
    if body["stream"] != true {
        let whole = message(Value::Array(blocks), reason.into());
        return ("application/json", whole.to_string());
    }
    let start = message(json!([]), Value::Null);
    let mut out = event(
        "message_start",
        &json!({"type": "message_start", "message": start}),
    );
    for (index, block) in blocks.iter().enumerate() {
        out.push_str(&streamed(index, block));
    }
    let delta = json!({
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": 5},
    });
    out.push_str(&event("message_delta", &delta));
    out.push_str(&event("message_stop", &json!({"type": "message_stop"})));
    ("text/event-stream", out)
}

fn tool_use(call: &ResolvedCall) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.tool.name, "input": call.arguments})
}

fn streamed(index: usize, block: &Value) -> String {
    let mut empty = block.clone();
    let delta = if block["type"] == "text" {
        empty["text"] = json!("");
        json!({"type": "text_delta", "text": block["text"]})
    } else {
        empty["input"] = json!({});
        json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
    };
    let events = [
        (
            "content_block_start",
            json!({"type": "content_block_start", "index": index, "content_block": empty}),
        ),
        (
            "content_block_delta",
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
        ),
        (
            "content_block_stop",
            json!({"type": "content_block_stop", "index": index}),
        ),
    ];
    events
        .iter()
        .map(|(name, data)| event(name, data))
        .collect()
}
