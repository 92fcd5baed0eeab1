//! The inside of JSON strings: reading escapes and writing them. Works on text whose grammar has
//! been validated; a lone surrogate has no text and yields nothing.

use std::borrow::Cow;
use std::fmt::Write;

use memchr::memchr;

use crate::specials::{BLOCK, Block, is_special, places};

/// `text` as a JSON string literal, quotes included.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_into(text, &mut out);
    out
}

/// Appends `text` to `out` as a JSON string literal.
pub fn quote_into(text: &str, out: &mut String) {
    // Room for the quotes and, mostly, for what escapes add.
    out.reserve(text.len() + text.len() / 4 + 2);
    out.push('"');
    let bytes = text.as_bytes();
    if bytes.len() < BLOCK && is_plain(bytes) {
        out.push_str(text);
        out.push('"');
        return;
    }
    let mut plain = 0;
    for start in (0..bytes.len()).step_by(BLOCK) {
        for place in places(Block::at(bytes, start).specials()) {
            let at = start + place;
            let Some(special) = bytes.get(at) else { break };
            out.push_str(&text[plain..at]);
            plain = at + 1;
            match special {
                b'"' => out.push_str("\\\""),
                b'\\' => out.push_str("\\\\"),
                b'\n' => out.push_str("\\n"),
                b'\r' => out.push_str("\\r"),
                b'\t' => out.push_str("\\t"),
                control => {
                    write!(out, "\\u{control:04x}").expect("writing to a String does not fail");
                }
            }
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// Whether no byte needs an escape. Made for short text: most names have a few words of eight bytes, and a
/// block would have to be padded first.
fn is_plain(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks();
    // The last word overlaps the one before.
    let rest_is_plain = match bytes.last_chunk() {
        Some(last) => is_plain_word(last),
        None => rest.iter().all(|byte| !is_special(*byte)),
    };
    rest_is_plain && words.iter().all(is_plain_word)
}

/// The same for eight bytes at once. A byte is below another if the subtraction sets its highest bit, which was
/// not set before; a borrow from its neighbour matters only after a byte that is below, too.
fn is_plain_word(word: &[u8; 8]) -> bool {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    let word = u64::from_ne_bytes(*word);
    let below = |word: u64, least: u8| word.wrapping_sub(EACH * u64::from(least)) & !word;
    let is = |byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    (below(word, b' ') | is(b'"') | is(b'\\')) & (EACH << 7) == 0
}

/// The length of an escape that is half of a surrogate pair.
const HALF_ESCAPE_BYTES: usize = 6;

/// The unescaped text between the quotes of a string literal; `None` if it has a lone surrogate.
pub(crate) fn unescape_bytes(body: &[u8]) -> Option<Cow<'_, [u8]>> {
    unescape(body, || None)
}

/// The same without the lone surrogates, as a reader that drops them sees it.
pub(crate) fn unescape_without_halves(body: &[u8]) -> Cow<'_, [u8]> {
    let skip = || Some(HALF_ESCAPE_BYTES);
    unescape(body, skip).unwrap_or(Cow::Borrowed(body))
}

/// `half` gives how many bytes of a lone surrogate are skipped; `None` ends the reading.
fn unescape(body: &[u8], half: impl Fn() -> Option<usize>) -> Option<Cow<'_, [u8]>> {
    let Some(first) = memchr(b'\\', body) else {
        return Some(Cow::Borrowed(body));
    };
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    let mut next = Some(first);
    while let Some(escape) = next {
        out.extend_from_slice(&rest[..escape]);
        let length = match read_escape(&rest[escape..]) {
            Some((character, length)) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                length
            }
            None => half()?,
        };
        rest = &rest[escape + length..];
        next = memchr(b'\\', rest);
    }
    out.extend_from_slice(rest);
    Some(Cow::Owned(out))
}

/// Whether a key, given with its quotes, means `name`.
pub(crate) fn key_is(key: &[u8], name: &str) -> bool {
    let body = inside(key);
    // An escape is longer than its character, so a body of this length has none or differs.
    if body.len() <= name.len() {
        return body == name.as_bytes();
    }
    // Most other keys differ in their first byte.
    let first = body.first();
    (first == Some(&b'\\') || first == name.as_bytes().first())
        && memchr(b'\\', body).is_some()
        && unescape_bytes(body).is_some_and(|key| *key == *name.as_bytes())
}

/// A string literal without its quotes.
pub(crate) fn inside(literal: &[u8]) -> &[u8] {
    literal
        .get(1..literal.len().saturating_sub(1))
        .unwrap_or(&[])
}

/// The character of the escape at the start of `text`, and the escape's length.
fn read_escape(text: &[u8]) -> Option<(char, usize)> {
    let simple = |character| Some((character, 2));
    match text.get(1)? {
        b'b' => simple('\x08'),
        b'f' => simple('\x0C'),
        b'n' => simple('\n'),
        b'r' => simple('\r'),
        b't' => simple('\t'),
        b'u' => {
            let first = code_unit(text)?;
            if let Some(character) = char::from_u32(first) {
                return Some((character, 6));
            }
            let second = code_unit(text.get(6..)?)?;
            let pair = [first as u16, second as u16];
            let character = char::decode_utf16(pair).next()?.ok()?;
            Some((character, 12))
        }
        other => simple(char::from(*other)),
    }
}

/// The code unit of a `\uXXXX` escape at the start of `text`.
fn code_unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, &digit| {
        Some(unit << 4 | char::from(digit).to_digit(16)?)
    })
}

/// The length of the string literal at the start of a validated text, quotes included, and its number of
/// unescaped characters. A lone surrogate counts as one.
pub(crate) fn measure(text: &[u8]) -> (usize, usize) {
    let mut at = 1;
    // The bytes by which escapes are longer than their one character.
    let mut surplus = 0;
    loop {
        let block = Block::at(text, at).inside();
        for place in places(block.escapes) {
            surplus += match text.get(at + place + 1..) {
                Some([b'u', digits @ ..]) => 5 + usize::from(is_pair(digits)),
                Some(_) | None => 1,
            };
        }
        if block.end < BLOCK {
            at += block.end;
            break;
        }
        at += block.length();
    }
    let inside = &text[1..at.min(text.len())];
    ((at + 1).min(text.len()), characters(inside, surplus))
}

/// The number of characters of the inside of a string whose escapes are so many bytes longer than their characters.
pub(crate) fn characters(inside: &[u8], surplus: usize) -> usize {
    let written = if inside.is_ascii() {
        inside.len()
    } else {
        std::str::from_utf8(inside).map_or(inside.len(), |inside| inside.chars().count())
    };
    written.saturating_sub(surplus)
}

/// Whether digits are the first half of a surrogate pair and the second half follows.
fn is_pair(digits: &[u8]) -> bool {
    matches!(
        digits,
        [
            b'd' | b'D',
            b'8' | b'9' | b'a' | b'b' | b'A' | b'B',
            _,
            _,
            b'\\',
            b'u',
            b'd' | b'D',
            b'c'..=b'f' | b'C'..=b'F',
            ..,
        ]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_as_they_would_be_unescaped() {
        for (raw, count) in [
            ("", 0),
            ("plain", 5),
            ("caf\u{e9} \u{1f600}", 6),
            (r"a\nb\\c", 5),
            (r"\u0041\u00e9", 2),
            (r"\ud83d\ude00!", 2),
            (r"\uD83D\uDE00\uD83D", 2),
        ] {
            let literal = format!("\"{raw}\", and more");
            assert_eq!(measure(literal.as_bytes()), (raw.len() + 2, count), "{raw}");
        }
    }

    #[test]
    fn escapes_are_read() {
        let cases: &[(&str, Option<&str>)] = &[
            ("", Some("")),
            ("plain", Some("plain")),
            (r#"\"\\\/\b\f\n\r\t"#, Some("\"\\/\u{8}\u{c}\n\r\t")),
            (r"a\u00e9b", Some("aéb")),
            (r"\ud83d\uDE00", Some("😀")),
            (r"\u0000", Some("\0")),
            (r"\ud83d", None),
            (r"\ud83dx", None),
            (r"\ud83d\n", None),
            (r"\ud83d\u0041", None),
            (r"\ude00", None),
        ];
        for (body, expected) in cases {
            let read = unescape_bytes(body.as_bytes());
            assert_eq!(read.as_deref(), expected.map(str::as_bytes), "{body}");
        }
    }

    #[test]
    fn keys_are_compared_after_unescaping() {
        let cases = [
            (r#""name""#, "name", true),
            (r#""n\u0061me""#, "name", true),
            (r#""names""#, "name", false),
            (r#""nam""#, "name", false),
            (r#""Name""#, "name", false),
            (r#""\ud800""#, "name", false),
            (r#""""#, "", true),
            (r#""a\\b""#, "a\\b", true),
        ];
        for (key, name, expected) in cases {
            assert_eq!(key_is(key.as_bytes(), name), expected, "{key} {name}");
        }
    }

    #[test]
    fn characters_needing_escapes_are_found_at_every_position() {
        for length in 1..=BLOCK {
            for at in 0..length {
                for character in ['"', '\\', '\n', '\u{1f}', ' ', '!', '#', '[', ']', '\u{7f}'] {
                    let mut text = "x".repeat(length);
                    text.replace_range(at..=at, character.encode_utf8(&mut [0; 4]));
                    let expected = !is_special(character as u8);
                    assert_eq!(is_plain(text.as_bytes()), expected, "{text:?}");
                }
            }
        }
        assert!(is_plain("é😀 ÿÿÿÿÿÿÿÿÿ\u{80}\u{a2}".as_bytes()));
    }

    #[test]
    fn quoting_escapes_special_characters() {
        assert_eq!(quote("a\"b\\c\n\u{1}é"), "\"a\\\"b\\\\c\\n\\u0001é\"");
    }
}
