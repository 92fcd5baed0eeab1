//! JSON formatted for people: one member per line, numbers as written, strings with hidden characters escaped.

use callgate_wire::{Json, JsonKind, Strictness};

use super::{Layout, visible};

/// Values nested deeper are shown as written.
const MAX_DEPTH: usize = 16;

/// Formats a JSON text; invalid JSON is shown as text.
pub fn visible_json(text: &str) -> String {
    match Json::validate(text.as_bytes(), Strictness::Envelope) {
        Ok(json) => {
            let mut out = String::with_capacity(text.len() * 2);
            lay_out(json, 0, &mut out);
            out
        }
        Err(_) => visible(text, Layout::Lines),
    }
}

fn lay_out(json: Json<'_>, depth: usize, out: &mut String) {
    match json.kind() {
        JsonKind::Object if depth < MAX_DEPTH => {
            let members = json.members().map(|(key, value)| (Some(key), value));
            list(('{', '}'), members, depth, out);
        }
        JsonKind::Array if depth < MAX_DEPTH => {
            let elements = json.elements().map(|value| (None, value));
            list(('[', ']'), elements, depth, out);
        }
        JsonKind::String => string(json, out),
        JsonKind::Object | JsonKind::Array | JsonKind::Number | JsonKind::Bool | JsonKind::Null => {
            out.push_str(&visible(json.as_text(), Layout::OneLine));
        }
    }
}

fn list<'j>(
    (open, close): (char, char),
    items: impl Iterator<Item = (Option<Json<'j>>, Json<'j>)>,
    depth: usize,
    out: &mut String,
) {
    out.push(open);
    let mut is_empty = true;
    for (key, value) in items {
        if !is_empty {
            out.push(',');
        }
        is_empty = false;
        new_line(depth + 1, out);
        if let Some(key) = key {
            string(key, out);
            out.push_str(": ");
        }
        lay_out(value, depth + 1, out);
    }
    if !is_empty {
        new_line(depth, out);
    }
    out.push(close);
}

/// A string with its escapes undone, so that `\u202e` and the character itself look the same.
fn string(json: Json<'_>, out: &mut String) {
    let text = json.as_str().unwrap_or_default();
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => out.push_str(&visible(c.encode_utf8(&mut [0; 4]), Layout::OneLine)),
        }
    }
    out.push('"');
}

fn new_line(depth: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_shown_one_member_per_line_with_numbers_unchanged() {
        let shown = visible_json(r#"{"a":[1.0000000000000000001,{}],"b":"x\ny","c":null}"#);
        let expected = "{\n  \"a\": [\n    1.0000000000000000001,\n    {}\n  ],\n  \"b\": \"x\\ny\",\n  \"c\": null\n}";
        assert_eq!(shown, expected);
    }

    #[test]
    fn invisible_characters_in_json_are_escaped_in_either_spelling() {
        let expected = "{\n  \"p⟨U+200B⟩\": \"a⟨U+202E⟩b\"\n}";
        assert_eq!(visible_json("{\"p\\u200b\":\"a\\u202eb\"}"), expected);
        assert_eq!(visible_json("{\"p\u{200b}\":\"a\u{202e}b\"}"), expected);
    }

    #[test]
    fn invalid_json_is_shown_as_text() {
        assert_eq!(
            visible_json("{\"a\": \"cut \u{1b}"),
            "{\"a\": \"cut ⟨U+001B⟩"
        );
    }

    #[test]
    fn json_is_shown_to_a_limited_depth() {
        let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
        assert!(visible_json(&deep).lines().count() < 60);
    }
}
