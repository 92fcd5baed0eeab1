//! Values after a name: where they begin, where they end, and what replaces them.

use std::ops::Range;

use super::{REPLACEMENT, Secret};

/// How a name and its value are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    Colon,
    Equals,
    /// As the beginning and the content of an element.
    Element,
    Space,
}

/// A name that ends at `end`, and where its value begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Assignment {
    pub(super) join: Join,
    pub(super) quoted_name: bool,
    pub(super) start: usize,
}

/// What is assigned to the name that ends at `end`.
pub(super) fn assigned(bytes: &[u8], end: usize) -> Option<Assignment> {
    let slashes = run_of_backslashes(bytes, end);
    let quoted_name = matches!(bytes.get(end + slashes), Some(b'"' | b'\''));
    let at = if quoted_name { end + slashes + 1 } else { end };
    if !quoted_name && bytes.get(at) == Some(&b'>') {
        return Some(Assignment {
            join: Join::Element,
            quoted_name,
            start: at + 1,
        });
    }
    let sign = gap_end(bytes, at);
    let (join, after) = match bytes.get(sign)? {
        b':' => (Join::Colon, sign + 1),
        b'=' => (Join::Equals, sign + 1),
        b'%' => (encoded(bytes, sign)?, sign + 3),
        b'\\' => (
            escaped(bytes, sign)?,
            sign + run_of_backslashes(bytes, sign) + 5,
        ),
        _ if sign > at || (quoted_name && bytes.get(sign) == Some(&b',')) => {
            return Some(Assignment {
                join: Join::Space,
                quoted_name,
                start: next_word(bytes, sign),
            });
        }
        _ => return None,
    };
    // `:=`, `==` and `=>` assign as well.
    let after = match bytes.get(after) {
        Some(b'=') => after + 1,
        Some(b'>') if join == Join::Equals => after + 1,
        _ => after,
    };
    Some(Assignment {
        join,
        quoted_name,
        start: gap_end(bytes, after),
    })
}

/// `=` or `:` in a percent encoding.
fn encoded(bytes: &[u8], at: usize) -> Option<Join> {
    match bytes.get(at..at + 3)? {
        b"%3D" | b"%3d" => Some(Join::Equals),
        b"%3A" | b"%3a" => Some(Join::Colon),
        _ => None,
    }
}

/// `=` as some writers of JSON escape it.
fn escaped(bytes: &[u8], at: usize) -> Option<Join> {
    let at = at + run_of_backslashes(bytes, at);
    let code = bytes.get(at..at + 5)?;
    code.eq_ignore_ascii_case(b"u003d").then_some(Join::Equals)
}

/// Where the next word begins: behind space, or behind the end of one string and the beginning of the next.
fn next_word(bytes: &[u8], at: usize) -> usize {
    let mut next = gap_end(bytes, at);
    if bytes.get(next) == Some(&b',') {
        next = gap_end(bytes, next + 1);
    }
    next
}

/// Space, in as many escapings as there are.
pub(super) fn gap_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at) {
            Some(b' ' | b'\t' | b'\r' | b'\n') => at += 1,
            Some(b'\\') => {
                let letter = at + run_of_backslashes(bytes, at);
                if !matches!(bytes.get(letter), Some(b'n' | b'r' | b't')) {
                    return at;
                }
                at = letter + 1;
            }
            _ => return at,
        }
    }
}

/// The value that begins at `start`.
pub(super) fn value(text: &str, start: usize, quoted_name: bool) -> Option<Secret> {
    let bytes = text.as_bytes();
    let slashes = run_of_backslashes(bytes, start);
    let quote = bytes
        .get(start + slashes)
        .copied()
        .filter(|byte| matches!(byte, b'"' | b'\''));
    if let Some(quote) = quote {
        let from = start + slashes + 1;
        return Secret::at(from..quoted_end(bytes, from, quote, slashes));
    }
    let range = start..bare_end(bytes, start);
    if range.is_empty() {
        return None;
    }
    if !quoted_name {
        return Secret::at(range);
    }
    // A member whose value has no quotes: `true`, `false` and `null` reveal nothing, and a number becomes a string, so
    // that the body stays JSON.
    let name_slashes = text[..start]
        .rfind(['"', '\''])
        .map_or(0, |at| backslashes_before(bytes, at));
    let quote = format!("{}\"", "\\".repeat(name_slashes));
    match &text[range.clone()] {
        "true" | "false" | "null" => None,
        word if word.parse::<f64>().is_ok() => Some(Secret {
            range,
            replacement: format!("{quote}{REPLACEMENT}{quote}"),
        }),
        _ => Secret::at(range),
    }
}

/// Where a line ends, in as many escapings as there are; quotes end it, too.
pub(super) fn line_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\n' | b'\r' | b'"' | b'\'' => break,
            b'\\' => {
                let letter = at + run_of_backslashes(bytes, at);
                match bytes.get(letter) {
                    Some(b'n' | b'r' | b'"' | b'\'') | None => break,
                    Some(_) => at = letter + 1,
                }
            }
            _ => at += 1,
        }
    }
    while at > start && bytes[at - 1] == b' ' {
        at -= 1;
    }
    at
}

/// Where the quoted value ends that was opened by a quote behind `slashes` backslashes.
fn quoted_end(bytes: &[u8], from: usize, quote: u8, slashes: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        let run = run_of_backslashes(bytes, at);
        let next = at + run;
        match bytes.get(next) {
            Some(&byte) if byte == quote && closes(run, slashes) => {
                // The closing quote's own backslashes stay; the rest of the run is content.
                return next - run.min(slashes);
            }
            // An unescaped `"` ends the JSON string that the single-quoted value is in.
            Some(b'"') if quote == b'\'' && run == 0 => return next,
            Some(_) => at = next + 1,
            // No closing quote: the cap cut the value, and all the rest belongs to it.
            None => return bytes.len(),
        }
    }
    bytes.len()
}

/// Whether a quote behind `run` backslashes ends a string that was opened by one behind `opened`:
/// each level of escaping doubles the run and adds one.
fn closes(mut run: usize, mut opened: usize) -> bool {
    while opened > 0 {
        if run.is_multiple_of(2) {
            return true;
        }
        run = (run - 1) / 2;
        opened = (opened - 1) / 2;
    }
    run.is_multiple_of(2)
}

/// Where a value without quotes ends.
pub(super) fn bare_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            // Some JSON writers escape `/`, which is a digit of base 64.
            b'\\' => match bytes.get(at + run_of_backslashes(bytes, at)) {
                Some(b'/') => at += run_of_backslashes(bytes, at) + 1,
                _ => break,
            },
            b'"' | b'\'' | b'&' | b',' | b';' | b'<' | b'>' | b'(' | b')' | b'{' | b'}' | b'['
            | b']' => break,
            byte if byte.is_ascii_whitespace() => break,
            _ => at += 1,
        }
    }
    at
}

pub(super) fn run_of_backslashes(bytes: &[u8], at: usize) -> usize {
    bytes[at.min(bytes.len())..]
        .iter()
        .take_while(|byte| **byte == b'\\')
        .count()
}

pub(super) fn backslashes_before(bytes: &[u8], at: usize) -> usize {
    bytes[..at]
        .iter()
        .rev()
        .take_while(|byte| **byte == b'\\')
        .count()
}

/// Whether a word has letters and digits, as random ones do and names seldom do.
pub(super) fn looks_random(word: &[u8]) -> bool {
    word.iter().any(u8::is_ascii_digit) && word.iter().any(u8::is_ascii_alphabetic)
}

/// The range of a secret without the text around it.
pub(super) fn length(range: &Range<usize>) -> usize {
    range.end.saturating_sub(range.start)
}
