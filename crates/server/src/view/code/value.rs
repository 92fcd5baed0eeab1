//! Converts a tool's result to a script value: structured content or JSON as a value, text as a string, and a description
//! of everything else.

use callgate_call::DENIED_HEADLINE;
use callgate_code::Outcome;
use callgate_wire::{Frame, Json, JsonKind, Strictness, quote};
use serde_json::value::RawValue;

/// The limit of blocks in a run's reply.
const MAX_BLOCKS: usize = 64;

/// The outcome of a reply. Blocks that are not text are collected for the run's own reply.
pub(super) fn outcome(reply: &Frame, blocks: &mut Vec<String>) -> Outcome {
    if let Some(error) = reply.error() {
        return raised("RuntimeError", &failure(error));
    }
    let content: Vec<Json<'_>> = reply
        .result_member("content")
        .into_iter()
        .flat_map(Json::elements)
        .collect();
    let texts: Vec<String> = content.iter().filter_map(|block| text_of(*block)).collect();
    let is_error = reply
        .result_member("isError")
        .and_then(|flag| flag.as_bool());
    if is_error == Some(true) {
        let text = texts.join("\n");
        // A script can catch a denial on its own, and must not take it for a failure worth retrying.
        let kind = if text.starts_with(DENIED_HEADLINE) {
            "PermissionError"
        } else {
            "RuntimeError"
        };
        return raised(
            kind,
            if text.is_empty() {
                "the tool failed"
            } else {
                &text
            },
        );
    }
    let others: Vec<Json<'_>> = content
        .iter()
        .copied()
        .filter(|block| text_of(*block).is_none())
        .collect();
    let handles: Vec<String> = others
        .iter()
        .map(|block| collect_block(*block, blocks))
        .collect();
    // Structured content comes before text, which usually repeats it for models.
    let structured = reply
        .result_member("structuredContent")
        .filter(|value| !value.is_null());
    if let Some(structured) = structured {
        return value(structured.as_text().to_owned());
    }
    value(match (texts.as_slice(), handles.as_slice()) {
        ([], []) => "null".to_owned(),
        ([only], []) => as_json(only).unwrap_or_else(|| quote(only)),
        (several, []) => quote(&several.join("\n")),
        ([], [only]) => only.clone(),
        ([], several) => format!("[{}]", several.join(",")),
        (texts, handles) => format!(
            r#"{{"text":{},"content":[{}]}}"#,
            quote(&texts.join("\n")),
            handles.join(",")
        ),
    })
}

/// The message for a script about a call that failed.
fn failure(error: Json<'_>) -> String {
    let message = error.get("message").and_then(|text| text.as_str());
    let message = message.as_deref().unwrap_or("the call failed");
    let data = |key| error.get("data").and_then(|data| data.get(key));
    let text = |key| data(key).and_then(|value| value.as_str());
    let doubt = match text("effect").as_deref() {
        Some("unknown") => "; it may or may not have taken effect",
        _ => "",
    };
    let limit_ms = data("timeout_ms").and_then(|limit| limit.as_i64());
    match (text("namespace"), text("tool"), limit_ms) {
        (Some(server), Some(tool), Some(limit_ms)) => format!(
            "server {server} timed out: `{tool}` took longer than {}s{doubt}; request less at once, or raise \
             the server's `timeout`",
            limit_ms as f64 / 1e3
        ),
        (Some(server), _, _) if message.ends_with("unavailable") => {
            format!(
                "server {server} unavailable{doubt}; the gateway reconnects it automatically, so try again later"
            )
        }
        _ => format!("{message}{doubt}"),
    }
}

pub(super) fn raised(kind: &str, message: &str) -> Outcome {
    Outcome::Raised {
        kind: kind.to_owned(),
        message: message.to_owned(),
    }
}

/// A value from JSON text that was generated here or scanned with its frame.
pub(super) fn value(json: String) -> Outcome {
    match RawValue::from_string(json) {
        Ok(json) => Outcome::Value(json),
        Err(error) => raised(
            "RuntimeError",
            &format!("could not read the result: {error}"),
        ),
    }
}

fn text_of(block: Json<'_>) -> Option<String> {
    let is_text = block.get("type").and_then(Json::as_str).as_deref() == Some("text");
    is_text.then(|| block.get("text")?.as_str().map(|text| text.into_owned()))?
}

/// The text itself, if it is JSON. Many servers return JSON as text.
fn as_json(text: &str) -> Option<String> {
    let text = text.trim();
    let json = Json::validate(text.as_bytes(), Strictness::Full).ok()?;
    match json.kind() {
        // A quoted string stays text, quotes included.
        JsonKind::String => None,
        JsonKind::Null | JsonKind::Bool | JsonKind::Number | JsonKind::Array | JsonKind::Object => {
            Some(text.to_owned())
        }
    }
}

/// The description of an image, audio or resource block for a script. The block itself goes into the run's reply.
fn collect_block(block: Json<'_>, blocks: &mut Vec<String>) -> String {
    let mut members = Vec::new();
    for key in ["type", "mimeType", "uri", "name"] {
        let inner = block.get("resource").and_then(|resource| resource.get(key));
        if let Some(value) = block.get(key).or(inner) {
            members.push(format!("{}:{}", quote(key), value.as_text()));
        }
    }
    let inner = block
        .get("resource")
        .and_then(|resource| resource.get("text"));
    if let Some(text) = inner {
        members.push(format!(r#""text":{}"#, text.as_text()));
    }
    // Beyond the limit the script still gets the description, and only the block is missing from the reply.
    if blocks.len() < MAX_BLOCKS {
        blocks.push(block.as_text().to_owned());
        members.push(format!(r#""handle":"content_{}""#, blocks.len()));
    }
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(result: &str) -> (String, usize) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let frame = Frame::parse(text.into(), Strictness::Envelope).unwrap();
        let mut blocks = Vec::new();
        let said = match outcome(&frame, &mut blocks) {
            Outcome::Value(json) => json.get().to_owned(),
            Outcome::Raised { kind, message } => format!("{kind}: {message}"),
        };
        (said, blocks.len())
    }

    #[test]
    fn script_failures_name_the_server_the_tool_and_the_limit() {
        let cases = [
            (
                r#"{"code":-32002,"message":"upstream \"wix\" timed out after 0.3s","data":{"namespace":"wix","tool":"slow","timeout_ms":300,"effect":"unknown"}}"#,
                "server wix timed out: `slow` took longer than 0.3s; it may or may not have taken effect; request less at once, or raise the server's `timeout`",
            ),
            (
                r#"{"code":-32002,"message":"upstream \"wix\" unavailable","data":{"namespace":"wix","effect":"none"}}"#,
                "server wix unavailable; the gateway reconnects it automatically, so try again later",
            ),
            (r#"{"code":-32602,"message":"no"}"#, "no"),
            (r#"{"code":1}"#, "the call failed"),
        ];
        for (error, said) in cases {
            let json = Json::validate(error.as_bytes(), Strictness::Full).unwrap();
            assert_eq!(failure(json), said);
        }
    }

    #[test]
    fn tool_results_become_script_values() {
        let cases = [
            (
                r#"{"content":[],"structuredContent":{"a":[1.0]}}"#,
                r#"{"a":[1.0]}"#,
                0,
            ),
            (
                r#"{"content":[{"type":"text","text":" [1, 2]\n"}]}"#,
                "[1, 2]",
                0,
            ),
            (r#"{"content":[{"type":"text","text":"12"}]}"#, "12", 0),
            (
                r#"{"content":[{"type":"text","text":"plain"}]}"#,
                r#""plain""#,
                0,
            ),
            (
                r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
                r#""a\nb""#,
                0,
            ),
            (
                r#"{"content":[{"type":"image","mimeType":"image/png","data":"AA=="}]}"#,
                r#"{"type":"image","mimeType":"image/png","handle":"content_1"}"#,
                1,
            ),
            (
                r#"{"content":[{"type":"text","text":"x"},{"type":"audio","data":""}]}"#,
                r#"{"text":"x","content":[{"type":"audio","handle":"content_1"}]}"#,
                1,
            ),
            (r#"{"content":[]}"#, "null", 0),
            (
                r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#,
                "RuntimeError: no",
                0,
            ),
        ];
        for (result, said, blocks) in cases {
            assert_eq!(of(result), (said.to_owned(), blocks), "{result}");
        }
    }
}
