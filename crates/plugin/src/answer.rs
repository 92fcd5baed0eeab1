//! Converts an operation's response to a tool result.

use callgate_wire::{Content, ToolResult};
use serde_json::{Map, Value};

use crate::proto::v1::ExecuteResponse;

/// One text block with a JSON object of `data` and `output`, which is also the structured result. An error is a
/// second text block.
pub(crate) fn answer(response: ExecuteResponse) -> ToolResult {
    let ExecuteResponse {
        success,
        output,
        data,
        error,
    } = response;
    let mut data: Vec<(String, Vec<u8>)> = data.into_iter().collect();
    data.sort();
    let mut object: Map<String, Value> = data
        .into_iter()
        .map(|(key, raw)| (key, value(&raw)))
        .collect();
    if !output.is_empty() || !object.contains_key("output") {
        object.insert("output".to_owned(), output.into());
    }
    let object = Value::Object(object).to_string();
    let mut content = vec![Content::Text(object.clone())];
    let is_error = !success || !error.is_empty();
    if !error.is_empty() {
        content.push(Content::Text(error));
    }
    ToolResult {
        content,
        structured: Some(object),
        is_error,
    }
}

/// Values are JSON documents; anything else is passed on as a string.
fn value(raw: &[u8]) -> Value {
    serde_json::from_slice(raw).unwrap_or_else(|_| String::from_utf8_lossy(raw).into_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_responses_become_tool_results() {
        let response =
            |success, output: &str, data: &[(&str, &str)], error: &str| ExecuteResponse {
                success,
                output: output.to_owned(),
                data: data
                    .iter()
                    .map(|(key, raw)| ((*key).to_owned(), raw.as_bytes().to_vec()))
                    .collect(),
                error: error.to_owned(),
            };
        for (given, expected) in [
            (
                response(true, "ok", &[("n", "1"), ("a", "[2]")], ""),
                r#"{"content":[{"type":"text","text":"{\"a\":[2],\"n\":1,\"output\":\"ok\"}"}],"structuredContent":{"a":[2],"n":1,"output":"ok"}}"#,
            ),
            (
                response(false, "", &[], "no"),
                r#"{"content":[{"type":"text","text":"{\"output\":\"\"}"},{"type":"text","text":"no"}],"structuredContent":{"output":""},"isError":true}"#,
            ),
            (
                response(false, "", &[], ""),
                r#"{"content":[{"type":"text","text":"{\"output\":\"\"}"}],"structuredContent":{"output":""},"isError":true}"#,
            ),
            (
                response(true, "", &[("output", "1"), ("bad", "{")], "odd"),
                r#"{"content":[{"type":"text","text":"{\"bad\":\"{\",\"output\":1}"},{"type":"text","text":"odd"}],"structuredContent":{"bad":"{","output":1},"isError":true}"#,
            ),
        ] {
            assert_eq!(answer(given).to_raw(), expected);
        }
    }
}
