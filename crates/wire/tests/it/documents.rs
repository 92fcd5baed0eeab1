//! Generated JSON documents, and ways to write one down.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value};

/// A document with objects and arrays some levels deep.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Array),
            members(inner).prop_map(Value::Object),
        ]
    })
}

/// An object whose members are documents.
pub(crate) fn object() -> impl Strategy<Value = Map<String, Value>> {
    members(value())
}

/// Choices for [`written`].
pub(crate) fn style() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..40)
}

/// The document's text, with white space and escapes placed as the style's bytes say.
pub(crate) fn written(value: &Value, style: &[u8]) -> String {
    let mut writer = Writer {
        out: String::new(),
        choices: style.iter().copied().cycle(),
    };
    writer.space();
    writer.value(value);
    writer.space();
    writer.out
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_]{0,6}",
        "[\\x00-\\x7f]{0,40}",
        any::<String>(),
        Just("😀\u{17F}\u{212A}\u{2028}".to_owned()),
    ]
}

fn members(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    vec((text(), inner), 0..6).prop_map(|members| members.into_iter().collect())
}

struct Writer<I> {
    out: String,
    choices: I,
}

impl<I: Iterator<Item = u8>> Writer<I> {
    fn choice(&mut self) -> u8 {
        self.choices.next().expect("styles repeat without end")
    }

    fn space(&mut self) {
        let space = match self.choice() % 8 {
            0 => " ",
            1 => "\t",
            2 => "\n",
            3 => "\r\n  ",
            _ => "",
        };
        self.out.push_str(space);
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.out.push_str(&value.to_string());
            }
            Value::String(text) => self.string(text),
            Value::Array(elements) => {
                self.out.push('[');
                self.space();
                for (index, element) in elements.iter().enumerate() {
                    self.comma(index);
                    self.value(element);
                    self.space();
                }
                self.out.push(']');
            }
            Value::Object(members) => {
                self.out.push('{');
                self.space();
                for (index, (key, value)) in members.iter().enumerate() {
                    self.comma(index);
                    self.string(key);
                    self.space();
                    self.out.push(':');
                    self.space();
                    self.value(value);
                    self.space();
                }
                self.out.push('}');
            }
        }
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.out.push(',');
            self.space();
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            let must = character < ' ' || character == '"' || character == '\\';
            if must || self.choice().is_multiple_of(16) {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    self.out.push_str(&format!("\\u{unit:04X}"));
                }
            } else {
                self.out.push(character);
            }
        }
        self.out.push('"');
    }
}
