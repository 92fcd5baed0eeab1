//! Searches arguments for possible paths and commands.

use std::collections::BTreeSet;

use callgate_wire::{Json, JsonKind, Strictness, words as words_of};

use super::{
    Protected, TooLarge, command, is_builtin,
    spelling::{begins_like_path, is_web_address, may_be_path, parts, spelled},
    words,
};
use crate::{
    BuiltinTool, Meaning, Target,
    policy::{path::PathBase, projection},
};

/// The most strings in a call's arguments; a call with more needs a person.
const MAX_STRINGS: usize = 100_000;
/// The most paths of a call; a call with more needs a person.
pub(super) const MAX_PATHS: usize = 20_000;
/// The deepest nesting: that of a frame, with room for JSON in strings several times over.
const MAX_DEPTH: usize = 512;
/// A longer string is a path only if it begins like one.
const LONGEST_PLAIN: usize = 4096;
/// A text that starts with this is a path even with spaces in it.
const FILE_SCHEME: &str = "file:";

/// The paths and commands in the arguments of a call.
pub(super) struct CandidateSearch<'a> {
    protected: &'a Protected,
    ground: &'a PathBase,
    /// Whether every argument of the tool may be a command.
    is_shell: bool,
    strings: usize,
    /// Absolute paths.
    pub(super) paths: BTreeSet<String>,
    pub(super) lines: Vec<String>,
    /// Whether an argument names a verb that moves, deletes or copies: `{"op": "delete"}`.
    pub(super) says_take_whole: bool,
}

impl<'a> CandidateSearch<'a> {
    pub(super) fn over(
        arguments: Json<'_>,
        target: &Target,
        ground: &'a PathBase,
        protected: &'a Protected,
    ) -> Result<Self, TooLarge> {
        let mut walk = Self {
            protected,
            ground,
            is_shell: false,
            strings: 0,
            paths: BTreeSet::new(),
            lines: Vec::new(),
            says_take_whole: false,
        };
        if is_builtin(target) {
            walk.builtin(arguments);
        } else {
            walk.is_shell = is_shell(target);
            walk.value(arguments, None, 0)?;
        }
        Ok(walk)
    }

    /// The declared arguments of a built-in tool; its other arguments are not paths.
    fn builtin(&mut self, arguments: Json<'_>) {
        let texts = |meaning| {
            BuiltinTool::names_of(meaning)
                .filter_map(|name| arguments.get(name).and_then(Json::as_str))
        };
        for text in texts(Meaning::Path) {
            self.paths.extend(spelled(&text, self.ground));
        }
        let lines = texts(Meaning::Command).map(|line| line.into_owned());
        self.lines.extend(lines);
    }

    fn value(&mut self, value: Json<'_>, key: Option<&str>, depth: usize) -> Result<(), TooLarge> {
        if depth > MAX_DEPTH {
            return Err(TooLarge);
        }
        match value.kind() {
            JsonKind::Object => {
                for (name, value) in value.members() {
                    // Keys as well: some tools take maps keyed by path.
                    self.text(name, None, depth)?;
                    let name = name.as_str().unwrap_or_default();
                    // Values nested in a known key belong to it, whatever their own keys are.
                    let outer = key.filter(|key| is_telling(key));
                    self.value(value, Some(outer.unwrap_or(&name)), depth + 1)?;
                }
            }
            JsonKind::Array => {
                for element in value.elements() {
                    self.value(element, key, depth + 1)?;
                }
            }
            JsonKind::String => self.text(value, key, depth)?,
            JsonKind::Number | JsonKind::Bool | JsonKind::Null => {}
        }
        Ok(())
    }

    /// A string under `key`, or a key itself.
    fn text(&mut self, value: Json<'_>, key: Option<&str>, depth: usize) -> Result<(), TooLarge> {
        self.strings += 1;
        if self.strings > MAX_STRINGS || self.paths.len() > MAX_PATHS {
            return Err(TooLarge);
        }
        let is_command = key.is_some_and(|key| self.is_shell || projection::is_command_key(key));
        if is_command && let Some(line) = value.as_str_without_halves() {
            self.lines.push(line.into_owned());
        }
        let raw = value.bytes();
        if raw.len() > LONGEST_PLAIN && !begins_like_path(raw) && !begins_like_json(raw) {
            return Ok(());
        }
        let has_path_bytes = has_path_bytes(raw);
        let is_path_key = key.is_some_and(projection::is_path_key);
        // A fast path: prose is not unescaped, because no spelling of a path begins like it. A property test
        // compares this shortcut with the full reading.
        if has_path_bytes && !is_path_key && is_prose(raw) {
            return Ok(());
        }
        let Some(text) = value.as_str_without_halves() else {
            return Ok(());
        };
        if !has_path_bytes {
            if is_path_key || self.is_known(&text) {
                self.add(&text);
            } else if key.is_some() && words::takes_whole(&text) {
                self.says_take_whole = true;
            }
            return Ok(());
        }
        // Some servers accept their arguments as JSON in a string.
        if begins_like_json(raw)
            && let Ok(inside) = Json::validate(text.trim().as_bytes(), Strictness::Envelope)
        {
            return self.value(inside, key, depth + 1);
        }
        if is_path_key || may_be_path(&text) {
            self.add(&text);
        }
        Ok(())
    }

    fn is_known(&self, text: &str) -> bool {
        let names = &self.protected.names;
        names.iter().any(|name| name.eq_ignore_ascii_case(text))
    }

    fn add(&mut self, text: &str) {
        if is_web_address(text) {
            return;
        }
        for part in parts(text) {
            self.paths.extend(spelled(part, self.ground));
            // `**` matches above every protected place, so checking it would hold every search over a tree.
            if part.contains(['*', '?', '[']) && !part.contains("**") {
                let meant = command::fitting(part, self.ground, self.protected);
                self.paths.extend(meant);
            }
        }
    }
}

/// Whether a raw JSON string has a byte that only paths, escapes and other alphabets have.
fn has_path_bytes(raw: &[u8]) -> bool {
    let is_one = |byte: u8| matches!(byte, b'/' | b'\\' | b'~' | b'%' | b'$' | 0x80..);
    // No early exit inside a chunk, so that the compiler vectorises the loop.
    let mut chunks = raw.chunks(32);
    chunks.any(|chunk| {
        chunk
            .iter()
            .fold(false, |found, byte| found | is_one(*byte))
    })
}

/// Whether a raw JSON string is several words that start with a letter or digit, and so cannot be one path.
fn is_prose(raw: &[u8]) -> bool {
    let text = raw.strip_prefix(b"\"").unwrap_or(raw).trim_ascii_start();
    // Escapes could spell `file:` at the start, as in `f\u0069le:///x/my notes`.
    let starts_plainly = text
        .iter()
        .take(FILE_SCHEME.len())
        .all(|byte| *byte != b'\\');
    let is_next_word = |pair: &[u8]| pair[0] == b' ' && pair[1].is_ascii_alphanumeric();
    starts_plainly
        && text.first().is_some_and(u8::is_ascii_alphanumeric)
        && !begins_like_path(raw)
        && text.windows(2).any(is_next_word)
}

/// Whether a raw JSON string may contain a JSON object or array.
fn begins_like_json(raw: &[u8]) -> bool {
    let text = raw.strip_prefix(b"\"").unwrap_or(raw).trim_ascii_start();
    text.first().is_some_and(|byte| b"{[".contains(byte))
}

/// Whether a key determines the meaning of everything below it.
fn is_telling(key: &str) -> bool {
    projection::is_path_key(key) || projection::is_command_key(key)
}

fn is_shell(target: &Target) -> bool {
    match target {
        Target::Tool(tool) => words_of(&tool.name).any(|word| words::is_shell(&word)),
        Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) | Target::Method { .. } => {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `file:` with any of its letters escaped, or something else.
    fn beginning() -> impl Strategy<Value = String> {
        let letters = [
            ["f", "\\u0066"],
            ["i", "\\u0069"],
            ["l", "\\u006C"],
            ["e", "\\u0065"],
            [":", "\\u003a"],
        ];
        let file = letters.map(|ways| prop::sample::select(ways.to_vec()));
        let file = file.prop_map(|letters| letters.concat());
        let other = prop::sample::select(vec![
            "", " ", "\\u0020", "\\t", "\u{a0}", "x", "~", "\\/", "\\u002f", "{", "'",
        ]);
        prop_oneof![file, other.prop_map(str::to_owned)]
    }

    proptest! {
        /// Prose is skipped unread, so nothing that could be read as a path or as JSON may pass for it.
        #[test]
        fn text_skipped_as_prose_is_never_a_path(
            beginning in beginning(),
            rest in prop::collection::vec(
                prop::sample::select(vec!["a b", " ", "/", "\\/", "\\n", "\\u0020", "\u{3000}", "x", "~", "%2f", "\\\""]),
                0..6,
            )
        ) {
            let raw = format!("\"{beginning}{}\"", rest.concat());
            let json = Json::validate(raw.as_bytes(), Strictness::Envelope);
            let json = json.expect("the parts make a string");
            if is_prose(raw.as_bytes()) {
                let text = json.as_str().expect("it is a string");
                prop_assert!(!may_be_path(&text), "{}", raw);
                prop_assert!(!begins_like_json(raw.as_bytes()), "{}", raw);
            }
        }
    }
}
