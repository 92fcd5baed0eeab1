//! The JSON Schema of the configuration, and the reference page that is made from it.

use std::fmt::Write;

use schemars::schema_for;
use serde_json::{Map, Value};

use crate::Config;

const HEADING: &str = "\
# Configuration reference

Every key of `callgate.yaml`, generated from its types by `cargo xtask docs`; the page to read first is
[configuration.md](configuration.md). The JSON Schema is [callgate.schema.json](callgate.schema.json): editors that know it
complete and check the file.
";

/// The JSON Schema of the file.
pub fn schema() -> Value {
    schema_for!(Config).to_value()
}

/// The reference page, as Markdown.
pub fn page() -> String {
    let schema = schema();
    let mut page = Page {
        definitions: schema["$defs"].as_object().cloned().unwrap_or_default(),
        text: HEADING.to_owned(),
    };
    page.section("", &schema);
    page.text
}

struct Page {
    definitions: Map<String, Value>,
    text: String,
}

/// An object that gets a section of its own.
struct Nested {
    path: String,
    schema: Value,
}

impl Page {
    /// A table of an object's keys, then the objects in it.
    fn section(&mut self, path: &str, schema: &Value) {
        let title = if path.is_empty() {
            "At the top".to_owned()
        } else {
            format!("`{path}`")
        };
        let about = schema["description"].as_str().unwrap_or_default();
        // Writing to a string does not fail.
        let _ = write!(
            self.text,
            "\n## {title}\n{}\n\n| key | value | default | what |\n|---|---|---|---|\n",
            one_line(about)
        );
        let mut nested = Vec::new();
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let inside = self.nested(path, key, property);
            let value = match &inside {
                Some(Nested { path, .. }) => format!("[below](#{})", anchor(path)),
                None => value_of(property),
            };
            let default = default_of(property, inside.is_some());
            let what = one_line(property["description"].as_str().unwrap_or_default());
            let _ = writeln!(
                self.text,
                "| `{key}` | {value} | {default} | {what}{} |",
                words_of(property)
            );
            nested.extend(inside);
        }
        for Nested { path, schema } in nested {
            self.section(&path, &schema);
        }
    }

    fn nested(&self, path: &str, key: &str, property: &Value) -> Option<Nested> {
        let path = if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        };
        let (reference, path) = match property["$ref"].as_str() {
            Some(reference) => (reference, path),
            None => (
                property["additionalProperties"]["$ref"].as_str()?,
                format!("{path}.NAME"),
            ),
        };
        let name = reference.strip_prefix("#/$defs/")?;
        let schema = self.definitions.get(name)?.clone();
        Some(Nested { path, schema })
    }
}

/// The words that an enumeration can be, with what each means.
fn variants(property: &Value) -> Vec<&Value> {
    let one_of = |schema: &'_ Value| -> Option<usize> { schema["oneOf"].as_array().map(Vec::len) };
    let holder = if one_of(property).is_some() {
        Some(property)
    } else {
        let any = property["anyOf"].as_array();
        any.and_then(|any| any.iter().find(|schema| one_of(schema).is_some()))
    };
    let words = holder.and_then(|holder| holder["oneOf"].as_array());
    let words = words.into_iter().flatten();
    words.filter(|word| word["const"].is_string()).collect()
}

fn words_of(property: &Value) -> String {
    let word = |word: &&Value| {
        let name = word["const"].as_str().unwrap_or_default();
        let means = one_line(word["description"].as_str().unwrap_or_default());
        format!(" `{name}`: {means}")
    };
    variants(property).iter().map(word).collect()
}

fn value_of(property: &Value) -> String {
    let words = variants(property);
    if !words.is_empty() {
        let names = words.iter().filter_map(|word| word["const"].as_str());
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        return names.join(" or ");
    }
    let kind = match &property["type"] {
        Value::String(kind) => kind.as_str(),
        Value::Array(kinds) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    };
    let is_time =
        property["format"] == "time span" || property["anyOf"][0]["format"] == "time span";
    match kind {
        _ if is_time => "time",
        "string" => "text",
        "integer" | "number" => "number",
        "boolean" => "`true` or `false`",
        "array" => "list of texts",
        "object" if property["additionalProperties"]["type"] == "string" => "map of texts",
        "object" => "map or array",
        _ => "",
    }
    .to_owned()
}

fn default_of(property: &Value, nested: bool) -> String {
    match property.get("default") {
        None | Some(Value::Null) => String::new(),
        Some(Value::Object(_)) if nested => String::new(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(other) => format!("`{other}`"),
    }
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

/// The anchor that Markdown gives a heading.
fn anchor(path: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-');
    path.to_lowercase().chars().filter(kept).collect()
}
