//! That a place which a refusal names is one of the text that was refused.

/// Checks a line and a column, counted from one; behind the last letter of a line is in it, too.
pub(crate) fn check(text: &str, line: u64, column: u64, said: &str) {
    // To YAML a carriage return alone ends a line.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let at = line.checked_sub(1).and_then(|at| usize::try_from(at).ok());
    let found = at.and_then(|at| text.split('\n').nth(at));
    let found = found.unwrap_or_else(|| panic!("line {line} is not in the file: {said}"));
    let columns = 1..=found.chars().count() as u64 + 1;
    assert!(
        columns.contains(&column),
        "column {column} is not in the line: {said}"
    );
}
