//! A call's arguments on one line, for lists: different arguments look different.

use super::{Layout, visible};
use crate::Digest;

/// A longer text is cut in its middle.
const MAX_CHARS: usize = 120;
/// The lengths of the parts of a cut text that are kept.
const HEAD_CHARS: usize = 72;
const TAIL_CHARS: usize = 24;

/// JSON arguments on one line, with hidden characters escaped. A cut text ends with its length and a short digest, so that
/// texts that differ only in the cut part still look different.
pub fn summary(arguments: &str) -> String {
    let shown = visible(arguments, Layout::OneLine);
    let count = shown.chars().count();
    if count <= MAX_CHARS {
        return shown;
    }
    let head: String = shown.chars().take(HEAD_CHARS).collect();
    let tail: String = shown.chars().skip(count - TAIL_CHARS).collect();
    let digest = Digest::of(arguments.as_bytes()).short();
    let length = arguments.chars().count();
    format!("{head} … {tail} ({length} characters, sha256 {digest})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_arguments_are_shown_whole_with_invisible_characters_escaped() {
        assert_eq!(summary(r#"{"a":1}"#), r#"{"a":1}"#);
        assert_eq!(summary("{\"a\":\"\u{202e}\"}"), r#"{"a":"⟨U+202E⟩"}"#);
    }

    #[test]
    fn different_long_arguments_have_different_summaries() {
        let long = |middle: &str| format!("{{\"a\":\"{0}{middle}{0}\"}}", "x".repeat(500));
        let one = summary(&long("1"));
        assert_ne!(one, summary(&long("2")));
        assert!(one.contains("(1009 characters, sha256 "), "{one}");
        assert!(one.chars().count() < 200, "{one}");
    }
}
