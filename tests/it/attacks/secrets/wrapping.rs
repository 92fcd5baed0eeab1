//! How a secret stands in the arguments of a call.

use serde_json::json;

use super::forms::Form;

/// How a text with a secret is put into arguments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wrapping {
    Text,
    Lines,
    Command,
    Header,
    Url,
    Nested,
    Twice,
    Member,
}

pub(super) const WRAPPINGS: [Wrapping; 8] = [
    Wrapping::Text,
    Wrapping::Nested,
    Wrapping::Command,
    Wrapping::Lines,
    Wrapping::Header,
    Wrapping::Url,
    Wrapping::Twice,
    Wrapping::Member,
];

impl Wrapping {
    /// The arguments of a call. The key tells the call apart.
    pub(super) fn arguments(self, key: &str, form: &Form) -> String {
        let text = &form.text;
        let wrapped = match self {
            Self::Text => json!(text),
            Self::Lines => json!(format!("first line\n{text}\nlast line")),
            Self::Command => json!(format!("cd /srv && run '{text}' | tee out.txt")),
            Self::Header => json!(format!("Accept: */*\r\nX-Given: {text}\r\nHost: x.example")),
            Self::Url => json!(format!("https://x.example/do?given={text}&next=1")),
            Self::Nested => json!(json!({"inner": text, "n": 1}).to_string()),
            Self::Twice => json!(json!({"a": json!({"b": text}).to_string()}).to_string()),
            Self::Member => json!({"list": [1, {"value": text}]}),
        };
        json!({"key": key, "given": wrapped}).to_string()
    }

    /// Whether the form can be written so.
    pub(super) fn fits(self, form: &Form) -> bool {
        match self {
            // A URL in a parameter of a URL, or a header in one, would be encoded.
            Self::Url => !form.text.contains([' ', ':', '\n', '"', '<']),
            Self::Header => !form.text.contains('\n'),
            Self::Text
            | Self::Lines
            | Self::Command
            | Self::Nested
            | Self::Twice
            | Self::Member => true,
        }
    }
}
