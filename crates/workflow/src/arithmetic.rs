//! Whole numbers that are computed from values: `{{.inputs.pages * 2}}`, `{{.env.LIMIT}} + 1`.

use serde_json::Value;

use crate::template::Lookup;

/// Bounds the recursion: the brackets come from the file.
const MAX_DEPTH: usize = 16;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arithmetic {
    text: String,
    sum: Sum,
}

/// Why a number cannot be read or computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArithmeticError {
    #[error(
        "`{0}` is not a whole number, nor a computation with `+`, `-`, `*`, `/`, `%` and values"
    )]
    Syntax(String),
    #[error("`{0}` has no value")]
    Missing(String),
    #[error("`{path}` is `{value}`, which is not a whole number")]
    NotWhole { path: String, value: String },
    #[error("`{0}` cannot be computed: the numbers are too large, or a divisor is zero")]
    Overflow(String),
}

#[derive(Debug, Clone, PartialEq)]
enum Sum {
    Number(i64),
    Path(Vec<String>),
    Of(Box<Sum>, char, Box<Sum>),
}

impl Arithmetic {
    pub(crate) fn read(text: &str) -> Result<Self, ArithmeticError> {
        let plain = text.replace("{{", " ").replace("}}", " ");
        let mut reader = Reader { rest: &plain };
        let sum = reader.sum(0);
        let sum = sum.filter(|_| reader.rest.trim().is_empty());
        let sum = sum.ok_or_else(|| ArithmeticError::Syntax(text.trim().to_owned()))?;
        Ok(Self {
            text: text.trim().to_owned(),
            sum,
        })
    }

    pub(crate) fn value(&self, scope: &dyn Lookup) -> Result<i64, ArithmeticError> {
        let overflow = || ArithmeticError::Overflow(self.text.clone());
        self.sum.value(scope)?.ok_or_else(overflow)
    }

    pub(crate) fn paths(&self) -> Vec<&[String]> {
        let mut paths = Vec::new();
        self.sum.collect(&mut paths);
        paths
    }
}

impl Sum {
    /// `None` if a result is out of range.
    fn value(&self, scope: &dyn Lookup) -> Result<Option<i64>, ArithmeticError> {
        Ok(match self {
            Self::Number(number) => Some(*number),
            Self::Path(path) => Some(whole(path, scope)?),
            Self::Of(left, sign, right) => {
                let (left, right) = (left.value(scope)?, right.value(scope)?);
                match (left, right) {
                    (Some(left), Some(right)) => computed(left, *sign, right),
                    _ => None,
                }
            }
        })
    }

    fn collect<'a>(&'a self, paths: &mut Vec<&'a [String]>) {
        match self {
            Self::Number(_) => {}
            Self::Path(path) => paths.push(path),
            Self::Of(left, _, right) => {
                left.collect(paths);
                right.collect(paths);
            }
        }
    }
}

fn computed(left: i64, sign: char, right: i64) -> Option<i64> {
    match sign {
        '+' => left.checked_add(right),
        '-' => left.checked_sub(right),
        '*' => left.checked_mul(right),
        '/' => left.checked_div(right),
        _ => left.checked_rem(right),
    }
}

fn whole(path: &[String], scope: &dyn Lookup) -> Result<i64, ArithmeticError> {
    let shown = || format!(".{}", path.join("."));
    let value = scope.look_up(path);
    let value = value.ok_or_else(|| ArithmeticError::Missing(shown()))?;
    let number = match &value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_i64(),
    };
    number.ok_or_else(|| ArithmeticError::NotWhole {
        path: shown(),
        value: crate::template::shown(&value),
    })
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn sum(&mut self, depth: usize) -> Option<Sum> {
        let mut left = self.product(depth)?;
        while let Some(sign) = self.sign("+-") {
            left = Sum::Of(Box::new(left), sign, Box::new(self.product(depth)?));
        }
        Some(left)
    }

    fn product(&mut self, depth: usize) -> Option<Sum> {
        let mut left = self.operand(depth)?;
        while let Some(sign) = self.sign("*/%") {
            left = Sum::Of(Box::new(left), sign, Box::new(self.operand(depth)?));
        }
        Some(left)
    }

    fn sign(&mut self, signs: &str) -> Option<char> {
        self.rest = self.rest.trim_start();
        let sign = self.rest.chars().next().filter(|c| signs.contains(*c))?;
        self.rest = &self.rest[1..];
        Some(sign)
    }

    fn operand(&mut self, depth: usize) -> Option<Sum> {
        self.rest = self.rest.trim_start();
        if let Some(rest) = self.rest.strip_prefix('(') {
            if depth == MAX_DEPTH {
                return None;
            }
            self.rest = rest;
            let inner = self.sum(depth + 1)?;
            self.rest = self.rest.trim_start().strip_prefix(')')?;
            return Some(inner);
        }
        // A minus inside of a word belongs to a name, as in conditions.
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        let end = self.rest.find(|c: char| !is_part(c));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        if let Ok(number) = word.parse() {
            return Some(Sum::Number(number));
        }
        let path: Vec<String> = word
            .strip_prefix('.')
            .unwrap_or(word)
            .split('.')
            .map(str::to_owned)
            .collect();
        let is_path = path.len() > 1
            && path[0].starts_with(char::is_alphabetic)
            && path.iter().all(|part| !part.is_empty());
        is_path.then_some(Sum::Path(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(text: &str) -> String {
        let scope = json!({"inputs": {"n": 3, "text": " 4 ", "list": [], "my-limit": 2}});
        let value = Arithmetic::read(text).and_then(|sum| sum.value(&scope));
        match value {
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn numbers_are_computed_from_values() {
        for (text, expected) in [
            ("7", "7"),
            ("{{.inputs.n}}", "3"),
            ("{{inputs.n * inputs.text}}", "12"),
            ("{{.inputs.n}} + {{.inputs.text}} * 2", "11"),
            ("({{inputs.n}} + 1) * 2 - -1", "9"),
            ("{{inputs.my-limit}} % 2", "0"),
            ("10 / 4 / 2", "1"),
            ("{{.inputs.none}}", "`.inputs.none` has no value"),
            (
                "{{.inputs.list}}",
                "`.inputs.list` is `[]`, which is not a whole number",
            ),
        ] {
            assert_eq!(result(text), expected, "{text}");
        }
        for text in ["1 / 0", "9223372036854775807 + 1"] {
            assert!(result(text).contains("cannot be computed"), "{text}");
        }
    }

    #[test]
    fn malformed_computations_are_refused() {
        let deep = format!("{}1{}", "(".repeat(30), ")".repeat(30));
        for text in [
            "",
            "many",
            "1 +",
            "(1",
            "1 2",
            "1.5",
            "{{json .inputs.n}}",
            "a..b",
            &deep,
        ] {
            assert!(
                result(text).contains("is not a whole number, nor"),
                "{text}"
            );
        }
    }
}
