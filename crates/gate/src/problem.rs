//! What is wrong with a file that people write, policy or configuration: the place, a snippet that
//! points at it, and help.

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

/// Something wrong at a place of a file.
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
    /// Where the reader of a file saw something.
    pub fn of(location: &Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

impl Problem {
    /// Something wrong at a place.
    pub fn at(place: Place, what: impl Into<String>) -> Self {
        Self {
            place,
            what: what.into(),
            help: None,
        }
    }

    /// The same, with what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// What the reader of the file found.
    pub fn found(error: &Error) -> Self {
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
                UserMessageFormatter
                    .format_message(error)
                    // What only a Rust programmer would say.
                    .replace("a nonzero usize", "a number from 1"),
                None,
            ),
        };
        Self {
            place: place.unwrap_or_default(),
            what,
            help,
        }
    }

    /// The problem with the sort and the name of the file, its place and the line that it is about.
    pub fn shown(&self, sort: &str, file: &str, text: &str) -> String {
        let Place { line, column } = self.place;
        let what = &self.what;
        let Some(written) = line_of(text, line) else {
            return format!("{sort} `{file}`: {what}");
        };
        let gutter = " ".repeat(line.to_string().len());
        let indent = usize::try_from(column.saturating_sub(1)).unwrap_or_default();
        // Tabs are kept, so that the caret stands below what it points at.
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        let under: String = written.chars().take(indent).map(blank).collect();
        format!(
            "{sort} `{file}`: line {line} column {column}: {what}\n\
             {gutter}--> {file}:{line}:{column}\n\
             {gutter} |\n\
             {line} | {written}\n\
             {gutter} | {under}^"
        )
    }
}

/// A line by its number. To YAML a carriage return alone ends a line, too.
fn line_of(text: &str, number: u64) -> Option<&str> {
    let text = text.strip_suffix(['\n', '\r']).unwrap_or(text);
    let mut lines = text
        .split('\n')
        .flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'));
    lines.nth(usize::try_from(number).ok()?.checked_sub(1)?)
}

/// What was probably meant, or all that could be.
pub(crate) fn nearest(word: &str, known: &[&str]) -> String {
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
    fn the_caret_points_at_the_column_of_the_problem() {
        let place = Place { line: 2, column: 4 };
        let problem = Problem::at(place, "wrong");
        let expected = "policy `f`: line 2 column 4: wrong\n --> f:2:4\n  |\n2 | \té x\n  | \t  ^";
        assert_eq!(problem.shown("policy", "f", "a\n\té x\n"), expected);
        let nowhere = Problem::at(Place::default(), "wrong");
        assert_eq!(nowhere.shown("policy", "f", "a\n"), "policy `f`: wrong");
    }

    #[test]
    fn line_endings_are_those_of_yaml() {
        let text = "a\r\nb\rc\r\r\nd\n";
        let lines: Vec<_> = (0..7).map(|number| line_of(text, number)).collect();
        let expected = [
            None,
            Some("a"),
            Some("b"),
            Some("c"),
            Some(""),
            Some("d"),
            None,
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_typo_gets_a_suggestion() {
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
