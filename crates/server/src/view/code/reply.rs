//! What the host gets for a run: printed text, then the result; what is too large under a handle; and the blocks
//! that are no text.

use callgate_call::ScriptRunEnd;
use callgate_code::Form;
use callgate_wire::quote;
use serde_json::{Value, value::RawValue};

use super::{
    CodeSettings,
    inner::{Inner, Waiting},
};
use crate::view::results;

/// How much of a value that is too large is shown beside its handle.
const PREVIEW_CHARS: usize = 300;

/// What a run gave.
pub(super) struct Given {
    pub(super) printed: String,
    pub(super) value: Option<Box<RawValue>>,
    pub(super) names: Vec<(String, Box<RawValue>)>,
    pub(super) form: Form,
}

impl Given {
    /// How many bytes it is.
    pub(super) fn len(&self) -> usize {
        let value = self.value.as_ref().map_or(0, |value| value.get().len());
        let names: usize = self.names.iter().map(|(_, value)| value.get().len()).sum();
        self.printed.len() + value + names
    }
}

/// A run that ended by itself.
pub(super) fn done(inner: &Inner, settings: &CodeSettings, given: Given) -> ScriptRunEnd {
    let Given {
        printed: mut text,
        value,
        names,
        form,
    } = given;
    let said = match value {
        // A last expression that only prints has nothing else to say.
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

/// A value in the form that was asked for.
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

/// The names that a script assigned, as one object; each that is too large is a handle.
fn assigned(inner: &Inner, settings: &CodeSettings, names: &[(String, Box<RawValue>)]) -> String {
    let results = &inner.gateway.views.results;
    let members: Vec<String> = names
        .iter()
        .map(|(name, value)| {
            let json = value.get();
            let is_large = json.chars().count() > settings.inline_chars;
            let kept = is_large
                .then(|| results::kept(results, inner.asker(), json.to_owned(), PREVIEW_CHARS))
                .flatten();
            format!("{}:{}", quote(name), kept.as_deref().unwrap_or(json))
        })
        .collect();
    format!("{{{}}}", members.join(","))
}

/// A run that did not end well.
pub(super) fn failed(
    inner: &Inner,
    settings: &CodeSettings,
    printed: &str,
    message: &str,
    line: Option<u32>,
) -> ScriptRunEnd {
    let place = line.map_or(String::new(), |line| format!("line {line}: "));
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

/// A run that was not begun.
pub(super) fn fault(message: &str) -> ScriptRunEnd {
    answer(message, &[], Some(message.to_owned()))
}

/// A run that waits for approvals.
pub(super) fn held(id: Option<&str>, waits: &[Waiting]) -> ScriptRunEnd {
    let mut lines: Vec<String> = waits.iter().map(|wait| wait.told.clone()).collect();
    lines.push(match id {
        Some(id) => format!(
            "The script stopped before this call; nothing after it was done. Once it is approved, call run with resume=\"{id}\": the script goes on from there and repeats no call."
        ),
        None => "The script stopped before this call, and cannot be kept: once it is approved, send the rest of the script again.".to_owned(),
    });
    let ids: Vec<String> = waits.iter().map(|wait| quote(&wait.approval)).collect();
    let tools: Vec<&str> = waits.iter().map(|wait| wait.tool.as_str()).collect();
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
