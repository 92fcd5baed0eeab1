//! What is wrong with a policy file: the place, a snippet that points at it, and help.

use serde_saphyr::{Error, Location, MessageFormatter, UserMessageFormatter};

/// Two keys are alike when they share this much, of 1.
const ALIKE: f64 = 0.75;

/// A line and a column of a file, counted from one; zero where they are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

/// Something wrong at a place of a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub place: Place,
    /// What is wrong, lower case and without a full stop.
    pub what: String,
    /// What to do about it, where that is known.
    pub help: Option<String>,
}

impl Place {
    pub(super) fn of(location: &Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

impl Problem {
    pub(super) fn at(place: Place, what: impl Into<String>) -> Self {
        Self {
            place,
            what: what.into(),
            help: None,
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// What the reader of the file found.
    pub(super) fn found(error: &Error) -> Self {
        let error = error.without_snippet();
        let place = error.location().map(|location| Place::of(&location));
        let (what, help) = match error {
            Error::SerdeUnknownField {
                field, expected, ..
            } => (
                format!("unknown field `{field}`"),
                Some(nearest(field, expected)),
            ),
            Error::SerdeUnknownVariant {
                variant, expected, ..
            } => (
                format!("unknown variant `{variant}`"),
                Some(nearest(variant, expected)),
            ),
            _ => (
                UserMessageFormatter.format_message(error).into_owned(),
                None,
            ),
        };
        Self {
            place: place.unwrap_or_default(),
            what,
            help,
        }
    }

    /// The problem with the file's name, its place and the line that it is about.
    pub fn shown(&self, file: &str, text: &str) -> String {
        let Place { line, column } = self.place;
        let what = &self.what;
        let written = usize::try_from(line)
            .ok()
            .and_then(|line| text.lines().nth(line.checked_sub(1)?));
        let Some(written) = written else {
            return format!("policy `{file}`: {what}");
        };
        let gutter = " ".repeat(line.to_string().len());
        let indent = usize::try_from(column.saturating_sub(1)).unwrap_or_default();
        // Tabs are kept, so that the caret stands below what it points at.
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        let under: String = written.chars().take(indent).map(blank).collect();
        format!(
            "policy `{file}`: line {line} column {column}: {what}\n\
             {gutter}--> {file}:{line}:{column}\n\
             {gutter} |\n\
             {line} | {written}\n\
             {gutter} | {under}^"
        )
    }
}

/// What was probably meant, or all that could be.
pub(super) fn nearest(word: &str, known: &[&str]) -> String {
    let alike = |known: &&&str| strsim::jaro_winkler(&word.to_lowercase(), known);
    let nearest = known
        .iter()
        .max_by(|a, b| alike(a).total_cmp(&alike(b)))
        .filter(|known| alike(known) >= ALIKE);
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("it can be {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_below_the_place() {
        let place = Place { line: 2, column: 3 };
        let problem = Problem::at(place, "wrong");
        let expected = "policy `f`: line 2 column 3: wrong\n --> f:2:3\n  |\n2 | \té\n  | \t ^";
        assert_eq!(problem.shown("f", "a\n\té\n"), expected);
        let nowhere = Problem::at(Place::default(), "wrong");
        assert_eq!(nowhere.shown("f", "a\n"), "policy `f`: wrong");
    }

    #[test]
    fn a_typo_gets_the_word_that_was_meant() {
        assert_eq!(
            nearest("patern", &["pattern", "paths"]),
            "did you mean `pattern`?"
        );
        assert_eq!(
            nearest("zz", &["pattern", "paths"]),
            "it can be pattern, paths"
        );
    }
}
