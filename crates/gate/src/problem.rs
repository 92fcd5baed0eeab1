//! Problems in a file that people write, policy or configuration: position, snippet and help.

use serde_saphyr::{Error, Location, MessageFormatter, UserMessageFormatter};

/// The Jaro-Winkler similarity from which a key is suggested.
const ALIKE: f64 = 0.75;

/// A line and a column, counted from one; zero where unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Place {
    pub line: u64,
    pub column: u64,
}

/// A problem at a position in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub place: Place,
    /// The problem, in lower case and without a full stop.
    pub what: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Place {
    /// The place of a parser's location.
    pub fn of(location: &Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

impl Problem {
    /// A problem without help.
    pub fn at(place: Place, what: impl Into<String>) -> Self {
        Self {
            place,
            what: what.into(),
            help: None,
        }
    }

    /// Adds what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Converts an error of the YAML parser.
    pub fn found(error: &Error) -> Self {
        // `shown` prints its own snippet, in one form for policies and configuration.
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
                    // serde names Rust types, which mean nothing to the author of a file.
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
        // Tabs are kept, so that the caret is aligned with the text above it.
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

/// A line by its number. In YAML a lone carriage return ends a line too.
fn line_of(text: &str, number: u64) -> Option<&str> {
    let text = text.strip_suffix(['\n', '\r']).unwrap_or(text);
    let mut lines = text
        .split('\n')
        .flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'));
    lines.nth(usize::try_from(number).ok()?.checked_sub(1)?)
}

/// The most similar known word as a suggestion, or all known words.
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
