//! The input values of a run: typed and checked, all errors at once.

use std::{fmt, path::Path};

use serde_json::{Map, Value};

use crate::{Input, InputKind, Workflow, template::shown};

/// All errors in the given inputs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct BadInputs(pub Vec<String>);

impl fmt::Display for BadInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

/// The inputs of a run: given as `name=text`, or from the defaults. Unknown names are errors.
pub fn given(
    workflow: &Workflow,
    pairs: &[(String, String)],
) -> Result<Map<String, Value>, BadInputs> {
    let value = |(name, text): &(String, String)| (name.clone(), Value::String(text.clone()));
    given_values(workflow, &pairs.iter().map(value).collect::<Vec<_>>())
}

/// As [`given`], with values instead of texts.
pub(crate) fn given_values(
    workflow: &Workflow,
    pairs: &[(String, Value)],
) -> Result<Map<String, Value>, BadInputs> {
    let mut wrong = Vec::new();
    let mut inputs = Map::new();
    for (name, _) in pairs {
        if !workflow.inputs.iter().any(|input| input.name == *name) {
            wrong.push(format!("inputs.{name}: the workflow has no such input"));
        }
    }
    for input in &workflow.inputs {
        let given = pairs.iter().rev().find(|(name, _)| *name == input.name);
        let value = match (given, &input.default) {
            (Some((_, value)), _) => checked(input, value).map(Some),
            (None, Some(default)) => checked(input, default).map(Some),
            (None, None) if input.required => Err("a value is required".to_owned()),
            (None, None) => Ok(None),
        };
        match value {
            Ok(Some(value)) => drop(inputs.insert(input.name.clone(), value)),
            Ok(None) => {}
            Err(why) => wrong.push(format!("inputs.{}: {why}", input.name)),
        }
    }
    if wrong.is_empty() {
        Ok(inputs)
    } else {
        Err(BadInputs(wrong))
    }
}

/// Converts a value to the input's type and checks it against its rules, also those about files.
fn checked(input: &Input, value: &Value) -> Result<Value, String> {
    let value = shaped(input, value)?;
    let Value::String(text) = &value else {
        return Ok(value);
    };
    if input.file_exists && !Path::new(text).is_file() {
        return Err(format!("the file `{text}` does not exist"));
    }
    let ends = &input.file_extension;
    if !ends.is_empty() && !ends.iter().any(|end| text.ends_with(end.as_str())) {
        return Err(format!("`{text}` does not end in {}", ends.join(" or ")));
    }
    Ok(value)
}

/// Converts a value to the input's type and checks it against its rules. Texts are parsed as that type.
pub(crate) fn shaped(input: &Input, value: &Value) -> Result<Value, String> {
    let value = typed(input.kind, value)
        .ok_or_else(|| format!("`{}` is not a valid {}", shown(value), input.kind.as_str()))?;
    if !input.allowed.is_empty()
        && !input
            .allowed
            .iter()
            .any(|allowed| same(input.kind, allowed, &value))
    {
        let allowed: Vec<String> = input.allowed.iter().map(shown).collect();
        return Err(format!(
            "`{}` is not one of {}",
            shown(&value),
            allowed.join(", ")
        ));
    }
    if let (Some(pattern), Value::String(text)) = (&input.pattern, &value) {
        let matches = regex::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text));
        if !matches {
            return Err(format!("`{text}` does not match `{pattern}`"));
        }
    }
    if let Some(number) = value.as_f64() {
        if input.min.is_some_and(|min| number < min) {
            return Err(format!(
                "{value} is less than {}",
                input.min.unwrap_or_default()
            ));
        }
        if input.max.is_some_and(|max| number > max) {
            return Err(format!(
                "{value} is more than {}",
                input.max.unwrap_or_default()
            ));
        }
    }
    Ok(value)
}

fn same(kind: InputKind, allowed: &Value, value: &Value) -> bool {
    typed(kind, allowed).as_ref() == Some(value)
}

fn typed(kind: InputKind, value: &Value) -> Option<Value> {
    let text = value.as_str();
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    match kind {
        InputKind::String => match value {
            Value::String(_) => Some(value.clone()),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string().into()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        },
        InputKind::Integer => match text {
            Some(text) => text.trim().parse::<i64>().ok().map(Value::from),
            None => value.as_i64().map(Value::from),
        },
        InputKind::Number => match text {
            Some(text) => parsed(text.trim()).filter(Value::is_number),
            None => Some(value.clone()).filter(Value::is_number),
        },
        InputKind::Boolean => match text {
            Some(text) => text.trim().parse::<bool>().ok().map(Value::from),
            None => value.as_bool().map(Value::from),
        },
        InputKind::Array => match text {
            Some(text) => parsed(text).filter(Value::is_array),
            None => Some(value.clone()).filter(Value::is_array),
        },
        InputKind::Object => match text {
            Some(text) => parsed(text).filter(Value::is_object),
            None => Some(value.clone()).filter(Value::is_object),
        },
    }
}

impl InputKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    const FILE: &str = "
inputs:
  - {name: target, required: true}
  - {name: n, type: integer, default: 3, min: 1, max: 10}
  - {name: mode, type: string, default: fast, validation: {enum: [fast, slow]}}
  - {name: mail, pattern: '^[a-z]+@[a-z]+$'}
  - {name: list, type: array}
  - {name: dry, type: boolean, default: false}
states: {a: {type: terminal, status: success}}
";

    fn pairs(pairs: &[(&str, &str)]) -> Result<Value, String> {
        let reading = crate::read(FILE, Path::new("f.yaml")).expect("it is YAML");
        let workflow = reading.workflow().expect("it is right");
        let pairs: Vec<(String, String)> = pairs
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        let given = given(&workflow, &pairs).map(Value::Object);
        given.map_err(|error| error.to_string())
    }

    #[test]
    fn given_inputs_are_typed_and_missing_ones_get_defaults() {
        assert_eq!(
            pairs(&[
                ("target", "1"),
                ("n", "7"),
                ("list", "[1]"),
                ("dry", "true"),
                ("mail", "a@b")
            ]),
            Ok(
                json!({"target": "1", "n": 7, "mode": "fast", "mail": "a@b", "list": [1], "dry": true})
            )
        );
        let least = pairs(&[("target", "x")]);
        assert_eq!(
            least,
            Ok(json!({"target": "x", "n": 3, "mode": "fast", "dry": false}))
        );
    }

    #[test]
    fn all_wrong_inputs_are_reported_at_once() {
        let wrong = pairs(&[
            ("n", "11"),
            ("mode", "other"),
            ("mail", "nobody"),
            ("list", "{}"),
            ("dry", "maybe"),
            ("none", "x"),
        ]);
        let expected = [
            "inputs.none: the workflow has no such input",
            "inputs.target: a value is required",
            "inputs.n: 11 is more than 10",
            "inputs.mode: `other` is not one of fast, slow",
            "inputs.mail: `nobody` does not match `^[a-z]+@[a-z]+$`",
            "inputs.list: `{}` is not a valid array",
            "inputs.dry: `maybe` is not a valid boolean",
        ];
        assert_eq!(wrong, Err(expected.join("\n")));
    }
}
