//! Resources, prompts, completions and progress of the conformance server.

use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::PNG;
use super::asked::{Asked, ask};
use super::asking::asking;
use crate::frame::member;

/// The pause between two reports of progress.
const PAUSE: Duration = Duration::from_millis(50);

/// Reports progress, where a token was given.
pub fn progress(asked: &Asked<'_>) {
    for (index, step) in [0, 50, 100].into_iter().enumerate() {
        if index > 0 {
            thread::sleep(PAUSE);
        }
        if let Some(token) = asked.frame.progress_token() {
            let params = format!(r#"{{"progressToken":{token},"progress":{step},"total":100}}"#);
            asked.peer.notify("notifications/progress", &params);
        }
    }
    asked.reply_text("Tool with progress executed successfully");
}

/// Reads a resource.
pub fn read(asked: &Asked<'_>) {
    let uri = asked.text("uri");
    let id = uri
        .strip_prefix("test://template/")
        .and_then(|rest| rest.strip_suffix("/data"));
    let contents = match (uri.as_str(), id) {
        ("test://static-text", _) => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        ("test://static-binary", _) => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        ("test://watched-resource", _) => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "Watched resource content"})
        }
        (_, Some(id)) => {
            let text =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": text.to_string()})
        }
        (_, None) => {
            let code = if asked.is_stateless { -32602 } else { -32002 };
            return asked.fail(code, "resource not found", json!({"uri": uri}));
        }
    };
    asked.reply_cacheable(json!({"contents": [contents]}));
}

/// Fetches a prompt.
pub fn prompt(asked: &Asked<'_>) {
    let argument = |name: &str| asked.frame.argument(name).unwrap_or_default();
    let text = |text: String| json!({"role": "user", "content": {"type": "text", "text": text}});
    let name = asked.text("name");
    if let Some(wanted) = asking(&name, &Value::Null, &asked.capabilities) {
        let concluded = |answers: &Map<String, Value>| json!({"messages": [text(format!("context: {}", Value::Object(answers.clone())))]});
        return ask(asked, &wanted, &name, concluded);
    }
    let messages = match name.as_str() {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.".to_owned())]),
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            json!([text(format!(
                "Prompt with arguments: arg1='{first}', arg2='{second}'"
            ))])
        }
        "test_prompt_with_embedded_resource" => json!([
            {"role": "user", "content": {"type": "resource", "resource": {
                "uri": argument("resourceUri"),
                "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}},
            text("Please process the embedded resource above.".to_owned()),
        ]),
        "test_prompt_with_image" => json!([
            {"role": "user", "content": {"type": "image", "data": PNG, "mimeType": "image/png"}},
            text("Please analyze the image above.".to_owned()),
        ]),
        _ => return asked.fail(-32602, "unknown prompt", Value::Null),
    };
    asked.reply(json!({"messages": messages}));
}

/// Completes an argument.
pub fn complete(asked: &Asked<'_>) {
    let argument = asked.frame.param("argument").unwrap_or("{}");
    let value: String = member(argument, "value")
        .and_then(|raw| serde_json::from_str(raw).ok())
        .unwrap_or_default();
    let values: Vec<&str> = ["paris", "park", "party", "testValue1"]
        .into_iter()
        .filter(|known| known.starts_with(&value))
        .collect();
    asked.reply(json!({"completion": {"total": values.len(), "hasMore": false, "values": values}}));
}
