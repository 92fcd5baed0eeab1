//! Peeking at JSON-RPC lines without changing a byte: members and items come back as the text they were.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// One line, with the raw text of the envelope's members.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The line as it came, without its line break.
    pub raw: String,
    /// The raw id, quotes and all.
    pub id: Option<String>,
    /// The method, unescaped.
    pub method: Option<String>,
    /// The raw params.
    pub params: Option<String>,
    /// The raw result.
    pub result: Option<String>,
    /// The raw error.
    pub error: Option<String>,
}

/// What a line is, by the members it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A method and an id.
    Request,
    /// A method without an id.
    Notification,
    /// A result or an error.
    Response,
}

impl Frame {
    /// Reads a line; `None` when it is not a JSON object with a method, a result or an error.
    pub fn parse(raw: &str) -> Option<Self> {
        let raw = raw.trim_end_matches(['\r', '\n']);
        let members = members(raw)?;
        let text = |name: &str| {
            members
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let frame = Self {
            raw: raw.to_owned(),
            id: text("id"),
            method: text("method").and_then(|method| serde_json::from_str(&method).ok()),
            params: text("params"),
            result: text("result"),
            error: text("error"),
        };
        let meaningful = frame.method.is_some() || frame.result.is_some() || frame.error.is_some();
        meaningful.then_some(frame)
    }

    /// What this line is.
    pub fn kind(&self) -> Kind {
        match (&self.method, &self.id) {
            (Some(_), Some(_)) => Kind::Request,
            (Some(_), None) => Kind::Notification,
            (None, _) => Kind::Response,
        }
    }

    /// True for the response to the request with this raw id; ids are compared by value.
    pub fn answers(&self, raw_id: &str) -> bool {
        self.kind() == Kind::Response && self.id.as_deref().map(id_value) == Some(id_value(raw_id))
    }

    /// The raw text of a member of the params.
    pub fn param(&self, name: &str) -> Option<&str> {
        member(self.params.as_deref()?, name)
    }

    /// A string member of a tool call's `arguments`.
    pub fn argument(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.raw_argument(name)?).ok()
    }

    /// A whole-number member of a tool call's `arguments`.
    pub fn number(&self, name: &str) -> Option<u64> {
        serde_json::from_str(self.raw_argument(name)?).ok()
    }

    /// The raw progress token that the request carries.
    pub fn progress_token(&self) -> Option<&str> {
        member(self.param("_meta")?, "progressToken")
    }

    /// Whether this is a request of 2026-07-28: it says its version.
    pub fn is_stateless(&self) -> bool {
        self.meta("io.modelcontextprotocol/protocolVersion")
            .is_some()
    }

    /// The raw text of a member of the params' `_meta`.
    pub fn meta(&self, name: &str) -> Option<&str> {
        member(self.param("_meta")?, name)
    }

    fn raw_argument(&self, name: &str) -> Option<&str> {
        member(self.param("arguments")?, name)
    }
}

/// The members of an object in order, duplicates included, each value as raw text.
pub fn members(raw: &str) -> Option<Vec<(String, &str)>> {
    let mut deserializer = serde_json::Deserializer::from_str(raw);
    let members = deserializer.deserialize_map(Members).ok()?;
    deserializer.end().ok()?;
    Some(members)
}

/// The raw text of the first member of that name.
pub fn member<'a>(raw: &'a str, name: &str) -> Option<&'a str> {
    let found = members(raw)?.into_iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value)
}

/// The items of an array, each as raw text.
pub fn items(raw: &str) -> Option<Vec<&str>> {
    let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

/// The text as a JSON string literal.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An id by value, so that `"\u0041"` and `"A"` are one id and `1` and `"1"` are two.
pub fn id_value(raw: &str) -> String {
    match serde_json::from_str::<String>(raw) {
        Ok(text) => format!("text {text}"),
        Err(_) => format!("number {raw}"),
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de str)>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
            members.push((key, value.get()));
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_bytes_and_their_duplicates() {
        let raw = r#"{ "a" : 1e400 , "\u0062":[ 1.0 ,-0 ], "a":{"x" :null} }"#;
        let expected = vec![
            ("a".to_owned(), "1e400"),
            ("b".to_owned(), "[ 1.0 ,-0 ]"),
            ("a".to_owned(), r#"{"x" :null}"#),
        ];
        assert_eq!(members(raw), Some(expected));
    }

    #[test]
    fn lines_that_are_not_frames_are_refused() {
        for line in [
            "",
            "[]",
            "null",
            "{}",
            "{\"id\":1}",
            "{\"method\":\"x\"} trailing",
            "not json",
        ] {
            assert!(Frame::parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn ids_are_compared_by_value() {
        let frame = Frame::parse(r#"{"id":"\u0041","result":{}}"#).expect("a frame");
        assert!(frame.answers(r#""A""#));
        assert!(!frame.answers("1"));
        assert_ne!(id_value("1"), id_value("\"1\""));
    }
}
