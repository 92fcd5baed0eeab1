//! Untrusted text made safe for display: nothing in it is hidden, reordered or interpreted by a terminal.
//!
//! An approver must see what a call really contains. Characters that are invisible, reorder others or
//! control a terminal are escaped as `⟨U+202E⟩`. The brackets of the escape are escaped too, so no text
//! can imitate an escaped character.

mod edits;
mod json;
mod summary;

pub use edits::{DiffLine, FileEdit, file_edits};
pub use json::visible_json;
pub use summary::summary;

/// Ranges of characters that are always escaped. Spaces other than the plain one are included, because
/// arguments that look equal must be equal.
const HIDDEN: [(char, char); 27] = [
    ('\u{0}', '\u{1f}'),
    ('\u{7f}', '\u{a0}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2000}', '\u{200f}'),
    ('\u{2028}', '\u{202f}'),
    ('\u{205f}', '\u{206f}'),
    // The brackets of the escape itself.
    ('\u{27e8}', '\u{27e9}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{3164}', '\u{3164}'),
    // Private use: what these show depends on the font.
    ('\u{e000}', '\u{f8ff}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{fffe}', '\u{ffff}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
    ('\u{f0000}', '\u{10ffff}'),
];

/// A run of visible text, or one hidden character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'t> {
    Plain(&'t str),
    /// Invisible, reorders its neighbours, or controls a terminal.
    Hidden(char),
}

/// The treatment of line breaks and tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// They are layout and stay.
    Lines,
    /// They are escaped like hidden characters: the text stays on one line.
    OneLine,
}

/// Splits a text into visible runs and hidden characters.
pub fn pieces(text: &str, layout: Layout) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut plain_from = 0;
    for (at, c) in text.char_indices() {
        if !is_hidden(c, layout) {
            continue;
        }
        if plain_from < at {
            pieces.push(Piece::Plain(&text[plain_from..at]));
        }
        pieces.push(Piece::Hidden(c));
        plain_from = at + c.len_utf8();
    }
    if plain_from < text.len() {
        pieces.push(Piece::Plain(&text[plain_from..]));
    }
    pieces
}

/// The text with hidden characters escaped.
pub fn visible(text: &str, layout: Layout) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text, layout) {
        match piece {
            Piece::Plain(plain) => out.push_str(plain),
            Piece::Hidden(c) => out.push_str(&mark(c)),
        }
    }
    out
}

/// The escape of a hidden character.
pub fn mark(c: char) -> String {
    format!("⟨U+{:04X}⟩", u32::from(c))
}

/// Whether a character is visible in any position.
pub(crate) fn is_visible(c: char) -> bool {
    !is_hidden(c, Layout::OneLine)
}

fn is_hidden(c: char, layout: Layout) -> bool {
    match (c, layout) {
        // A fast path for printable ASCII.
        (' '..='~', _) => false,
        ('\n' | '\t', Layout::Lines) => false,
        _ => HIDDEN
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        visible(text, Layout::OneLine)
    }

    #[test]
    fn invisible_characters_are_escaped() {
        let cases = [
            (
                "plain, naïve, 日本語, 🎉, مرحبا",
                "plain, naïve, 日本語, 🎉, مرحبا",
            ),
            ("a\u{202e}b", "a⟨U+202E⟩b"),
            ("a\u{2066}b\u{2069}", "a⟨U+2066⟩b⟨U+2069⟩"),
            ("zero\u{200b}width\u{feff}", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
            ("tag\u{e0041}", "tag⟨U+E0041⟩"),
            ("\u{1b}[31mred", "⟨U+001B⟩[31mred"),
            ("c1\u{9b}31m", "c1⟨U+009B⟩31m"),
            ("bell\u{7}del\u{7f}", "bell⟨U+0007⟩del⟨U+007F⟩"),
            ("soft\u{ad}hyphen", "soft⟨U+00AD⟩hyphen"),
            ("no\u{a0}break", "no⟨U+00A0⟩break"),
            ("filler\u{3164}", "filler⟨U+3164⟩"),
            ("selector\u{fe0f}", "selector⟨U+FE0F⟩"),
            ("⟨U+202E⟩", "⟨U+27E8⟩U+202E⟨U+27E9⟩"),
        ];
        for (text, expected) in cases {
            assert_eq!(line(text), expected, "{text:?}");
        }
    }

    #[test]
    fn line_breaks_are_escaped_outside_multi_line_layout() {
        assert_eq!(visible("a\n\tb\r", Layout::Lines), "a\n\tb⟨U+000D⟩");
        assert_eq!(line("a\n\tb"), "a⟨U+000A⟩⟨U+0009⟩b");
    }

    #[test]
    fn every_control_and_format_character_counts_as_hidden() {
        let all = (0..=0x10ffff).filter_map(char::from_u32);
        for c in all.filter(|c| c.is_control()) {
            assert!(is_hidden(c, Layout::OneLine), "{:x}", u32::from(c));
        }
        for c in [
            '\u{200e}',
            '\u{2060}',
            '\u{2064}',
            '\u{206a}',
            '\u{e007f}',
            '\u{e01ef}',
        ] {
            assert!(is_hidden(c, Layout::Lines), "{:x}", u32::from(c));
        }
    }

    #[test]
    fn different_texts_are_displayed_differently() {
        let texts = [
            "a b",
            "a\u{a0}b",
            "a\u{200b}b",
            "ab",
            "a⟨U+200B⟩b",
            "a\u{2003}b",
        ];
        for (at, one) in texts.iter().enumerate() {
            for other in &texts[at + 1..] {
                assert_ne!(line(one), line(other));
            }
        }
    }

    #[test]
    fn visible_pieces_join_to_the_whole_text() {
        let text = "\u{202e}a\u{200b}\u{200b}b\n";
        let joined: String = pieces(text, Layout::Lines)
            .iter()
            .map(|piece| match piece {
                Piece::Plain(plain) => (*plain).to_owned(),
                Piece::Hidden(c) => c.to_string(),
            })
            .collect();
        assert_eq!(joined, text);
    }
}
