//! OpenAI's responses API.

use serde_json::{Value, json};

use super::{OfferedTool, ResolvedCall, ResolvedTurn, ScriptState, event};

pub(super) fn answer(stage: &ScriptState, body: &Value) -> (&'static str, String) {
    // Tools are listed beside the input, or in an item of the input.
    let beside = body["tools"].as_array().into_iter().flatten();
    let inputs = body["input"].as_array().into_iter().flatten();
    let inside = inputs
        .filter(|item| item["type"] == "additional_tools")
        .filter_map(|item| item["tools"].as_array())
        .flatten();
    let offered: Vec<OfferedTool> = beside.chain(inside).flat_map(offered).collect();
    let items: Vec<Value> = match stage.next(offered) {
        ResolvedTurn::Say(text) => vec![json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })],
        ResolvedTurn::Call(calls) => calls.iter().map(function_call).collect(),
    };
    let response = |status: &str, output: &[Value]| {
        json!({
            "id": "resp_1", "object": "response", "status": status, "output": output,
            "model": body["model"],
            "usage": {
                "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 15,
            },
        })
    };
    if body["stream"] != true {
        return (
            "application/json",
            response("completed", &items).to_string(),
        );
    }
    let created = json!({"type": "response.created", "response": response("in_progress", &[])});
    let mut out = event("response.created", &created);
    for (index, item) in items.iter().enumerate() {
        for kind in ["response.output_item.added", "response.output_item.done"] {
            let data = json!({"type": kind, "output_index": index, "item": item});
            out.push_str(&event(kind, &data));
        }
    }
    let completed =
        json!({"type": "response.completed", "response": response("completed", &items)});
    out.push_str(&event("response.completed", &completed));
    ("text/event-stream", out)
}

/// The tools of one entry: it may be a group, and some tools have a type instead of a name.
fn offered(tool: &Value) -> Vec<OfferedTool> {
    let name = |tool: &Value| {
        tool["name"]
            .as_str()
            .or_else(|| tool["type"].as_str())
            .map(str::to_owned)
    };
    if tool["type"] == "namespace" {
        let group = tool["name"].as_str().map(str::to_owned);
        let inner = tool["tools"].as_array().into_iter().flatten();
        let inner = inner.filter_map(|tool| {
            Some(OfferedTool {
                namespace: group.clone(),
                name: name(tool)?,
            })
        });
        return inner.collect();
    }
    let alone = name(tool).map(|name| OfferedTool {
        namespace: None,
        name,
    });
    alone.into_iter().collect()
}

fn function_call(call: &ResolvedCall) -> Value {
    let mut item = json!({
        "type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id,
        "name": call.tool.name, "arguments": call.arguments.to_string(), "status": "completed",
    });
    if let Some(namespace) = &call.tool.namespace {
        item["namespace"] = json!(namespace);
    }
    item
}
