//! Conditions: `states.test.ExitCode != 0 and inputs.mode == 'full'`.
//!
//! What is not there is an error, and so is anything but yes or no in the end. Templates inside of conditions are
//! not needed: paths are used as they are, with or without a dot in front.

use std::cmp::Ordering;

use serde_json::Value;

use crate::template::{Lookup, shown};

/// How deep brackets may nest.
const MAX_DEPTH: usize = 64;

/// A condition that was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    text: String,
    root: Node,
}

/// Why a condition cannot be read, or has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionError {
    #[error("the condition is empty")]
    Empty,
    #[error("`{0}` is not expected there")]
    Unexpected(String),
    #[error("the condition ends too early")]
    End,
    #[error("a text in the condition is not closed")]
    Open,
    #[error("the condition nests too deeply")]
    Depth,
    #[error("`{0}` is not there")]
    Missing(String),
    #[error("`{0}` cannot be compared with `{1}`")]
    Compare(String, String),
    #[error("`{0}` is neither true nor false")]
    NotBoolean(String),
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Path(Vec<String>),
    Literal(Value),
    Not(Box<Node>),
    Both(Box<Node>, Box<Node>),
    Either(Box<Node>, Box<Node>),
    Compared(Comparison, Box<Node>, Box<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    Contains,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(&'static str),
}

impl Expression {
    /// Reads a condition.
    pub(crate) fn read(text: &str) -> Result<Self, ExpressionError> {
        let tokens = tokens(text)?;
        if tokens.is_empty() {
            return Err(ExpressionError::Empty);
        }
        let mut reader = Reader {
            tokens: &tokens,
            depth: 0,
        };
        let root = reader.either()?;
        match reader.tokens.first() {
            None => Ok(Self {
                text: text.trim().to_owned(),
                root,
            }),
            Some(token) => Err(ExpressionError::Unexpected(token.shown())),
        }
    }

    /// Whether it holds.
    pub(crate) fn holds(&self, scope: &dyn Lookup) -> Result<bool, ExpressionError> {
        self.root.truth(scope)
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Every path that it uses.
    pub(crate) fn paths(&self) -> Vec<&[String]> {
        let mut paths = Vec::new();
        self.root.collect(&mut paths);
        paths
    }
}

impl Node {
    fn truth(&self, scope: &dyn Lookup) -> Result<bool, ExpressionError> {
        match self {
            Self::Not(inner) => Ok(!inner.truth(scope)?),
            Self::Both(left, right) => Ok(left.truth(scope)? && right.truth(scope)?),
            Self::Either(left, right) => Ok(left.truth(scope)? || right.truth(scope)?),
            Self::Compared(comparison, left, right) => {
                comparison.holds(&left.value(scope)?, &right.value(scope)?)
            }
            Self::Path(_) | Self::Literal(_) => match self.value(scope)? {
                Value::Bool(truth) => Ok(truth),
                other => Err(ExpressionError::NotBoolean(shown(&other))),
            },
        }
    }

    fn value(&self, scope: &dyn Lookup) -> Result<Value, ExpressionError> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Path(path) => scope
                .look_up(path)
                .ok_or_else(|| ExpressionError::Missing(path.join("."))),
            Self::Not(_) | Self::Both(..) | Self::Either(..) | Self::Compared(..) => {
                self.truth(scope).map(Value::Bool)
            }
        }
    }

    fn collect<'a>(&'a self, paths: &mut Vec<&'a [String]>) {
        match self {
            Self::Path(path) => paths.push(path),
            Self::Literal(_) => {}
            Self::Not(inner) => inner.collect(paths),
            Self::Both(left, right)
            | Self::Either(left, right)
            | Self::Compared(_, left, right) => {
                left.collect(paths);
                right.collect(paths);
            }
        }
    }
}

impl Comparison {
    fn of(token: &Token) -> Option<Self> {
        match token {
            Token::Sign("==") => Some(Self::Equal),
            Token::Sign("!=") => Some(Self::Unequal),
            Token::Sign("<") => Some(Self::Less),
            Token::Sign("<=") => Some(Self::AtMost),
            Token::Sign(">") => Some(Self::More),
            Token::Sign(">=") => Some(Self::AtLeast),
            Token::Word(word) if word == "contains" => Some(Self::Contains),
            Token::Word(_) | Token::Text(_) | Token::Sign(_) => None,
        }
    }

    fn holds(self, left: &Value, right: &Value) -> Result<bool, ExpressionError> {
        let cannot = || ExpressionError::Compare(shown(left), shown(right));
        let order = || ordered(left, right).ok_or_else(cannot);
        match self {
            Self::Equal => Ok(equal(left, right)),
            Self::Unequal => Ok(!equal(left, right)),
            Self::Less => Ok(order()?.is_lt()),
            Self::AtMost => Ok(order()?.is_le()),
            Self::More => Ok(order()?.is_gt()),
            Self::AtLeast => Ok(order()?.is_ge()),
            Self::Contains => match (left, right) {
                (Value::String(text), Value::String(part)) => Ok(text.contains(part.as_str())),
                (Value::Array(items), part) => Ok(items.iter().any(|item| equal(item, part))),
                _ => Err(cannot()),
            },
        }
    }
}

/// Numbers are equal by their value, however they are written.
fn equal(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(_), Some(_)) => ordered(left, right) == Some(Ordering::Equal),
        _ => left == right,
    }
}

fn ordered(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
        },
        _ => None,
    }
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Text(text) => format!("'{text}'"),
            Self::Sign(sign) => (*sign).to_owned(),
        }
    }
}

const SIGNS: [&str; 12] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "=",
];

fn tokens(text: &str) -> Result<Vec<Token>, ExpressionError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if matches!(first, '\'' | '"') {
            let inside = &rest[1..];
            let end = inside.find(first).ok_or(ExpressionError::Open)?;
            tokens.push(Token::Text(inside[..end].to_owned()));
            rest = &inside[end + 1..];
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
            let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(ExpressionError::Unexpected(first.to_string()));
            }
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

struct Reader<'a> {
    tokens: &'a [Token],
    depth: usize,
}

impl Reader<'_> {
    fn takes(&mut self, word: &str, sign: &str) -> bool {
        let is_it = match self.tokens.first() {
            Some(Token::Word(found)) => found == word,
            Some(Token::Sign(found)) => *found == sign,
            Some(Token::Text(_)) | None => false,
        };
        if is_it {
            self.tokens = &self.tokens[1..];
        }
        is_it
    }

    fn either(&mut self) -> Result<Node, ExpressionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExpressionError::Depth);
        }
        let mut node = self.both()?;
        while self.takes("or", "||") {
            node = Node::Either(Box::new(node), Box::new(self.both()?));
        }
        self.depth -= 1;
        Ok(node)
    }

    fn both(&mut self) -> Result<Node, ExpressionError> {
        let mut node = self.not()?;
        while self.takes("and", "&&") {
            node = Node::Both(Box::new(node), Box::new(self.not()?));
        }
        Ok(node)
    }

    fn not(&mut self) -> Result<Node, ExpressionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExpressionError::Depth);
        }
        let node = if self.takes("not", "!") {
            Node::Not(Box::new(self.not()?))
        } else {
            self.compared()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn compared(&mut self) -> Result<Node, ExpressionError> {
        let left = self.value()?;
        let comparison = self.tokens.first().and_then(Comparison::of);
        let Some(comparison) = comparison else {
            return Ok(left);
        };
        self.tokens = &self.tokens[1..];
        Ok(Node::Compared(
            comparison,
            Box::new(left),
            Box::new(self.value()?),
        ))
    }

    fn value(&mut self) -> Result<Node, ExpressionError> {
        let (token, rest) = self.tokens.split_first().ok_or(ExpressionError::End)?;
        self.tokens = rest;
        match token {
            Token::Text(text) => Ok(Node::Literal(text.clone().into())),
            Token::Sign("(") => {
                let node = self.either()?;
                if self.takes("", ")") {
                    Ok(node)
                } else {
                    Err(ExpressionError::End)
                }
            }
            Token::Sign(sign) => Err(ExpressionError::Unexpected((*sign).to_owned())),
            Token::Word(word) => word_value(word),
        }
    }
}

fn word_value(word: &str) -> Result<Node, ExpressionError> {
    match word {
        "true" => return Ok(Node::Literal(true.into())),
        "false" => return Ok(Node::Literal(false.into())),
        "and" | "or" | "not" | "contains" => {
            return Err(ExpressionError::Unexpected(word.to_owned()));
        }
        _ => {}
    }
    if let Ok(number) = word.parse::<serde_json::Number>() {
        return Ok(Node::Literal(Value::Number(number)));
    }
    let path = word.strip_prefix('.').unwrap_or(word);
    let parts: Vec<String> = path.split('.').map(str::to_owned).collect();
    let begins = |part: &String| part.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    if parts.len() < 2 || !parts.iter().all(begins) {
        return Err(ExpressionError::Unexpected(word.to_owned()));
    }
    Ok(Node::Path(parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn scope() -> Value {
        json!({
            "inputs": {"mode": "full", "n": 3, "yes": true, "list": ["a", 1]},
            "states": {"my-test": {"ExitCode": 1, "Output": "2 failed"}},
        })
    }

    #[test]
    fn conditions_that_have_a_value() {
        for (text, expected) in [
            ("states.my-test.ExitCode != 0", true),
            (".states.my-test.ExitCode == 1.0", true),
            ("inputs.mode == 'full'", true),
            ("inputs.mode == \"other\"", false),
            ("inputs.yes", true),
            ("not inputs.yes", false),
            ("!inputs.yes or inputs.n >= 3", true),
            ("inputs.n < 3 && states.none.Output == 'x'", false),
            (
                "inputs.n > 2 and (inputs.n <= 2 or inputs.yes == true)",
                true,
            ),
            ("states.my-test.Output contains 'failed'", true),
            ("inputs.list contains 1", true),
            ("inputs.list contains 'b'", false),
            ("'a' < 'b'", true),
            ("true", true),
            ("inputs.n == '3'", false),
            ("not not true", true),
            ("1 == 1 and 2 == 3 or true", true),
        ] {
            let read = Expression::read(text).expect(text);
            assert_eq!(read.holds(&scope()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn conditions_that_have_none() {
        for (text, expected) in [
            (
                "states.none.ExitCode == 0",
                "`states.none.ExitCode` is not there",
            ),
            ("inputs.n", "`3` is neither true nor false"),
            ("inputs.mode > 1", "`full` cannot be compared with `1`"),
            ("inputs.n contains 1", "`3` cannot be compared with `1`"),
        ] {
            let read = Expression::read(text).expect(text);
            assert_eq!(read.holds(&scope()).expect_err(text).to_string(), expected);
        }
    }

    #[test]
    fn texts_that_are_no_conditions() {
        for (text, expected) in [
            ("", "the condition is empty"),
            ("  ", "the condition is empty"),
            ("a.b ==", "the condition ends too early"),
            ("a.b = 1", "`=` is not expected there"),
            ("a.b c.d", "`c.d` is not expected there"),
            ("(a.b", "the condition ends too early"),
            ("a.b)", "`)` is not expected there"),
            ("'open", "a text in the condition is not closed"),
            ("word", "`word` is not expected there"),
            ("and a.b", "`and` is not expected there"),
            ("{{.a.b}} == 1", "`{` is not expected there"),
            ("a..b == 1", "`a..b` is not expected there"),
        ] {
            let error = Expression::read(text).expect_err(text);
            assert_eq!(error.to_string(), expected, "{text}");
        }
        let deep = format!("{}true{}", "(".repeat(500), ")".repeat(500));
        assert_eq!(Expression::read(&deep), Err(ExpressionError::Depth));
        let deep = format!("{}true", "!".repeat(500));
        assert_eq!(Expression::read(&deep), Err(ExpressionError::Depth));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "[a-z.()!=<>&|'\" 0-9é-]{0,40}") {
            if let Ok(expression) = Expression::read(&text) {
                let _ = expression.holds(&scope());
            }
        }
    }
}
