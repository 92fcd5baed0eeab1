//! The result of a run for the host: printed text, then the value, with a handle for what is too large, then the blocks
//! that are not text.

use callgate_call::ScriptRunEnd;
use callgate_code::Form;
use callgate_wire::quote;
use serde_json::{Value, value::RawValue};

use super::{
    CodeSettings,
    inner::{HeldCall, RunCalls},
};
use crate::view::results;

/// The length of a value's preview beside its handle.
const PREVIEW_CHARS: usize = 300;

/// The output of a script.
pub(super) struct ScriptOutput {
    pub(super) printed: String,
    pub(super) value: Option<Box<RawValue>>,
    pub(super) names: Vec<(String, Box<RawValue>)>,
    pub(super) form: Form,
}

impl ScriptOutput {
    /// Its size, in bytes.
    pub(super) fn len(&self) -> usize {
        let value = self.value.as_ref().map_or(0, |value| value.get().len());
        let names: usize = self.names.iter().map(|(_, value)| value.get().len()).sum();
        self.printed.len() + value + names
    }
}

/// The result of a run that completed.
pub(super) fn done(inner: &RunCalls, settings: &CodeSettings, given: ScriptOutput) -> ScriptRunEnd {
    let ScriptOutput {
        printed: mut text,
        value,
        names,
        form,
    } = given;
    let said = match value {
        // A last expression such as `print(x)` returns None, which would only be noise after the text.
        Some(value) if value.get() == "null" && !text.is_empty() => None,
        Some(value) => Some(shown(value.get(), form)),
        None if names.is_empty() && text.is_empty() => {
            Some("The script ran. It printed nothing and has no result.".to_owned())
        }
        None if names.is_empty() => None,
        None => Some(shown(&assigned(inner, settings, &names), form)),
    };
    if let Some(said) = said {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&said);
    }
    let text = results::shortened(
        &inner.gateway.views.results,
        inner.asker(),
        settings.inline_chars,
        text,
    );
    answer(&text, &inner.blocks(), None)
}

/// A value in the requested form; its JSON if it has no such form.
fn shown(json: &str, form: Form) -> String {
    let value = || serde_json::from_str::<Value>(json).ok();
    let other = match form {
        Form::Json => None,
        Form::Raw => serde_json::from_str::<String>(json).ok(),
        Form::JsonForPeople => value().and_then(|value| serde_json::to_string_pretty(&value).ok()),
        Form::Yaml => value().and_then(|value| serde_saphyr::to_string(&value).ok()),
    };
    other.unwrap_or_else(|| json.to_owned())
}

/// The names that a script assigned, as one object, with a handle for each value that is too large.
fn assigned(
    inner: &RunCalls,
    settings: &CodeSettings,
    names: &[(String, Box<RawValue>)],
) -> String {
    let results = &inner.gateway.views.results;
    let members: Vec<String> = names
        .iter()
        .map(|(name, value)| {
            let json = value.get();
            let is_large = json.chars().count() > settings.inline_chars;
            let stored = is_large
                .then(|| results::stored(results, inner.asker(), json.to_owned(), PREVIEW_CHARS))
                .flatten();
            format!("{}:{}", quote(name), stored.as_deref().unwrap_or(json))
        })
        .collect();
    format!("{{{}}}", members.join(","))
}

/// The result of a run that failed.
pub(super) fn failed(
    inner: &RunCalls,
    settings: &CodeSettings,
    printed: &str,
    message: &str,
    line: Option<u32>,
) -> ScriptRunEnd {
    let place = line.map_or(String::new(), |line| format!("line {line}: "));
    // Cut instead of stored under a handle: the error at the end is what matters.
    let printed: String = printed.chars().take(settings.inline_chars).collect();
    let joint = if printed.is_empty() || printed.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let message = format!("{place}{message}");
    let text = format!("{printed}{joint}{message}");
    answer(&text, &inner.blocks(), Some(message))
}

/// The result of a run that did not start.
pub(super) fn fault(message: &str) -> ScriptRunEnd {
    answer(message, &[], Some(message.to_owned()))
}

/// The result of a run that waits for approvals.
pub(super) fn held(id: Option<&str>, held_calls: &[HeldCall]) -> ScriptRunEnd {
    let mut lines: Vec<String> = held_calls.iter().map(|wait| wait.message.clone()).collect();
    lines.push(match id {
        Some(id) => format!(
            "The script stopped before this call; nothing after it ran. Once the call is approved, call run with resume=\"{id}\": the script continues from there and repeats no call."
        ),
        None => "The script stopped before this call and cannot be resumed. Once the call is approved, send the rest of the script again.".to_owned(),
    });
    let ids: Vec<String> = held_calls
        .iter()
        .map(|wait| quote(&wait.approval))
        .collect();
    let tools: Vec<&str> = held_calls.iter().map(|wait| wait.tool.as_str()).collect();
    let run = id.map_or("null".to_owned(), quote);
    let structured = format!(
        r#","structuredContent":{{"run_id":{run},"approval_ids":[{}]}}"#,
        ids.join(",")
    );
    let text = quote(&lines.join("\n"));
    ScriptRunEnd {
        result: format!(
            r#"{{"content":[{{"type":"text","text":{text}}}]{structured},"isError":true}}"#
        ),
        // Recorded as failed: this run is over, and resuming it is a run of its own.
        failed: Some(format!("held: {} needs approval", tools.join(", "))),
    }
}

fn answer(text: &str, blocks: &[String], failed: Option<String>) -> ScriptRunEnd {
    let mut content = vec![format!(r#"{{"type":"text","text":{}}}"#, quote(text))];
    content.extend(blocks.iter().cloned());
    let is_error = if failed.is_some() {
        r#","isError":true"#
    } else {
        ""
    };
    ScriptRunEnd {
        result: format!(r#"{{"content":[{}]{is_error}}}"#, content.join(",")),
        failed,
    }
}
