//! Literal search and replacement in which a line feed also stands for the CRLF of the file.
//!
//! Models see lines and write `\n`. A text with a carriage return of its own is matched byte for byte.

use std::ops::Range;

use memchr::{memchr, memmem, memrchr};

/// The places of `old` in `text`, which do not overlap.
pub(super) fn find(text: &[u8], old: &[u8]) -> Vec<Range<usize>> {
    let is_flexible = old.contains(&b'\n') && !old.contains(&b'\r') && has_crlf(text);
    if !is_flexible {
        let places = memmem::find_iter(text, old);
        return places.map(|at| at..at + old.len()).collect();
    }
    let unified = Unified::of(text);
    memmem::find_iter(&unified.text, old)
        .map(|at| unified.original(at)..unified.original(at + old.len()))
        .collect()
}

/// `text` with `new` at each of the `places`. Its line feeds become the line ends of the text that they replace.
pub(super) fn replace(text: &[u8], places: &[Range<usize>], new: &[u8]) -> Vec<u8> {
    let with_crlf = (new.contains(&b'\n') && !new.contains(&b'\r')).then(|| to_crlf(new));
    let mut after = Vec::with_capacity(text.len() + places.len() * new.len());
    let mut from = 0;
    for place in places {
        after.extend_from_slice(&text[from..place.start]);
        match &with_crlf {
            Some(with_crlf) if uses_crlf(text, place) => after.extend_from_slice(with_crlf),
            Some(_) | None => after.extend_from_slice(new),
        }
        from = place.end;
    }
    after.extend_from_slice(&text[from..]);
    after
}

/// A text with `\n` for every `\r\n`.
struct Unified {
    text: Vec<u8>,
    /// Where a `\r` was left out, as offsets into the unified text, in order.
    removed: Vec<usize>,
}

impl Unified {
    fn of(text: &[u8]) -> Self {
        let mut unified = Self {
            text: Vec::with_capacity(text.len()),
            removed: Vec::new(),
        };
        let mut from = 0;
        for at in memmem::find_iter(text, b"\r\n") {
            unified.text.extend_from_slice(&text[from..at]);
            unified.removed.push(unified.text.len());
            from = at + 1;
        }
        unified.text.extend_from_slice(&text[from..]);
        unified
    }

    /// The offset in the original text. A line feed stands where its `\r` stood.
    fn original(&self, at: usize) -> usize {
        at + self.removed.partition_point(|removed| *removed < at)
    }
}

fn has_crlf(text: &[u8]) -> bool {
    memmem::find(text, b"\r\n").is_some()
}

/// Whether the first line end of the replaced text is CRLF; without one, the next line end after it, else the last before.
fn uses_crlf(text: &[u8], place: &Range<usize>) -> bool {
    let next = memchr(b'\n', &text[place.start..]).map(|at| place.start + at);
    let at = next.or_else(|| memrchr(b'\n', &text[..place.start]));
    at.is_some_and(|at| at > 0 && text[at - 1] == b'\r')
}

fn to_crlf(text: &[u8]) -> Vec<u8> {
    let mut with = Vec::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(line) => with.extend_from_slice(&[line, b"\r\n"].concat()),
            None => with.extend_from_slice(line),
        }
    }
    with
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edited(text: &str, old: &str, new: &str) -> String {
        let places = find(text.as_bytes(), old.as_bytes());
        String::from_utf8(replace(text.as_bytes(), &places, new.as_bytes())).unwrap()
    }

    #[test]
    fn a_line_feed_matches_crlf_and_the_file_keeps_its_line_ends() {
        let cases = [
            // text, old, new, edited
            ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
            ("a\r\nb\r\n", "b\n", "x\n", "a\r\nx\r\n"),
            ("a\r\nb\r\n", "\nb", "\nx", "a\r\nx\r\n"),
            ("a\r\nb", "b", "x\ny", "a\r\nx\r\ny"),
            ("a\r\nb\r\n", "a", "x\ny", "x\r\ny\r\nb\r\n"),
            ("a\nb\n", "a\nb", "x\ny", "x\ny\n"),
            ("a\nb", "b", "x\ny", "a\nx\ny"),
            ("a", "a", "x\ny", "x\ny"),
            // Mixed line ends: each place keeps its own.
            ("a\r\nb\na\nb\n", "a\nb", "x\ny", "x\r\ny\nx\ny\n"),
            // Carriage returns in `old` or `new` are meant.
            ("a\r\nb\r\n", "a\r\nb", "x\ny", "x\r\ny\r\n"),
            ("a\r\nb\r\n", "a\nb", "x\r\ny", "x\r\ny\r\n"),
            ("a\rb\r\n", "a\nb", "x", "a\rb\r\n"),
            ("\r\n\r\n", "\n\n", "\n", "\r\n"),
            ("a\r\r\nb", "\nb", "x", "a\rx"),
        ];
        for (text, old, new, expected) in cases {
            assert_eq!(edited(text, old, new), expected, "{text:?} {old:?} {new:?}");
        }
    }

    proptest! {
        /// With one kind of line end, editing is the same as editing with line feeds alone and converting afterwards.
        #[test]
        fn edits_of_crlf_files_equal_converted_edits_of_lf_files(
            text in "[ab\n]{0,24}", old in "[ab\n]{1,4}", new in "[ab\n]{0,4}",
        ) {
            let crlf = |text: &str| text.replace('\n', "\r\n");
            // Without a line end in the file there is nothing to keep.
            prop_assume!(text.contains('\n'));
            prop_assert_eq!(edited(&crlf(&text), &old, &new), crlf(&edited(&text, &old, &new)));
        }
    }
}
