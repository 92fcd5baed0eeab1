//! JSON-RPC ids. An id is echoed exactly as it came, and compared by what it means.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::escape::quote;
use crate::json::{Json, JsonKind};

/// The id of a request: a string, or an integer of any length.
#[derive(Clone)]
pub struct Id {
    raw: Arc<str>,
    /// The canonical text for comparisons, if it differs from the id's own.
    meaning: Option<Arc<str>>,
}

impl Id {
    pub fn number(number: u64) -> Id {
        Id {
            raw: number.to_string().into(),
            meaning: None,
        }
    }

    pub fn string(text: &str) -> Id {
        let raw = quote(text);
        let meaning = (raw.len() != text.len() + 2).then(|| plain_literal(text));
        Id {
            raw: raw.into(),
            meaning,
        }
    }

    /// Reads an id; `None` for `null`, fractions, exponents and every other kind of value.
    pub fn from_json(value: Json<'_>) -> Option<Id> {
        let text = value.as_text();
        let meaning = match value.kind() {
            JsonKind::String if text.contains('\\') => Some(plain_literal(&value.as_str()?)),
            JsonKind::String => None,
            JsonKind::Number if text.contains(['.', 'e', 'E']) => return None,
            JsonKind::Number if text == "-0" => Some("0".into()),
            JsonKind::Number => None,
            JsonKind::Null | JsonKind::Bool | JsonKind::Array | JsonKind::Object => return None,
        };
        let raw = text.into();
        Some(Id { raw, meaning })
    }

    /// The id's JSON text as it came.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The number, when the id is one that fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.meaning().parse().ok()
    }

    /// Text that is equal for equal ids: strings keep their quotes and so never equal a number.
    fn meaning(&self) -> &str {
        self.meaning.as_ref().unwrap_or(&self.raw)
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.meaning() == other.meaning()
    }
}

impl Eq for Id {}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.meaning().hash(state);
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.raw)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Id({})", self.raw)
    }
}

/// The unescaped content between quotes: not JSON, but the same text for every spelling.
fn plain_literal(content: &str) -> Arc<str> {
    format!("\"{content}\"").into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::scan::Strictness;

    fn id(text: &str) -> Option<Id> {
        let value = Json::validate(text.as_bytes(), Strictness::Envelope);
        Id::from_json(value.expect("the test's text is JSON"))
    }

    #[test]
    fn strings_and_integers_are_ids() {
        for text in [
            "1",
            "-7",
            "0",
            "-0",
            "\"\"",
            r#""a\u0062""#,
            "123456789012345678901234567890",
        ] {
            let id = id(text).expect("an id");
            assert_eq!(id.raw(), text);
            assert_eq!(id.to_string(), text);
        }
        for text in ["null", "1.0", "1e2", "1E2", "true", "[]", "{}", "[1]"] {
            assert_eq!(id(text), None, "{text}");
        }
    }

    #[test]
    fn ids_are_equal_by_value() {
        let cases = [
            (r#""ab""#, r#""a\u0062""#, true),
            (r#""\"""#, r#""\u0022""#, true),
            (r#""a\/b""#, r#""a/b""#, true),
            ("0", "-0", true),
            ("1", "\"1\"", false),
            ("1", "-1", false),
            ("100000000000000000000", "100000000000000000001", false),
        ];
        for (left, right, equal) in cases {
            let set = HashSet::from([id(left)]);
            assert_eq!(set.contains(&id(right)), equal, "{left} {right}");
        }
        assert_eq!(Some(Id::number(12)), id("12"));
        assert_eq!(Some(Id::string("a\"b/\n")), id(r#""a\u0022b\/\u000a""#));
        assert_eq!(Some(Id::string("plain")), id("\"plain\""));
        assert_eq!(Id::number(12).as_u64(), Some(12));
        assert_eq!(Id::string("12").as_u64(), None);
    }
}
