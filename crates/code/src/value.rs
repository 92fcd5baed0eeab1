//! Values on the pipe: JSON, with integers of any size kept exact.

use std::fmt::Write;

use jiter::JsonValue;
use monty_types::{DictPairs, MontyDate, MontyDateTime, MontyObject, MontyTime, MontyTimeDelta};

const MAX_DEPTH: usize = 200;

/// How to treat a value without a JSON representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// For arguments: refuse it, because the server would read something else than the script meant.
    Argument,
    /// For results: fall back to the value's text, or to null.
    Result,
}

/// A value as JSON text.
pub(crate) fn to_json(value: &MontyObject, strictness: Strictness) -> Result<String, String> {
    let mut json = String::new();
    write_value(&mut json, value, strictness, MAX_DEPTH)?;
    Ok(json)
}

/// JSON text as a value.
pub(crate) fn from_json(text: &str) -> Result<MontyObject, String> {
    let value = JsonValue::parse(text.as_bytes(), false).map_err(|error| error.to_string())?;
    Ok(object(value))
}

fn object(value: JsonValue<'_>) -> MontyObject {
    match value {
        JsonValue::Null => MontyObject::None,
        JsonValue::Bool(flag) => MontyObject::Bool(flag),
        JsonValue::Int(number) => MontyObject::Int(number),
        JsonValue::BigInt(number) => MontyObject::BigInt(number),
        JsonValue::Float(number) => MontyObject::Float(number),
        JsonValue::Str(text) => MontyObject::String(text.into_owned()),
        JsonValue::Array(items) => MontyObject::List(items.iter().cloned().map(object).collect()),
        JsonValue::Object(members) => MontyObject::dict(
            members
                .iter()
                .cloned()
                .map(|(key, value)| (MontyObject::String(key.into_owned()), object(value)))
                .collect::<Vec<_>>(),
        ),
    }
}

fn write_value(
    json: &mut String,
    value: &MontyObject,
    strictness: Strictness,
    depth: usize,
) -> Result<(), String> {
    if depth == 0 {
        return Err(format!("a value is nested deeper than {MAX_DEPTH}"));
    }
    match value {
        MontyObject::None => json.push_str("null"),
        MontyObject::Bool(flag) => json.push_str(if *flag { "true" } else { "false" }),
        MontyObject::Int(number) => push(json, number),
        MontyObject::BigInt(number) => push(json, number),
        MontyObject::Float(number) => float(json, *number, strictness)?,
        MontyObject::String(text) => quote(json, text),
        MontyObject::List(items)
        | MontyObject::Tuple(items)
        | MontyObject::Set(items)
        | MontyObject::FrozenSet(items) => elements(json, items, strictness, depth)?,
        MontyObject::NamedTuple {
            field_names,
            values,
            ..
        } => {
            let keys = field_names.iter().cloned();
            members(json, keys.zip(values), strictness, depth)?;
        }
        MontyObject::Dict(pairs) => members(json, keyed(pairs), strictness, depth)?,
        MontyObject::ClassInstance(instance) => {
            members(json, keyed(&instance.attrs), strictness, depth)?;
        }
        MontyObject::Date(date) => quote(json, &calendar_date(date)),
        MontyObject::DateTime(moment) => quote(json, &date_time(moment)),
        MontyObject::Time(time) => quote(json, &clock_time(time)),
        MontyObject::TimeDelta(span) => float(json, total_seconds(span), strictness)?,
        other if strictness == Strictness::Argument => {
            return Err(format!("`{other}` cannot be represented in JSON"));
        }
        other => quote(json, &other.to_string()),
    }
    Ok(())
}

fn elements(
    json: &mut String,
    items: &[MontyObject],
    strictness: Strictness,
    depth: usize,
) -> Result<(), String> {
    json.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            json.push(',');
        }
        write_value(json, item, strictness, depth - 1)?;
    }
    json.push(']');
    Ok(())
}

fn keyed(pairs: &DictPairs) -> impl Iterator<Item = (String, &MontyObject)> {
    pairs.into_iter().map(|(key, value)| (key_text(key), value))
}

fn members<'a>(
    json: &mut String,
    pairs: impl Iterator<Item = (String, &'a MontyObject)>,
    strictness: Strictness,
    depth: usize,
) -> Result<(), String> {
    json.push('{');
    for (at, (key, value)) in pairs.enumerate() {
        if at > 0 {
            json.push(',');
        }
        quote(json, &key);
        json.push(':');
        write_value(json, value, strictness, depth - 1)?;
    }
    json.push('}');
    Ok(())
}

/// A key as Python's own `json` writes it.
fn key_text(key: &MontyObject) -> String {
    match key {
        MontyObject::None => "null".to_owned(),
        MontyObject::Bool(flag) => flag.to_string(),
        other => other.to_string(),
    }
}

fn float(json: &mut String, number: f64, strictness: Strictness) -> Result<(), String> {
    match serde_json::Number::from_f64(number) {
        Some(number) => push(json, number),
        None if strictness == Strictness::Argument => {
            return Err(format!("`{number}` cannot be represented in JSON"));
        }
        None => json.push_str("null"),
    }
    Ok(())
}

fn calendar_date(date: &MontyDate) -> String {
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

fn total_seconds(span: &MontyTimeDelta) -> f64 {
    let days = f64::from(span.days) * 86_400.0;
    days + f64::from(span.seconds) + f64::from(span.microseconds) / 1e6
}

fn date_time(moment: &MontyDateTime) -> String {
    let time = MontyTime {
        hour: moment.hour,
        minute: moment.minute,
        second: moment.second,
        microsecond: moment.microsecond,
        offset_seconds: moment.offset_seconds,
        timezone_name: None,
        fold: 0,
    };
    let (year, month, day) = (moment.year, moment.month, moment.day);
    format!("{year:04}-{month:02}-{day:02}T{}", clock_time(&time))
}

fn clock_time(time: &MontyTime) -> String {
    let mut text = format!("{:02}:{:02}:{:02}", time.hour, time.minute, time.second);
    if time.microsecond > 0 {
        push(&mut text, format_args!(".{:06}", time.microsecond));
    }
    if let Some(offset) = time.offset_seconds {
        let sign = if offset < 0 { '-' } else { '+' };
        let minutes = offset.abs() / 60;
        push(
            &mut text,
            format_args!("{sign}{:02}:{:02}", minutes / 60, minutes % 60),
        );
    }
    text
}

fn push(json: &mut String, shown: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(json, "{shown}");
}

fn quote(json: &mut String, text: &str) {
    json.push_str(&serde_json::Value::from(text).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_values_round_trip() {
        let texts = [
            "null",
            "true",
            "1",
            "-9223372036854775809",
            "123456789012345678901234567890",
            "1.0",
            "1.5",
            r#""a\"\u0001é""#,
            r#"[1,[2,{"a":null}]]"#,
            r#"{"b":1,"a":{"c":[]}}"#,
        ];
        for text in texts {
            let value = from_json(text).unwrap();
            assert_eq!(to_json(&value, Strictness::Argument).unwrap(), text);
        }
    }

    #[test]
    fn values_without_a_json_form_are_refused_as_arguments() {
        let nan = MontyObject::Float(f64::NAN);
        assert!(to_json(&nan, Strictness::Argument).is_err());
        assert_eq!(to_json(&nan, Strictness::Result).unwrap(), "null");
        let mut deep = MontyObject::None;
        for _ in 0..MAX_DEPTH + 1 {
            deep = MontyObject::List(vec![deep]);
        }
        assert!(to_json(&deep, Strictness::Result).is_err());
    }
}
