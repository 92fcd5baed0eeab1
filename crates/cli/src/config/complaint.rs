//! What is wrong with a configuration file: the place, a snippet that points at it, and help.

use std::path::Path;

use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use super::model::Place;
use crate::exit::Failed;

/// Two keys are alike when they share this much, of 1.
const ALIKE: f64 = 0.75;

/// Something wrong at a place of the file.
pub(super) fn at(file: &Path, text: &str, place: Place, what: &str) -> Failed {
    let Place { line, column } = place;
    let name = file.display();
    let Some(shown) = line_of(text, line) else {
        return Failed::config(format!("configuration `{name}`: {what}"));
    };
    let gutter = " ".repeat(line.to_string().len());
    let indent = usize::try_from(column.saturating_sub(1)).unwrap_or_default();
    // Tabs are kept, so that the caret stands below what it points at.
    let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
    let under: String = shown.chars().take(indent).map(blank).collect();
    Failed::config(format!(
        "configuration `{name}`: line {line} column {column}: {what}\n\
         {gutter}--> {name}:{line}:{column}\n\
         {gutter} |\n\
         {line} | {shown}\n\
         {gutter} | {under}^"
    ))
}

/// A line by its number. To YAML a carriage return alone ends a line, too.
fn line_of(text: &str, number: u64) -> Option<&str> {
    let text = text.strip_suffix(['\n', '\r']).unwrap_or(text);
    let mut lines = text
        .split('\n')
        .flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'));
    lines.nth(usize::try_from(number).ok()?.checked_sub(1)?)
}

/// Something that the reader of the file found.
pub(super) fn found(file: &Path, text: &str, error: &Error) -> Failed {
    let error = error.without_snippet();
    let place = error.location().map(|location| Place::of(&location));
    let what = match error {
        Error::SerdeUnknownField { field, .. } => format!("unknown field `{field}`"),
        Error::SerdeUnknownVariant { variant, .. } => format!("unknown variant `{variant}`"),
        _ => UserMessageFormatter
            .format_message(error)
            // What only a Rust programmer would say.
            .replace("a nonzero usize", "a number from 1"),
    };
    let failed = at(file, text, place.unwrap_or_default(), &what);
    match help(error) {
        Some(help) => failed.help(help),
        None => failed,
    }
}

/// What was probably meant, or all that could be.
fn help(error: &Error) -> Option<String> {
    let (word, known) = match error {
        Error::SerdeUnknownField {
            field, expected, ..
        } => (field, expected),
        Error::SerdeUnknownVariant {
            variant, expected, ..
        } => (variant, expected),
        _ => return None,
    };
    let alike = |known: &&&str| strsim::jaro_winkler(&word.to_lowercase(), known);
    let nearest = known
        .iter()
        .max_by(|a, b| alike(a).total_cmp(&alike(b)))
        .filter(|known| alike(known) >= ALIKE);
    Some(match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("it can be {}", known.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_below_the_place_also_behind_tabs() {
        let place = Place { line: 2, column: 4 };
        let failed = at(Path::new("f"), "a\n\té x\n", place, "wrong");
        let expected =
            "configuration `f`: line 2 column 4: wrong\n --> f:2:4\n  |\n2 | \té x\n  | \t  ^";
        assert_eq!(failed.message(), expected);
    }

    #[test]
    fn lines_end_where_yaml_ends_them() {
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
    fn a_place_that_is_not_in_the_file_is_not_shown() {
        let failed = at(Path::new("f"), "a\n", Place::default(), "wrong");
        assert_eq!(failed.message(), "configuration `f`: wrong");
    }
}
