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

/// An object that gets its own section.
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
            let property = &self.with_inlined_enum(property);
            let inside = self.nested(path, key, property);
            let value = match &inside {
                Some(Nested { path, .. }) => {
                    format!("{}[below](#{})", list_prefix(property, ", "), anchor(path))
                }
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

    /// The object that describes a property's value, or the values of a map or list of them.
    fn nested(&self, path: &str, key: &str, property: &Value) -> Option<Nested> {
        let mut path = if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        };
        let mut schema = property;
        // A loop, because references and maps nest: `tenants` refers to a map of references.
        while !schema["properties"].is_object() {
            schema = if schema["$ref"].is_string() {
                self.definition(schema)?
            } else if schema["additionalProperties"].is_object() {
                path.push_str(".NAME");
                &schema["additionalProperties"]
            } else if schema["items"].is_object() {
                path.push_str("[]");
                &schema["items"]
            } else {
                return None;
            };
        }
        let schema = schema.clone();
        Some(Nested { path, schema })
    }

    /// The property with the words of an enumeration that it refers to. They fit into a table cell, and a
    /// section of their own would have an empty table.
    fn with_inlined_enum(&self, property: &Value) -> Value {
        let mut property = property.clone();
        let definition = self.definition(&property);
        let words = definition.filter(|definition| !variants(definition).is_empty());
        if let (Some(words), Some(members)) = (words, property.as_object_mut()) {
            members.remove("$ref");
            members.insert("oneOf".to_owned(), words["oneOf"].clone());
        }
        property
    }

    /// The definition that a schema refers to.
    fn definition(&self, schema: &Value) -> Option<&Value> {
        let name = schema["$ref"].as_str()?.strip_prefix("#/$defs/")?;
        self.definitions.get(name)
    }
}

/// The values of an enumeration, of the property itself or of its list elements.
fn variants(property: &Value) -> Vec<&Value> {
    let one_of = |schema: &'_ Value| -> Option<usize> { schema["oneOf"].as_array().map(Vec::len) };
    let holder = if one_of(property).is_some() {
        Some(property)
    } else if one_of(&property["items"]).is_some() {
        Some(&property["items"])
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
        return format!("{}{}", list_prefix(property, " of "), names.join(" or "));
    }
    let kind = match &property["type"] {
        Value::String(kind) => kind.as_str(),
        Value::Array(kinds) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    };
    let or_array = property["type"].as_array();
    let or_array = or_array.is_some_and(|kinds| kinds.iter().any(|kind| kind == "array"));
    let is_time =
        property["format"] == "time span" || property["anyOf"][0]["format"] == "time span";
    match kind {
        _ if is_time => "time",
        "string" => "text",
        "integer" | "number" => "number",
        "boolean" => "`true` or `false`",
        "array" => "list of texts",
        "object" if property["additionalProperties"]["type"] == "string" => "map of texts",
        "object" if or_array => "map or array",
        "object" => "map",
        _ => "",
    }
    .to_owned()
}

/// What stands before the value of a list's elements.
fn list_prefix(property: &Value, joint: &str) -> String {
    if property["type"] == "array" {
        format!("list{joint}")
    } else {
        String::new()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The page's lines with this beginning.
    fn lines(begin: &str) -> Vec<String> {
        let page = page();
        let lines = page.lines().filter(|line| line.starts_with(begin));
        lines.map(str::to_owned).collect()
    }

    /// The only row of a key.
    fn row(key: &str) -> String {
        let rows = lines(&format!("| `{key}` |"));
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.concat()
    }

    #[test]
    fn tables_have_rows() {
        let page = page();
        for section in page.split("\n## ").skip(1) {
            let table = section.split_once("|---|---|---|---|\n");
            let (_, rows) = table.expect("a section has a table");
            assert!(rows.starts_with("| `"), "{section}");
        }
    }

    #[test]
    fn a_map_behind_a_definition_gets_the_table_of_its_values() {
        assert_eq!(lines("## `tenants"), ["## `tenants.NAME`"]);
        let row = row("tenants");
        assert!(row.contains("[below](#tenantsname)"), "{row}");
    }

    #[test]
    fn an_enumeration_behind_a_definition_is_listed_in_its_row() {
        assert!(lines("## `servers.NAME.protocol").is_empty());
        let row = row("protocol");
        let words = "| `auto` or `handshake` or `stateless` |";
        assert!(row.contains(words), "{row}");
        assert!(row.contains(" `auto`: "), "{row}");
    }

    #[test]
    fn a_list_of_objects_gets_the_table_of_its_elements() {
        let row = row("notify");
        assert!(row.contains("| list, [below](#approvalsnotify) |"), "{row}");
        let page = page();
        let (_, section) = page
            .split_once("## `approvals.notify[]`")
            .expect("a section");
        let section = section.split("\n## ").next().unwrap_or_default();
        for key in ["url", "format", "secret"] {
            assert!(section.contains(&format!("| `{key}` |")), "{key}");
        }
    }

    #[test]
    fn maps_of_any_value_are_not_arrays() {
        for expected in ["| `config` | map |", "| `mcpServers` | map or array |"] {
            let name = expected.split('`').nth(1).expect("a name");
            let row = row(name);
            assert!(row.starts_with(expected), "{row}");
        }
    }

    #[test]
    fn lists_of_an_enumeration_name_its_values() {
        let row = row("open_on_loopback");
        assert!(row.contains("| list of `check` or `metrics` |"), "{row}");
    }
}
