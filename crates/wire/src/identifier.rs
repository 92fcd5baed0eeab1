//! Splits identifiers into words: `deleteAll_files2` is delete, all, files, 2.

use std::borrow::Cow;

/// The words of an identifier or a text, in lower case and in order.
pub fn words(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    Words { rest: text }.map(lower_case)
}

/// Iterates over the words in their original case.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let start = self.rest.find(char::is_alphanumeric)?;
        let text = &self.rest[start..];
        let mut chars = text.char_indices().peekable();
        let (_, mut previous) = chars.next()?;
        while let Some((at, c)) = chars.next() {
            // The last capital of a run belongs to the word that follows it: `DBDrop` is db, drop.
            let ends_capitals = previous.is_uppercase()
                && chars.peek().is_some_and(|(_, next)| next.is_lowercase());
            let ends = !c.is_alphanumeric()
                || (c.is_uppercase() && (previous.is_lowercase() || ends_capitals))
                || c.is_numeric() != previous.is_numeric();
            if ends {
                self.rest = &text[at..];
                return Some(&text[..at]);
            }
            previous = c;
        }
        self.rest = "";
        Some(text)
    }
}

fn lower_case(word: &str) -> Cow<'_, str> {
    let is_lower = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if word.as_bytes().iter().all(is_lower) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(word.chars().flat_map(char::to_lowercase).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split_into_words() {
        let cases = [
            ("deleteAll_files2", "delete all files 2"),
            ("list_all-files", "list all files"),
            ("listAllFiles2", "list all files 2"),
            ("HTTPGetURL", "http get url"),
            ("HTTPGet", "http get"),
            ("DBDrop", "db drop"),
            ("DELETE", "delete"),
            ("DROP_TABLE", "drop table"),
            ("undeleteDropdown", "undelete dropdown"),
            ("v2Search.users/by id", "v 2 search users by id"),
            ("Größe ändern", "größe ändern"),
            ("ÄNDERNAlles", "ändern alles"),
            ("  ", ""),
            ("", ""),
        ];
        for (text, expected) in cases {
            let words: Vec<_> = words(text).collect();
            assert_eq!(words.join(" "), expected, "{text}");
        }
    }
}
