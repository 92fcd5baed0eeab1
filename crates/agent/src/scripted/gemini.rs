//! Gemini's `generateContent` API.

use serde_json::{Value, json};

use super::{OfferedTool, ResolvedTurn, ScriptState};

pub(super) fn answer(stage: &ScriptState, body: &Value, streamed: bool) -> (&'static str, String) {
    let groups = body["tools"].as_array().into_iter().flatten();
    let declared = groups.flat_map(|group| {
        let functions = group["functionDeclarations"].as_array();
        functions.into_iter().flatten()
    });
    let offered = declared.filter_map(|tool| {
        Some(OfferedTool {
            namespace: None,
            name: tool["name"].as_str()?.to_owned(),
        })
    });
    let parts: Vec<Value> = match stage.next(offered.collect()) {
        ResolvedTurn::Say(text) => vec![json!({"text": text})],
        ResolvedTurn::Call(calls) => calls
            .iter()
            .map(|call| json!({"functionCall": {"name": call.tool.name, "args": call.arguments, "id": call.id}}))
            .collect(),
    };
    let answer = json!({
        "candidates": [{
            "content": {"role": "model", "parts": parts},
            "finishReason": "STOP",
            "index": 0,
        }],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": "scripted",
    });
    if streamed {
        ("text/event-stream", format!("data: {answer}\r\n\r\n"))
    } else {
        ("application/json", answer.to_string())
    }
}
