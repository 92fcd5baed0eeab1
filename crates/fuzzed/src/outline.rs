//! Whether an outline tells the truth about its text.

use callgate_wire::{Json, JsonKind, Member, Outline, Span, Strictness};

/// Checks every span of an outline: it lies inside the text, begins and ends between characters,
/// and the text printed again from the spans is the text.
pub(crate) fn check(text: &[u8], outline: &Outline, strictness: Strictness) {
    let text = std::str::from_utf8(text).expect("an accepted text is UTF-8");
    let around = [
        part(text, 0..start(outline.value)),
        part(text, end(outline.value)..text.len()),
    ];
    assert!(
        around.iter().all(|gap| is_space(gap)),
        "space around the value"
    );
    assert_eq!(
        outline.line_breaks,
        has_break_between_tokens(text.as_bytes()),
        "line breaks"
    );
    let value = Json::validate(text.as_bytes(), strictness).expect("it was accepted just now");
    assert_eq!(
        value.as_text(),
        part(text, start(outline.value)..end(outline.value))
    );
    check_members(text, value, &outline.top);
    let body = last_of(text, &outline.top, &["params", "result"]);
    check_section(text, body, &outline.body);
    let meta = last_of(text, &outline.body, &["_meta"]);
    check_section(text, meta, &outline.meta);
    let printed = printed(value);
    assert_eq!(
        printed,
        without_space(text),
        "printed again from its values"
    );
}

fn check_section(text: &str, object: Option<Span>, members: &[Member]) {
    let Some(span) = object else {
        assert!(members.is_empty(), "members of a value that is not there");
        return;
    };
    // Inside an array nothing is the envelope, so that what is allowed below it is allowed here.
    let alone = format!("[{}]", part(text, start(span)..end(span)));
    let alone = Json::validate(alone.as_bytes(), Strictness::Envelope).expect("a part of JSON");
    let object = alone.elements().next().expect("one element");
    check_members(text, object, members);
}

/// The members stand one after the other with exactly a brace, a colon or a comma in between, and
/// are the ones that walking over the object finds.
fn check_members(text: &str, object: Json<'_>, members: &[Member]) {
    if object.kind() != JsonKind::Object {
        assert!(members.is_empty(), "only objects have members");
        return;
    }
    let mut walked = object.members();
    let mut before: Option<Span> = None;
    for member in members {
        let (key, value) = walked.next().expect("as many members as spans");
        assert_eq!(
            key.as_text(),
            part(text, start(member.key)..end(member.key))
        );
        assert_eq!(
            value.as_text(),
            part(text, start(member.value)..end(member.value))
        );
        if let Some(before) = before {
            assert_gap(text, before, member.key, ",");
        }
        assert_gap(text, member.key, member.value, ":");
        before = Some(member.value);
    }
    assert!(walked.next().is_none(), "as many spans as members");
}

fn assert_gap(text: &str, left: Span, right: Span, expected: &str) {
    let gap = part(text, end(left)..start(right));
    assert_eq!(
        gap.trim_matches([' ', '\t', '\n', '\r']),
        expected,
        "between two spans"
    );
}

fn last_of(text: &str, members: &[Member], names: &[&str]) -> Option<Span> {
    let is_named = |member: &&Member| {
        let raw = part(text, start(member.key)..end(member.key));
        serde_json::from_str::<String>(raw).is_ok_and(|key| names.contains(&key.as_str()))
    };
    members
        .iter()
        .rfind(is_named)
        .map(|member| member.value)
        .filter(|value| text[start(*value)..].starts_with('{'))
}

/// A slice of the text; it panics outside of it and inside a character.
fn part(text: &str, range: std::ops::Range<usize>) -> &str {
    &text[range]
}

fn start(span: Span) -> usize {
    span.start as usize
}

fn end(span: Span) -> usize {
    span.end as usize
}

fn is_space(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
}

/// A value printed again without space, by walking over it.
fn printed(value: Json<'_>) -> String {
    let mut out = String::new();
    print(value, &mut out);
    out
}

fn print(value: Json<'_>, out: &mut String) {
    match value.kind() {
        JsonKind::Null | JsonKind::Bool | JsonKind::Number | JsonKind::String => {
            out.push_str(value.as_text());
        }
        JsonKind::Array => {
            check_counts(value);
            out.push('[');
            for (index, element) in value.elements().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                print(element, out);
            }
            out.push(']');
        }
        JsonKind::Object => {
            out.push('{');
            for (index, (key, value)) in value.members().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                print(key, out);
                out.push(':');
                print(value, out);
            }
            out.push('}');
        }
    }
}

/// Characters are counted in one pass as they are one by one, under a key that the array has.
fn check_counts(array: Json<'_>) {
    let objects = || array.elements().filter(|element| element.is_object());
    let key = objects().find_map(|object| object.members().next()?.0.as_str());
    let key = key.unwrap_or_default();
    let counts = objects().filter_map(|object| object.get(&key)?.char_count());
    assert_eq!(array.count_chars_under(&key), counts.sum::<usize>());
}

/// The text without the space between its tokens, found byte by byte.
fn without_space(text: &str) -> String {
    let mut inside = Inside::default();
    text.chars()
        .filter(|character| {
            let in_string = inside.step(*character);
            in_string || !matches!(character, ' ' | '\t' | '\n' | '\r')
        })
        .collect()
}

fn has_break_between_tokens(text: &[u8]) -> bool {
    // No raw line break can stand in a string of an accepted text.
    text.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

/// Follows a text and knows whether it is inside a string.
#[derive(Default)]
struct Inside {
    string: bool,
    escape: bool,
}

impl Inside {
    /// Takes the next character; true when it belongs to a string.
    fn step(&mut self, character: char) -> bool {
        let was_inside = self.string;
        if self.escape {
            self.escape = false;
        } else if self.string && character == '\\' {
            self.escape = true;
        } else if character == '"' {
            self.string = !self.string;
        }
        was_inside || self.string
    }
}
