//! A validated JSON value as the bytes it came in. Reading a part walks over the text again, one
//! level deep and without recursion; nothing is copied but strings that hold escapes.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;

use crate::escape::{characters, inside, key_is, measure, unescape_bytes, unescape_without_halves};
use crate::scan::{LongString, ScanError, Strictness, scan};
use crate::specials::{BLOCK, Block};

/// One JSON value inside a text that has been validated.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Json<'a> {
    text: &'a [u8],
}

/// The kind of a [`Json`] value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    Null,
    Bool,
    /// A number of any size.
    Number,
    String,
    Array,
    Object,
}

/// Iterates over the members of an object as key and value.
#[derive(Debug, Clone)]
pub struct Members<'a> {
    rest: Walk<'a>,
}

/// Iterates over the elements of an array.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    rest: Walk<'a>,
}

impl<'a> Json<'a> {
    /// Validates a text that holds one value.
    pub fn validate(text: &'a [u8], strictness: Strictness) -> Result<Json<'a>, ScanError> {
        let outline = scan(text, strictness)?;
        Ok(Json::trusted(outline.value.of(text)))
    }

    /// A value that a scan has validated, without white space around it.
    pub(crate) fn trusted(text: &'a [u8]) -> Json<'a> {
        Json { text }
    }

    /// The value's bytes as they came.
    pub fn bytes(self) -> &'a [u8] {
        self.text
    }

    /// The value's JSON text as it came.
    pub fn as_text(self) -> &'a str {
        std::str::from_utf8(self.text).expect("a scanned text is UTF-8 and is cut at tokens")
    }

    pub fn kind(self) -> JsonKind {
        match self.text.first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::String,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') => JsonKind::Null,
            Some(_) | None => JsonKind::Number,
        }
    }

    pub fn is_object(self) -> bool {
        self.kind() == JsonKind::Object
    }

    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// The content of a string; `None` for another kind and for a lone surrogate.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        if self.kind() != JsonKind::String {
            return None;
        }
        match unescape_bytes(inside(self.text))? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
        }
    }

    /// The content of a string without its lone surrogates; `None` for another kind. For searching texts that a
    /// server may read in this way.
    pub fn as_str_without_halves(self) -> Option<Cow<'a, str>> {
        if self.kind() != JsonKind::String {
            return None;
        }
        match unescape_without_halves(inside(self.text)) {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
        }
    }

    /// How many characters a string has, without unescaping it; `None` for anything else. A lone
    /// surrogate counts as one.
    pub fn char_count(self) -> Option<usize> {
        (self.kind() == JsonKind::String).then(|| measure(self.text).1)
    }

    /// The value of a boolean.
    pub fn as_bool(self) -> Option<bool> {
        match self.text {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The value of a number without fraction and exponent that fits.
    pub fn as_u64(self) -> Option<u64> {
        self.number_text()?.parse().ok()
    }

    /// The value of a number without fraction and exponent that fits.
    pub fn as_i64(self) -> Option<i64> {
        self.number_text()?.parse().ok()
    }

    /// The members of an object in order; nothing for another kind.
    pub fn members(self) -> Members<'a> {
        let rest = Walk::inside(self, JsonKind::Object);
        Members { rest }
    }

    /// The elements of an array in order; nothing for another kind.
    pub fn elements(self) -> Elements<'a> {
        let rest = Walk::inside(self, JsonKind::Array);
        Elements { rest }
    }

    /// The value of an object's member, its key compared after unescaping. Of members with one key,
    /// which only a loosely scanned text can hold, the last counts, as with most readers.
    pub fn get(self, key: &str) -> Option<Json<'a>> {
        self.members()
            .filter(|(name, _)| key_is(name.text, key))
            .last()
            .map(|(_, value)| value)
    }

    /// How many characters the strings under `key` have, over all objects of an array: read in one pass,
    /// where going through elements and members would take three.
    pub fn count_chars_under(self, key: &str) -> usize {
        self.count_chars(key, |_| None)
    }

    /// The same; `long` knows the long strings that begin where so many bytes of the array are left.
    pub(crate) fn count_chars(
        self,
        key: &str,
        long: impl Fn(usize) -> Option<LongString>,
    ) -> usize {
        let mut objects = Walk::inside(self, JsonKind::Array);
        let mut characters = 0;
        while objects.skip_to_value() {
            if objects.rest.first() != Some(&b'{') {
                objects.skip_value();
                continue;
            }
            objects.rest = &objects.rest[1..];
            let mut counted = 0;
            while objects.skip_to_value() && objects.rest.first() != Some(&b'}') {
                let Some(name) = objects.next_value() else {
                    break;
                };
                objects.skip_to_value();
                if key_is(name.text, key) {
                    // Of members with one key the last counts.
                    counted = objects.skip_and_measure(&long);
                } else {
                    objects.skip_value();
                }
            }
            objects.rest = objects.rest.get(1..).unwrap_or_default();
            characters += counted;
        }
        characters
    }

    fn number_text(self) -> Option<&'a str> {
        match self.kind() {
            JsonKind::Number => std::str::from_utf8(self.text).ok(),
            JsonKind::Null
            | JsonKind::Bool
            | JsonKind::String
            | JsonKind::Array
            | JsonKind::Object => None,
        }
    }
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_text())
    }
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Json({})", self.as_text())
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Json<'a>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.rest.next_value()?;
        let value = self.rest.next_value()?;
        Some((key, value))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rest.next_value()
    }
}

/// The unread rest of a container.
#[derive(Debug, Clone)]
struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    fn inside(value: Json<'a>, kind: JsonKind) -> Walk<'a> {
        let rest = if value.kind() == kind {
            inside(value.text)
        } else {
            &[]
        };
        Walk { rest }
    }

    /// The next value; the commas, colons and white space before it are passed over.
    fn next_value(&mut self) -> Option<Json<'a>> {
        self.skip_to_value().then(|| self.skip_value())
    }

    /// Skips commas, colons and white space; `false` at the end.
    fn skip_to_value(&mut self) -> bool {
        let between = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':');
        let start = self.rest.iter().position(|byte| !between(byte));
        self.rest = &self.rest[start.unwrap_or(self.rest.len())..];
        start.is_some()
    }

    /// Passes over the value that the rest begins with.
    fn skip_value(&mut self) -> Json<'a> {
        let (value, rest) = self.rest.split_at(value_length(self.rest));
        self.rest = rest;
        Json::trusted(value)
    }

    /// The same, and how many characters it has if it is a string.
    fn skip_and_measure(&mut self, long: impl Fn(usize) -> Option<LongString>) -> usize {
        if self.rest.first() != Some(&b'"') {
            self.skip_value();
            return 0;
        }
        let (length, characters) = match long(self.rest.len()) {
            Some(LongString { span, surplus }) => {
                let length = span.range().len();
                let inside = &self.rest[1..length - 1];
                (length, characters(inside, surplus as usize))
            }
            None => measure(self.rest),
        };
        self.rest = &self.rest[length..];
        characters
    }
}

/// The length of the value at the start of a validated text.
fn value_length(text: &[u8]) -> usize {
    match text.first() {
        Some(b'"') => string_length(text),
        Some(b'{' | b'[') => container_length(text),
        Some(_) | None => text
            .iter()
            .position(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b'}' | b']'))
            .unwrap_or(text.len()),
    }
}

/// The byte after a backslash never ends the string.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if text[at - 1] == b'"' {
            return at;
        }
        at += 1;
        if at > BLOCK {
            return long_string_length(text, at);
        }
    }
    text.len()
}

/// The same for a string with escapes that is longer than a block: a search that restarts after each escape would
/// be several times slower.
fn long_string_length(text: &[u8], mut at: usize) -> usize {
    while at < text.len() {
        let block = Block::at(text, at).inside();
        if block.end == BLOCK {
            at += block.length();
            continue;
        }
        at += block.end + 1;
        if text.get(at - 1) == Some(&b'"') {
            return at;
        }
    }
    text.len()
}

fn container_length(text: &[u8]) -> usize {
    let mut depth = 0u32;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at += string_length(&text[at..]);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json<'_> {
        Json::validate(text.as_bytes(), Strictness::Envelope).expect("the test's text is JSON")
    }

    #[test]
    fn json_kinds_and_scalars_are_read() {
        assert_eq!(json(" null ").kind(), JsonKind::Null);
        assert_eq!(json("-1e9").kind(), JsonKind::Number);
        assert_eq!(json("[]").kind(), JsonKind::Array);
        assert_eq!(json("true").as_bool(), Some(true));
        assert_eq!(json("\"true\"").as_bool(), None);
        assert_eq!(json("18446744073709551615").as_u64(), Some(u64::MAX));
        assert_eq!(json("18446744073709551616").as_u64(), None);
        assert_eq!(json("-5").as_i64(), Some(-5));
        assert_eq!(json("1.0").as_i64(), None);
        assert_eq!(json("\"5\"").as_i64(), None);
        assert_eq!(json(r#""a\u0062""#).as_str().as_deref(), Some("ab"));
        assert_eq!(json("5").as_str(), None);
        assert_eq!(
            json(r#"["\ud800"]"#)
                .elements()
                .next()
                .and_then(Json::as_str),
            None
        );
    }

    #[test]
    fn members_and_elements_keep_their_text() {
        let value = json(r#" { "a" : [ 1 , {"x":"]}\"," } ] , "b":{} ,"c" : 1e3 } "#);
        let members: Vec<_> = value
            .members()
            .map(|(key, value)| (key.as_text(), value.as_text()))
            .collect();
        assert_eq!(
            members,
            [
                ("\"a\"", r#"[ 1 , {"x":"]}\"," } ]"#),
                ("\"b\"", "{}"),
                ("\"c\"", "1e3")
            ]
        );
        let list = value.get("a").expect("`a` is there");
        let elements: Vec<_> = list.elements().map(Json::as_text).collect();
        assert_eq!(elements, ["1", r#"{"x":"]}\"," }"#]);
        assert_eq!(value.elements().count(), 0);
        assert_eq!(list.members().count(), 0);
        assert_eq!(json("[ ]").elements().count(), 0);
    }

    #[test]
    fn characters_under_a_key_are_those_of_its_strings() {
        let cases = [
            ("[]", 0),
            (r#"{"text":"abc"}"#, 0),
            (r#"[{"text":"abc"}]"#, 3),
            (
                r#"[ { "type" : "text" , "text" : "a\nb" } , {"text":"\u00e9}"} ]"#,
                5,
            ),
            (
                r#"[{"text":1},{"text":{"text":"no"}},{"other":{"text":"no"},"text":"yes"}]"#,
                3,
            ),
            (r#"["text",[{"text":"no"}],7,{},{"t\u0065xt":"x"},null]"#, 1),
            (r#"[{"text":"first","text":"22"}]"#, 2),
            (r#"[{"text":"]}\","},{"text":"é"}]"#, 5),
        ];
        for (text, expected) in cases {
            assert_eq!(json(text).count_chars_under("text"), expected, "{text}");
        }
    }

    #[test]
    fn the_last_of_equal_keys_wins() {
        let value = json(r#"[{"a":1,"\u0061":2}]"#);
        let object = value.elements().next().expect("one element");
        assert_eq!(object.get("a").and_then(Json::as_u64), Some(2));
    }
}
