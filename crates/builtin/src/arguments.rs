//! Arguments as a model sends them: looked up under each of their spellings and checked for their type.
//! What nobody knows is passed over.

use std::borrow::Cow;

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
}

const TEXT: &str = "a string";
const FLAG: &str = "true or false";
const WHOLE: &str = "a whole number that is not negative";

/// One argument: the name it is known by, and another that some hosts use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key(pub(crate) &'static str, pub(crate) Option<&'static str>);

/// The arguments of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arguments<'a>(Option<Json<'a>>);

impl<'a> Arguments<'a> {
    /// Takes the arguments of a call; none at all are an empty object.
    pub(crate) fn new(arguments: Option<Json<'a>>) -> Result<Self, ArgumentError> {
        match arguments {
            Some(json) if json.is_null() => Ok(Self(None)),
            Some(json) if !json.is_object() => Err(ArgumentError::NotAnObject),
            arguments => Ok(Self(arguments)),
        }
    }

    /// A string that has to be there.
    pub(crate) fn text(self, key: Key) -> Result<Cow<'a, str>, ArgumentError> {
        self.optional_text(key)?
            .ok_or(ArgumentError::Missing(key.0))
    }

    /// A string that may be left out.
    pub(crate) fn optional_text(self, key: Key) -> Result<Option<Cow<'a, str>>, ArgumentError> {
        let name = key.0;
        let Some(found) = self.find(key)? else {
            return Ok(None);
        };
        let wrong = ArgumentError::WrongType { name, wanted: TEXT };
        found.as_str().map(Some).ok_or(wrong)
    }

    /// A flag; `false` when it is left out.
    pub(crate) fn flag(self, name: &'static str) -> Result<bool, ArgumentError> {
        let Some(found) = self.find(Key(name, None))? else {
            return Ok(false);
        };
        let wrong = ArgumentError::WrongType { name, wanted: FLAG };
        found.as_bool().ok_or(wrong)
    }

    /// A whole number that may be left out. `3.0` is one: some models write all numbers so.
    pub(crate) fn number(self, name: &'static str) -> Result<Option<u64>, ArgumentError> {
        let Some(found) = self.find(Key(name, None))? else {
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

    fn find(self, Key(name, other): Key) -> Result<Option<Json<'a>>, ArgumentError> {
        let get = |name| {
            self.0?
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

    const PATH: Key = Key("path", Some("file_path"));

    fn with<T>(text: &str, look: impl Fn(Arguments<'_>) -> T) -> T {
        let json = Json::validate(text.as_bytes(), Strictness::Full).unwrap();
        look(Arguments::new(Some(json)).unwrap())
    }

    #[test]
    fn both_spellings_are_one_argument() {
        let path = |text| with(text, |all| all.text(PATH).map(Cow::into_owned));
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
    fn numbers_are_whole_and_not_negative() {
        let number = |text: &str| with(&format!(r#"{{"n":{text}}}"#), |all| all.number("n").ok());
        assert_eq!(number("7"), Some(Some(7)));
        assert_eq!(number("7.0"), Some(Some(7)));
        assert_eq!(number("null"), Some(None));
        for wrong in ["-1", "1.5", "1e3", "\"7\"", "true", "99999999999999999999"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_objects_are_arguments() {
        for text in ["[]", "3", "\"a\"", "true"] {
            let json = Json::validate(text.as_bytes(), Strictness::Full).unwrap();
            assert_eq!(
                Arguments::new(Some(json)).err(),
                Some(ArgumentError::NotAnObject),
                "{text}"
            );
        }
        assert!(Arguments::new(None).is_ok());
    }
}
