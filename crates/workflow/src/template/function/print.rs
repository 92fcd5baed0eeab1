//! `print` and `printf` of templates.

use serde_json::Value;

use crate::template::shown;

/// The most width or precision: longer padding has no use, and would fill the memory.
const MAX_WIDTH: usize = 10_000;

/// All values in a row, with a space between two that are not texts.
pub(super) fn print(values: &[Value]) -> String {
    let mut out = String::new();
    let mut before: Option<&Value> = None;
    for value in values {
        if before.is_some_and(|before| !before.is_string()) && !value.is_string() {
            out.push(' ');
        }
        out.push_str(&shown(value));
        before = Some(value);
    }
    out
}

/// A format with its values: `%s`, `%v`, `%d`, `%t`, `%q`, `%x`, `%f` and `%%`, with width and precision. `None` if
/// they do not fit together.
pub(super) fn formatted(format: &str, values: &[Value]) -> Option<String> {
    let mut out = String::new();
    let mut values = values.iter();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (spec, verb, after) = Spec::read(after)?;
        let text = spec.shown(verb, values.next()?)?;
        spec.pad(&text, &mut out);
        rest = after;
    }
    out.push_str(rest);
    values.next().is_none().then_some(out)
}

/// What stands between `%` and the verb.
#[derive(Default)]
struct Spec {
    is_left: bool,
    has_zeros: bool,
    has_sign: bool,
    width: usize,
    precision: Option<usize>,
}

impl Spec {
    fn read(text: &str) -> Option<(Self, char, &str)> {
        let mut spec = Self::default();
        let mut rest = text;
        while let Some(flag) = rest.chars().next().filter(|c| matches!(c, '-' | '0' | '+')) {
            match flag {
                '-' => spec.is_left = true,
                '0' => spec.has_zeros = true,
                _ => spec.has_sign = true,
            }
            rest = &rest[1..];
        }
        let (width, after) = number(rest)?;
        spec.width = width.unwrap_or(0);
        rest = after;
        if let Some(after) = rest.strip_prefix('.') {
            let (precision, after) = number(after)?;
            spec.precision = Some(precision.unwrap_or(0));
            rest = after;
        }
        let verb = rest.chars().next()?;
        Some((spec, verb, &rest[verb.len_utf8()..]))
    }

    fn shown(&self, verb: char, value: &Value) -> Option<String> {
        let text = match (verb, value) {
            ('v' | 's', value) => {
                let text = shown(value);
                match self.precision {
                    Some(most) if verb == 's' => text.chars().take(most).collect(),
                    _ => text,
                }
            }
            ('q', Value::String(text)) => Value::from(text.as_str()).to_string(),
            ('d', Value::Number(number)) if !number.is_f64() => number.to_string(),
            ('f', Value::Number(number)) => {
                format!("{:.*}", self.precision.unwrap_or(6), number.as_f64()?)
            }
            ('t', Value::Bool(value)) => value.to_string(),
            ('x', Value::Number(number)) => format!("{:x}", number.as_u64()?),
            ('x', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
            _ => return None,
        };
        let is_positive = value.is_number() && !text.starts_with('-');
        Some(match self.has_sign && is_positive {
            true => format!("+{text}"),
            false => text,
        })
    }

    fn pad(&self, text: &str, out: &mut String) {
        let missing = self.width.saturating_sub(text.chars().count());
        if self.is_left {
            out.push_str(text);
            out.push_str(&" ".repeat(missing));
        } else if self.has_zeros {
            let digits = text.trim_start_matches(['-', '+']);
            out.push_str(&text[..text.len() - digits.len()]);
            out.push_str(&"0".repeat(missing));
            out.push_str(digits);
        } else {
            out.push_str(&" ".repeat(missing));
            out.push_str(text);
        }
    }
}

/// The number at the beginning of a text, if there is one; `None` if it is too large.
fn number(text: &str) -> Option<(Option<usize>, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    if digits.is_empty() {
        return Some((None, rest));
    }
    let number = digits.parse().ok().filter(|width| *width <= MAX_WIDTH)?;
    Some((Some(number), rest))
}
