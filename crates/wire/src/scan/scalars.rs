//! Strings, numbers and literals of the pass.

use crate::scan::scanner::Scanner;
use crate::scan::{LONG_STRING_BYTES, ScanError};
use crate::specials::{BLOCK, Block, places};

impl Scanner<'_> {
    /// Reads a string, quotes included; true when it holds an escape.
    pub(super) fn string(&mut self) -> Result<bool, ScanError> {
        let text = self.text;
        let mut at = self.at + 1;
        let mut escaped = false;
        let mut surplus = 0;
        let mut has_rare_escapes = false;
        'blocks: loop {
            let block = Block::at(text, at).inside();
            escaped |= block.escapes != 0;
            for place in places(block.escapes) {
                match usual_surplus(text, at + place) {
                    Some(bytes) => surplus += bytes,
                    None => {
                        has_rare_escapes = true;
                        at = self.rare_escape(at + place)?;
                        continue 'blocks;
                    }
                }
            }
            if block.end < BLOCK {
                at += block.end;
                break;
            }
            at += block.length();
        }
        let start = std::mem::replace(&mut self.at, at);
        if self.peek()? != b'"' {
            return Err(ScanError::ControlCharacter { at });
        }
        self.at += 1;
        if self.at - start >= LONG_STRING_BYTES && !has_rare_escapes {
            self.note_long_string(start, surplus);
        }
        Ok(escaped)
    }

    /// Reads an escape that is half of a surrogate pair, or invalid; returns its end.
    #[inline(never)]
    fn rare_escape(&mut self, start: usize) -> Result<usize, ScanError> {
        self.at = start + 1;
        if self.peek()? != b'u' {
            return Err(self.unexpected());
        }
        let unit = self.unicode_escape()?;
        if (0xD800..0xE000).contains(&unit) && self.refuses_lone_surrogates() {
            self.second_half(unit, start)?;
        }
        Ok(self.at)
    }

    /// Behind a surrogate: it must be a leading one, and a trailing one must follow.
    fn second_half(&mut self, unit: u32, start: usize) -> Result<(), ScanError> {
        let lone = ScanError::LoneSurrogate { at: start };
        if unit >= 0xDC00 || !self.text[self.at..].starts_with(b"\\u") {
            return Err(lone);
        }
        self.at += 1;
        let second = self.unicode_escape()?;
        if (0xDC00..0xE000).contains(&second) {
            Ok(())
        } else {
            Err(lone)
        }
    }

    /// Reads `u` and four hexadecimal digits.
    fn unicode_escape(&mut self) -> Result<u32, ScanError> {
        self.at += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let digit = char::from(self.peek()?).to_digit(16);
            unit = unit << 4 | digit.ok_or_else(|| self.unexpected())?;
            self.at += 1;
        }
        Ok(unit)
    }

    pub(super) fn number(&mut self) -> Result<(), ScanError> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        if self.peek()? == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let b'+' | b'-' = self.peek()? {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Reads one digit or more.
    fn digits(&mut self) -> Result<(), ScanError> {
        if !self.peek()?.is_ascii_digit() {
            return Err(self.unexpected());
        }
        let rest = &self.text[self.at..];
        self.at += rest
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(rest.len());
        Ok(())
    }

    pub(super) fn literal(&mut self, word: &[u8]) -> Result<(), ScanError> {
        for expected in word {
            if self.peek()? != *expected {
                return Err(self.unexpected());
            }
            self.at += 1;
        }
        Ok(())
    }
}

/// A byte that is an escape together with the backslash before it.
const SIMPLE: u8 = 1;
const DIGIT: u8 = 2;

/// The roles of each byte in an escape.
static ROLES: [u8; 256] = {
    let mut roles = [0; 256];
    let mut byte = 0;
    while byte < roles.len() {
        if matches!(
            byte as u8,
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't'
        ) {
            roles[byte] |= SIMPLE;
        }
        if (byte as u8).is_ascii_hexdigit() {
            roles[byte] |= DIGIT;
        }
        byte += 1;
    }
    roles
};

/// By how many bytes the escape at `at` is longer than one; `None` if it is not a character by itself.
#[inline]
fn usual_surplus(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at + 1..) {
        Some([simple, ..]) if ROLES[usize::from(*simple)] & SIMPLE != 0 => Some(1),
        Some([b'u', a, b, c, d, ..]) if is_character([*a, *b, *c, *d]) => Some(5),
        Some(_) | None => None,
    }
}

/// Whether four digits are a character, and not half of a surrogate pair.
fn is_character(digits: [u8; 4]) -> bool {
    let is_half = matches!(
        digits,
        [b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', ..]
    );
    let [a, b, c, d] = digits.map(|digit| ROLES[usize::from(digit)]);
    !is_half && a & b & c & d & DIGIT != 0
}
