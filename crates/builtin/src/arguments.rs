//! Arguments as a model sends them: looked up under each of their spellings and checked for their type.
//! Only arguments that the table of built-in tools has can be read; others are passed over.

use std::{borrow::Cow, fmt};

use callgate_gate::{Argument, BuiltinTool, Meaning};
use callgate_wire::{Json, JsonKind};

/// Why arguments cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentError {
    /// There is no object to look into.
    #[error("the arguments must be an object")]
    NotAnObject,
    /// One that is needed is not there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// One is of another type.
    #[error("`{name}` must be {wanted}")]
    WrongType {
        name: &'static str,
        wanted: &'static str,
    },
    /// Two spellings of one argument do not agree.
    #[error("`{0}` and `{1}` are the same argument and differ")]
    Twice(&'static str, &'static str),
    /// A tool reads what the table of built-in tools does not have, or has as something else.
    #[error("`{0}` is not declared by this tool")]
    Undeclared(&'static str),
}

const TEXT: &str = "a string";
const FLAG: &str = "true or false";
const WHOLE: &str = "a whole number that is not negative";

/// A path as the model wrote it. Only an argument that the table of built-in tools calls a path becomes
/// one: the policy has seen every path that a tool opens.
#[derive(Debug)]
pub(crate) struct AskedPath<'a>(Cow<'a, str>);

impl AskedPath<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AskedPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The arguments of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arguments<'a> {
    tool: BuiltinTool,
    json: Option<Json<'a>>,
}

impl<'a> Arguments<'a> {
    /// Takes the arguments of a call; none at all are an empty object.
    pub(crate) fn new(tool: BuiltinTool, json: Option<Json<'a>>) -> Result<Self, ArgumentError> {
        match json {
            Some(json) if json.is_null() => Ok(Self { tool, json: None }),
            Some(json) if !json.is_object() => Err(ArgumentError::NotAnObject),
            json => Ok(Self { tool, json }),
        }
    }

    /// A path that has to be there.
    pub(crate) fn path(self, name: &'static str) -> Result<AskedPath<'a>, ArgumentError> {
        let path = self.string(name, Meaning::Path)?;
        path.map(AskedPath).ok_or(ArgumentError::Missing(name))
    }

    /// A path, or the working folder when it is left out.
    pub(crate) fn path_or_here(self, name: &'static str) -> Result<AskedPath<'a>, ArgumentError> {
        let path = self.string(name, Meaning::Path)?;
        Ok(AskedPath(path.unwrap_or(Cow::Borrowed("."))))
    }

    /// A command line that has to be there.
    pub(crate) fn command(self, name: &'static str) -> Result<Cow<'a, str>, ArgumentError> {
        self.string(name, Meaning::Command)?
            .ok_or(ArgumentError::Missing(name))
    }

    /// A string that has to be there.
    pub(crate) fn text(self, name: &'static str) -> Result<Cow<'a, str>, ArgumentError> {
        self.optional_text(name)?
            .ok_or(ArgumentError::Missing(name))
    }

    /// A string that may be left out.
    pub(crate) fn optional_text(
        self,
        name: &'static str,
    ) -> Result<Option<Cow<'a, str>>, ArgumentError> {
        self.string(name, Meaning::Plain)
    }

    /// A flag; `false` when it is left out.
    pub(crate) fn flag(self, name: &'static str) -> Result<bool, ArgumentError> {
        let Some(found) = self.find(name, Meaning::Plain)? else {
            return Ok(false);
        };
        let wrong = ArgumentError::WrongType { name, wanted: FLAG };
        found.as_bool().ok_or(wrong)
    }

    /// A whole number that may be left out. `3.0` is one: some models write all numbers so.
    pub(crate) fn number(self, name: &'static str) -> Result<Option<u64>, ArgumentError> {
        let Some(found) = self.find(name, Meaning::Plain)? else {
            return Ok(None);
        };
        let wrong = ArgumentError::WrongType {
            name,
            wanted: WHOLE,
        };
        if found.kind() != JsonKind::Number {
            return Err(wrong);
        }
        let text = found.as_text();
        let whole = text.split_once('.').map_or(text, |(whole, fraction)| {
            if fraction.bytes().all(|digit| digit == b'0') {
                whole
            } else {
                text
            }
        });
        whole.parse().map(Some).map_err(|_| wrong)
    }

    fn string(
        self,
        name: &'static str,
        meaning: Meaning,
    ) -> Result<Option<Cow<'a, str>>, ArgumentError> {
        let Some(found) = self.find(name, meaning)? else {
            return Ok(None);
        };
        let wrong = ArgumentError::WrongType { name, wanted: TEXT };
        found.as_str().map(Some).ok_or(wrong)
    }

    fn find(self, name: &'static str, meaning: Meaning) -> Result<Option<Json<'a>>, ArgumentError> {
        let declared = self.tool.argument(name);
        let Some(Argument { other, .. }) = declared.filter(|found| found.meaning == meaning) else {
            return Err(ArgumentError::Undeclared(name));
        };
        let get = |name| {
            self.json?
                .get(name)
                .filter(|value: &Json<'_>| !value.is_null())
        };
        let (first, second) = (get(name), other.and_then(get));
        match (first, second, other) {
            (Some(first), Some(second), Some(other)) if first.as_str() != second.as_str() => {
                Err(ArgumentError::Twice(name, other))
            }
            (first, second, _) => Ok(first.or(second)),
        }
    }
}

#[cfg(test)]
mod tests {
    use callgate_wire::Strictness;

    use super::*;

    fn with<T>(text: &str, look: impl Fn(Arguments<'_>) -> T) -> T {
        let json = Json::validate(text.as_bytes(), Strictness::Full).unwrap();
        look(Arguments::new(BuiltinTool::Read, Some(json)).unwrap())
    }

    #[test]
    fn path_and_file_path_are_one_argument() {
        let path = |text| with(text, |all| all.path("path").map(|path| path.to_string()));
        assert_eq!(path(r#"{"path":"a"}"#), Ok("a".to_owned()));
        assert_eq!(path(r#"{"file_path":"a"}"#), Ok("a".to_owned()));
        assert_eq!(path(r#"{"path":"a","file_path":"a"}"#), Ok("a".to_owned()));
        assert_eq!(path(r#"{"path":null,"file_path":"a"}"#), Ok("a".to_owned()));
        let twice = Err(ArgumentError::Twice("path", "file_path"));
        assert_eq!(path(r#"{"path":"a","file_path":"b"}"#), twice);
        assert_eq!(path(r#"{"path":"a","file_path":1}"#), twice);
        assert_eq!(path("{}"), Err(ArgumentError::Missing("path")));
    }

    #[test]
    fn number_arguments_are_non_negative_integers() {
        let number = |text: &str| {
            let text = format!(r#"{{"limit":{text}}}"#);
            with(&text, |all| all.number("limit").ok())
        };
        assert_eq!(number("7"), Some(Some(7)));
        assert_eq!(number("7.0"), Some(Some(7)));
        assert_eq!(number("null"), Some(None));
        for wrong in ["-1", "1.5", "1e3", "\"7\"", "true", "99999999999999999999"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_argument_is_read_only_as_what_it_is_declared() {
        let undeclared = |name| Err(ArgumentError::Undeclared(name));
        with(r#"{"path":"a","cwd":"b","limit":"c"}"#, |all| {
            assert_eq!(all.text("path"), undeclared("path"));
            assert_eq!(all.command("path"), undeclared("path"));
            assert_eq!(all.text("cwd"), undeclared("cwd"));
            assert_eq!(all.path("limit").err(), undeclared("limit").err());
        });
    }

    #[test]
    fn arguments_must_be_an_object() {
        for text in ["[]", "3", "\"a\"", "true"] {
            let json = Json::validate(text.as_bytes(), Strictness::Full).unwrap();
            assert_eq!(
                Arguments::new(BuiltinTool::Read, Some(json)).err(),
                Some(ArgumentError::NotAnObject),
                "{text}"
            );
        }
        assert!(Arguments::new(BuiltinTool::Read, None).is_ok());
    }
}
