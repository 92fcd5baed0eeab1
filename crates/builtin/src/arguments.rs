//! Arguments as a model sends them: looked up under each of their spellings, and checked for type.
//! Only arguments declared in `gate::BuiltinTool` can be read; unknown ones are ignored.

use std::{borrow::Cow, fmt};

use callgate_gate::{Argument, BuiltinTool, Meaning};
use callgate_wire::{Json, JsonKind};

/// Why arguments cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentError {
    #[error("the arguments must be an object")]
    NotAnObject,
    #[error("`{0}` is missing")]
    Missing(&'static str),
    #[error("`{name}` must be {expected}")]
    WrongType {
        name: &'static str,
        expected: &'static str,
    },
    /// Two spellings of one argument have different values.
    #[error("`{0}` and `{1}` name the same argument but have different values")]
    Twice(&'static str, &'static str),
    /// A bug in a tool: it reads an argument that `gate::BuiltinTool` does not declare with this meaning, so policy
    /// has not judged it.
    #[error("`{0}` is not declared by this tool")]
    Undeclared(&'static str),
}

const TEXT: &str = "a string";
const FLAG: &str = "true or false";
const WHOLE: &str = "a non-negative integer";

/// A path as the model wrote it. Only an argument that `gate::BuiltinTool` declares as a path becomes one, so
/// policy has judged every path that a tool opens.
#[derive(Debug)]
pub(crate) struct RequestedPath<'a>(Cow<'a, str>);

impl RequestedPath<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestedPath<'_> {
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
    /// The arguments of a call; missing and `null` arguments are an empty object.
    pub(crate) fn new(tool: BuiltinTool, json: Option<Json<'a>>) -> Result<Self, ArgumentError> {
        match json {
            Some(json) if json.is_null() => Ok(Self { tool, json: None }),
            Some(json) if !json.is_object() => Err(ArgumentError::NotAnObject),
            json => Ok(Self { tool, json }),
        }
    }

    pub(crate) fn path(self, name: &'static str) -> Result<RequestedPath<'a>, ArgumentError> {
        let path = self.string(name, Meaning::Path)?;
        path.map(RequestedPath).ok_or(ArgumentError::Missing(name))
    }

    /// An optional path; defaults to the working folder.
    pub(crate) fn path_or_here(
        self,
        name: &'static str,
    ) -> Result<RequestedPath<'a>, ArgumentError> {
        let path = self.string(name, Meaning::Path)?;
        Ok(RequestedPath(path.unwrap_or(Cow::Borrowed("."))))
    }

    /// A required command line.
    pub(crate) fn command(self, name: &'static str) -> Result<Cow<'a, str>, ArgumentError> {
        self.string(name, Meaning::Command)?
            .ok_or(ArgumentError::Missing(name))
    }

    pub(crate) fn text(self, name: &'static str) -> Result<Cow<'a, str>, ArgumentError> {
        self.optional_text(name)?
            .ok_or(ArgumentError::Missing(name))
    }

    pub(crate) fn optional_text(
        self,
        name: &'static str,
    ) -> Result<Option<Cow<'a, str>>, ArgumentError> {
        self.string(name, Meaning::Plain)
    }

    /// An optional flag; defaults to `false`.
    pub(crate) fn flag(self, name: &'static str) -> Result<bool, ArgumentError> {
        let Some(found) = self.find(name, Meaning::Plain)? else {
            return Ok(false);
        };
        let wrong = ArgumentError::WrongType {
            name,
            expected: FLAG,
        };
        found.as_bool().ok_or(wrong)
    }

    /// An optional non-negative integer. `3.0` counts as one: some models write every number as a float.
    pub(crate) fn number(self, name: &'static str) -> Result<Option<u64>, ArgumentError> {
        let Some(found) = self.find(name, Meaning::Plain)? else {
            return Ok(None);
        };
        let wrong = ArgumentError::WrongType {
            name,
            expected: WHOLE,
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
        let wrong = ArgumentError::WrongType {
            name,
            expected: TEXT,
        };
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
