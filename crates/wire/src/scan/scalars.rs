//! Strings, numbers and literals of the pass.

use crate::scan::ScanError;
use crate::scan::scanner::Scanner;

impl Scanner<'_> {
    /// Reads a string, quotes included; true when it holds an escape.
    pub(super) fn string(&mut self) -> Result<bool, ScanError> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.at = self.specials.next(self.at);
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(escaped);
                }
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(ScanError::ControlCharacter { at: self.at }),
            }
        }
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        self.at += 1;
        match self.peek()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
            b'u' => {
                let unit = self.unicode_escape()?;
                if self.is_strict_here() && (0xD800..0xE000).contains(&unit) {
                    self.second_half(unit, start)?;
                }
            }
            _ => return Err(self.unexpected()),
        }
        Ok(())
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
