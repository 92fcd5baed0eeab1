//! The functions of templates: AWF's, and those that Go's templates have built in.

mod print;

use std::cmp::Ordering;

use serde_json::Value;

use super::{Lookup, TemplateError, nodes::is_true, shown};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Json,
    Escape,
    Split,
    Join,
    TrimSpace,
    ReadFile,
    And,
    Or,
    Not,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Length,
    Index,
    Slice,
    Print,
    PrintLine,
    PrintFormat,
}

const FUNCTIONS: [(&str, Function); 21] = [
    ("json", Function::Json),
    ("escape", Function::Escape),
    ("split", Function::Split),
    ("join", Function::Join),
    ("trimSpace", Function::TrimSpace),
    ("readFile", Function::ReadFile),
    ("and", Function::And),
    ("or", Function::Or),
    ("not", Function::Not),
    ("eq", Function::Equal),
    ("ne", Function::NotEqual),
    ("lt", Function::Less),
    ("le", Function::LessOrEqual),
    ("gt", Function::Greater),
    ("ge", Function::GreaterOrEqual),
    ("len", Function::Length),
    ("index", Function::Index),
    ("slice", Function::Slice),
    ("print", Function::Print),
    ("println", Function::PrintLine),
    ("printf", Function::PrintFormat),
];

/// The names of all functions, for messages.
pub(super) fn names() -> String {
    let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

impl Function {
    pub(super) fn of(name: &str) -> Option<Self> {
        let found = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
        Some(found.1)
    }

    /// Calls the function with `count` arguments and the piped value. `and` and `or` evaluate no more arguments than
    /// they need.
    pub(super) fn evaluate(
        self,
        count: usize,
        piped: Option<Value>,
        scope: &dyn Lookup,
        argument: &mut dyn FnMut(usize) -> Result<Value, TemplateError>,
    ) -> Result<Value, TemplateError> {
        let mut values = Vec::with_capacity(count + 1);
        for at in 0..count {
            let value = argument(at)?;
            let decides = match self {
                Self::And => !is_true(&value),
                Self::Or => is_true(&value),
                _ => false,
            };
            if decides {
                return Ok(value);
            }
            values.push(value);
        }
        match self {
            // `LIST | join ","` reads better than Go's order, in which it would be an error.
            Self::Split | Self::Join => values.splice(0..0, piped),
            _ => values.splice(count..count, piped),
        };
        self.call(&values, scope)
    }

    fn call(self, arguments: &[Value], scope: &dyn Lookup) -> Result<Value, TemplateError> {
        match (self, arguments) {
            (Self::Json, [value]) => Ok(value.to_string().into()),
            (Self::Escape, [value]) => Ok(escaped(&shown(value)).into()),
            (Self::TrimSpace, [value]) => Ok(shown(value).trim().into()),
            (Self::Split, [value, Value::String(by)]) if !by.is_empty() => {
                Ok(shown(value).split(by.as_str()).map(str::trim).collect())
            }
            (Self::Join, [Value::Array(items), Value::String(by)]) => {
                let items: Vec<String> = items.iter().map(shown).collect();
                Ok(items.join(by).into())
            }
            (Self::ReadFile, [value]) => {
                let content = scope.file(shown(value).trim());
                content.map(Value::String).map_err(TemplateError::File)
            }
            (Self::And | Self::Or, [.., last]) => Ok(last.clone()),
            (Self::Not, [value]) => Ok((!is_true(value)).into()),
            (Self::Equal, [first, others @ ..]) if !others.is_empty() => self.equal(first, others),
            (Self::NotEqual, [one, other]) => Ok((!self.is_equal(one, other)?).into()),
            (
                Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual,
                [one, other],
            ) => {
                let order = order(one, other).ok_or_else(|| self.wrong())?;
                Ok(self.fits(order).into())
            }
            (Self::Length, [value]) => length(value).ok_or_else(|| self.wrong()),
            (Self::Index, [value, keys @ ..]) => index(value, keys),
            (Self::Slice, [value, ends @ ..]) => slice(value, ends).ok_or_else(|| self.wrong()),
            (Self::Print, values) => Ok(print::print(values).into()),
            (Self::PrintLine, values) => {
                let values: Vec<String> = values.iter().map(shown).collect();
                Ok(format!("{}\n", values.join(" ")).into())
            }
            (Self::PrintFormat, [Value::String(format), values @ ..]) => {
                let text = print::formatted(format, values);
                text.map(Value::String).ok_or_else(|| self.wrong())
            }
            _ => Err(self.wrong()),
        }
    }

    fn equal(self, first: &Value, others: &[Value]) -> Result<Value, TemplateError> {
        for other in others {
            if self.is_equal(first, other)? {
                return Ok(true.into());
            }
        }
        Ok(false.into())
    }

    /// Values of different types are not comparable: `eq .inputs.n "3"` would silently be false for a number.
    fn is_equal(self, one: &Value, other: &Value) -> Result<bool, TemplateError> {
        match (one, other) {
            (Value::Null, other) | (other, Value::Null) => Ok(other.is_null()),
            (Value::Bool(one), Value::Bool(other)) => Ok(one == other),
            (Value::Array(_) | Value::Object(_), _) => Err(self.wrong()),
            _ => Ok(order(one, other).ok_or_else(|| self.wrong())? == Ordering::Equal),
        }
    }

    fn fits(self, order: Ordering) -> bool {
        match self {
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            _ => order.is_ge(),
        }
    }

    fn wrong(self) -> TemplateError {
        let (name, wanted) = match self {
            Self::Json => ("json", "a value"),
            Self::Escape => ("escape", "a value"),
            Self::TrimSpace => ("trimSpace", "a value"),
            Self::Split => ("split", "a text and a separator"),
            Self::Join => ("join", "a list and a separator"),
            Self::ReadFile => ("readFile", "a path"),
            Self::And => ("and", "values"),
            Self::Or => ("or", "values"),
            Self::Not => ("not", "a value"),
            Self::Equal => ("eq", "two or more values of one type"),
            Self::NotEqual => ("ne", "two values of one type"),
            Self::Less => ("lt", "two numbers or two texts"),
            Self::LessOrEqual => ("le", "two numbers or two texts"),
            Self::Greater => ("gt", "two numbers or two texts"),
            Self::GreaterOrEqual => ("ge", "two numbers or two texts"),
            Self::Length => ("len", "a text, a list or a map"),
            Self::Index => ("index", "a list or map, and where to look in it"),
            Self::Slice => ("slice", "a text or list, and where it begins and ends"),
            Self::Print => ("print", "values"),
            Self::PrintLine => ("println", "values"),
            Self::PrintFormat => ("printf", "a format, and a value for each `%`"),
        };
        TemplateError::Arguments { name, wanted }
    }
}

/// The order of two numbers or two texts.
fn order(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
        },
        _ => None,
    }
}

fn length(value: &Value) -> Option<Value> {
    let length = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => return None,
    };
    Some(length.into())
}

fn index(value: &Value, keys: &[Value]) -> Result<Value, TemplateError> {
    let mut found = value;
    for key in keys {
        let missing = || TemplateError::Missing(format!("index {}", shown(key)));
        found = match (found, key) {
            (Value::Array(items), Value::Number(at)) => {
                let at = at.as_u64().and_then(|at| usize::try_from(at).ok());
                at.and_then(|at| items.get(at)).ok_or_else(missing)?
            }
            (Value::Object(members), Value::String(key)) => members.get(key).ok_or_else(missing)?,
            _ => return Err(Function::Index.wrong()),
        };
    }
    Ok(found.clone())
}

/// A part of a text, by bytes, or of a list.
fn slice(value: &Value, ends: &[Value]) -> Option<Value> {
    let ends: Option<Vec<usize>> = ends
        .iter()
        .map(|end| usize::try_from(end.as_u64()?).ok())
        .collect();
    let (from, to) = match ends?.as_slice() {
        [] => (0, None),
        [from] => (*from, None),
        [from, to] => (*from, Some(*to)),
        [_, _, ..] => return None,
    };
    match value {
        Value::String(text) => text.get(from..to.unwrap_or(text.len())).map(Value::from),
        Value::Array(items) => items
            .get(from..to.unwrap_or(items.len()))
            .map(|items| Value::Array(items.to_vec())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Quotes a text as a single shell word.
pub(super) fn escaped(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
