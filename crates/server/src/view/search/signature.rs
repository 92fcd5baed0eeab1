//! Signatures: a tool's parameters in one line, `(repo*:str, private:bool=false, labels~:obj)`. `*` marks required
//! parameters, `~` shortened types.

use callgate_wire::{Json, JsonKind};

/// The length at which optional parameters are cut to `+n more`.
const MAX_CHARS: usize = 120;
/// Longer defaults and enum values are left out.
const MAX_VALUE_CHARS: usize = 12;
/// Enums with more values are not spelled out.
const MAX_CHOICES: usize = 3;

pub(crate) fn signature(schema: Option<Json<'_>>) -> String {
    let properties = schema.and_then(|schema| schema.get("properties"));
    let required = schema.and_then(|schema| schema.get("required"));
    let is_required = |name: &str| {
        let mut names = required.into_iter().flat_map(Json::elements);
        names.any(|required| required.as_str().as_deref() == Some(name))
    };
    let mut all: Vec<(bool, String)> = Vec::new();
    for (name, property) in properties.into_iter().flat_map(Json::members) {
        let name = name.as_str().unwrap_or_default();
        let needed = is_required(&name);
        all.push((needed, parameter(&name, property, needed)));
    }
    // Required parameters come first, because only the end is cut. The sort is stable, so the schema's order remains.
    all.sort_by_key(|(needed, _)| !needed);
    let mut shown = String::from("(");
    let count = all.len();
    for (at, (needed, text)) in all.into_iter().enumerate() {
        let joint = if at == 0 { "" } else { ", " };
        let is_over = shown.chars().count() + joint.len() + text.chars().count() > MAX_CHARS;
        // Required parameters are never cut: without them the model cannot make the call.
        if is_over && at > 0 && !needed {
            shown.push_str(&format!("{joint}+{} more", count - at));
            break;
        }
        shown.push_str(joint);
        shown.push_str(&text);
    }
    shown.push(')');
    shown
}

fn parameter(name: &str, property: Json<'_>, needed: bool) -> String {
    let (kind, is_short) = kind(property);
    let needed = if needed { "*" } else { "" };
    let short = if is_short { "~" } else { "" };
    let default = property
        .get("default")
        .filter(|value| !value.is_null() && value.as_text().chars().count() <= MAX_VALUE_CHARS);
    let default = default.map(|value| match value.as_str() {
        Some(text) => format!("={text}"),
        None => format!("={}", value.as_text()),
    });
    format!(
        "{name}{needed}{short}:{kind}{}",
        default.unwrap_or_default()
    )
}

/// The short name of a type, and whether it omits something.
fn kind(property: Json<'_>) -> (String, bool) {
    if let Some(choices) = property.get("enum") {
        let texts: Vec<_> = choices
            .elements()
            .filter_map(|choice| choice.as_str())
            .collect();
        let fit = texts.len() <= MAX_CHOICES
            && texts
                .iter()
                .all(|text| text.chars().count() <= MAX_VALUE_CHARS);
        if fit && !texts.is_empty() {
            return (texts.join("|"), false);
        }
        return ("enum".to_owned(), true);
    }
    let written = property.get("type");
    let word = written.and_then(|word| match word.kind() {
        JsonKind::String => word.as_str(),
        JsonKind::Array => word
            .elements()
            .filter_map(|word| word.as_str())
            .find(|word| word != "null"),
        JsonKind::Null | JsonKind::Bool | JsonKind::Number | JsonKind::Object => None,
    });
    match word.as_deref() {
        Some("string") => ("str".to_owned(), false),
        Some("integer") => ("int".to_owned(), false),
        Some("number") => ("num".to_owned(), false),
        Some("boolean") => ("bool".to_owned(), false),
        Some("array") => {
            let (inner, is_short) = property
                .get("items")
                .map_or_else(|| ("any".to_owned(), true), kind);
            (format!("[{inner}]"), is_short)
        }
        Some("object") => {
            let has_more = property
                .get("properties")
                .is_some_and(|inner| inner.members().next().is_some());
            ("obj".to_owned(), has_more)
        }
        Some(_) | None => ("any".to_owned(), true),
    }
}

#[cfg(test)]
mod tests {
    use callgate_wire::Strictness;

    use super::*;

    fn of(schema: &str) -> String {
        signature(Some(
            Json::validate(schema.as_bytes(), Strictness::Full).unwrap(),
        ))
    }

    #[test]
    fn signatures_show_parameters_in_one_line() {
        let schema = r#"{"properties":{
            "private":{"type":"boolean","default":false},"repo":{"type":"string"},
            "labels":{"type":"object","properties":{"a":{}}},"state":{"enum":["open","closed"]},
            "ids":{"type":"array","items":{"type":"integer"}},"any":{}},"required":["repo"]}"#;
        assert_eq!(
            of(schema),
            "(repo*:str, private:bool=false, labels~:obj, state:open|closed, ids:[int], any~:any)"
        );
        assert_eq!(of("{}"), "()");
        assert_eq!(signature(None), "()");
    }

    #[test]
    fn long_signatures_keep_every_required_parameter() {
        let optional: Vec<String> = (0..40)
            .map(|n| format!(r#""option_{n}":{{"type":"string"}}"#))
            .collect();
        let schema = format!(
            r#"{{"properties":{{{},"last":{{"type":"string"}}}},"required":["last"]}}"#,
            optional.join(",")
        );
        let line = of(&schema);
        assert!(line.starts_with("(last*:str, option_0:str, "), "{line}");
        assert!(line.ends_with("more)") && line.len() < 150, "{line}");
    }
}
