//! Limits of a definition. A definition over a limit is not offered, so that it cannot fill the lock, the catalog or a model's
//! context. Real servers stay far below.

use std::fmt;

use callgate_wire::{Json, JsonKind};

/// Longest definition, as JSON.
pub const MAX_DEFINITION_BYTES: usize = 256 * 1024;
/// The most members and elements of a definition, on all levels together.
pub const MAX_DEFINITION_VALUES: usize = 5_000;
/// Deepest nesting of a definition.
pub const MAX_DEFINITION_DEPTH: usize = 64;
/// Longest name of a tool.
pub const MAX_TOOL_NAME_CHARS: usize = 256;
/// Longest key of any member, the names of parameters among them.
pub const MAX_KEY_CHARS: usize = 512;

/// The limit that a definition exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverLimit {
    /// It has this many bytes.
    Bytes(usize),
    /// It has more members and elements than [`MAX_DEFINITION_VALUES`].
    Values,
    /// It is nested deeper than [`MAX_DEFINITION_DEPTH`].
    Depth,
    /// The tool's name has this many characters.
    Name(usize),
    /// A key has this many characters.
    Key(usize),
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(found) => write!(
                f,
                "its definition has {found} bytes, and the limit is {MAX_DEFINITION_BYTES}"
            ),
            Self::Values => write!(
                f,
                "its definition has more than {MAX_DEFINITION_VALUES} members and elements"
            ),
            Self::Depth => write!(
                f,
                "its definition is nested deeper than {MAX_DEFINITION_DEPTH} levels"
            ),
            Self::Name(found) => write!(
                f,
                "its name has {found} characters, and the limit is {MAX_TOOL_NAME_CHARS}"
            ),
            Self::Key(found) => write!(
                f,
                "a key in its definition has {found} characters, and the limit is {MAX_KEY_CHARS}"
            ),
        }
    }
}

impl OverLimit {
    /// The first limit that this definition exceeds.
    pub(crate) fn of(name: &str, definition: Json<'_>) -> Option<Self> {
        let (bytes, characters) = (definition.bytes().len(), name.chars().count());
        if characters > MAX_TOOL_NAME_CHARS {
            return Some(Self::Name(characters));
        }
        if bytes > MAX_DEFINITION_BYTES {
            return Some(Self::Bytes(bytes));
        }
        // Last, because it walks the whole definition.
        count(definition, 0, &mut 0).err()
    }
}

/// Counts the values below a value, and stops at the first limit.
fn count(json: Json<'_>, depth: usize, values: &mut usize) -> Result<(), OverLimit> {
    if depth > MAX_DEFINITION_DEPTH {
        return Err(OverLimit::Depth);
    }
    match json.kind() {
        JsonKind::Object => json.members().try_for_each(|(key, value)| {
            one_more(values)?;
            key_is_short(key)?;
            count(value, depth + 1, values)
        }),
        JsonKind::Array => json.elements().try_for_each(|element| {
            one_more(values)?;
            count(element, depth + 1, values)
        }),
        JsonKind::String | JsonKind::Number | JsonKind::Bool | JsonKind::Null => Ok(()),
    }
}

fn one_more(values: &mut usize) -> Result<(), OverLimit> {
    *values += 1;
    match *values <= MAX_DEFINITION_VALUES {
        true => Ok(()),
        false => Err(OverLimit::Values),
    }
}

fn key_is_short(key: Json<'_>) -> Result<(), OverLimit> {
    // A key has at most as many characters as bytes, so most keys need no counting.
    if key.bytes().len() <= MAX_KEY_CHARS {
        return Ok(());
    }
    match key.as_str().unwrap_or_default().chars().count() {
        characters if characters > MAX_KEY_CHARS => Err(OverLimit::Key(characters)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use callgate_wire::Strictness;

    use super::*;

    #[test]
    fn definitions_over_a_limit_are_refused_naming_the_limit() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let cases = [
            ("t", r#"{"name":"t"}"#.to_owned(), None),
            (
                "t",
                format!(r#"{{"x":"{}"}}"#, "a".repeat(MAX_DEFINITION_BYTES)),
                Some(OverLimit::Bytes(MAX_DEFINITION_BYTES + 8)),
            ),
            (
                "t",
                format!("[{}0]", "0,".repeat(MAX_DEFINITION_VALUES)),
                Some(OverLimit::Values),
            ),
            (
                "t",
                format!("[{}0]", "0,".repeat(MAX_DEFINITION_VALUES - 1)),
                None,
            ),
            ("t", nested(MAX_DEFINITION_DEPTH), None),
            (
                "t",
                nested(MAX_DEFINITION_DEPTH + 1),
                Some(OverLimit::Depth),
            ),
            (
                "t",
                format!(r#"{{"{}":1}}"#, "k".repeat(MAX_KEY_CHARS + 1)),
                Some(OverLimit::Key(MAX_KEY_CHARS + 1)),
            ),
            (
                "t",
                format!(r#"{{"{}":1}}"#, "é".repeat(MAX_KEY_CHARS)),
                None,
            ),
        ];
        for (name, text, expected) in cases {
            let json = Json::validate(text.as_bytes(), Strictness::Full).unwrap();
            assert_eq!(
                OverLimit::of(name, json),
                expected,
                "{}",
                &text[..text.len().min(40)]
            );
        }
        let json = Json::validate(b"{}", Strictness::Full).unwrap();
        let long = "n".repeat(MAX_TOOL_NAME_CHARS + 1);
        assert_eq!(OverLimit::of(&long, json), Some(OverLimit::Name(257)));
    }
}
