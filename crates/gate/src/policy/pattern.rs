//! Name patterns, in which `*` matches any run of characters, and look-alike names.
//!
//! Patterns that allow compare byte for byte. Patterns that restrict also match a name in another case, and a name that
//! looks like one they match.

use unicode_security::skeleton;

use crate::visible::is_visible;

/// A name pattern in which `*` matches any run of characters, and nothing else is special.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

/// A pattern with its case-folded form and its visual skeleton, for rules that look-alike names must not evade.
#[derive(Debug, Clone)]
pub(super) struct Lookalike {
    pattern: Pattern,
    folded: Pattern,
    seen: Pattern,
}

impl Pattern {
    /// Takes a pattern as written.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        self.matches_by(text, |byte| byte)
    }

    /// Whether `text` matches in any case or looks as if it did. Compiles on each call; for rarely used patterns.
    pub(super) fn resembles(&self, text: &str) -> bool {
        Lookalike::new(&self.0).resembles(text)
    }

    fn matches_by(&self, text: &str, fold: impl Fn(u8) -> u8) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut at, mut seen) = (0, 0);
        // Backtracking to the last `*` only, which keeps matching at O(pattern × text) for hostile names.
        // The position of the last `*`, and where in the text its match ends so far.
        let mut star: Option<(usize, usize)> = None;
        while seen < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, seen));
                    at += 1;
                }
                Some(byte) if *byte == fold(text[seen]) => {
                    at += 1;
                    seen += 1;
                }
                Some(_) | None => {
                    let Some((behind, taken)) = star else {
                        return false;
                    };
                    star = Some((behind, taken + 1));
                    at = behind + 1;
                    seen = taken + 1;
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }

    /// Whether this pattern matches everything that `other` matches. May miss a case, but is never wrong when
    /// `true`.
    pub(super) fn covers(&self, other: &Self) -> bool {
        // Only a `*` of this pattern can match a literal `*` of the other, and it then matches any replacement.
        self.matches(&other.0)
    }
}

impl Lookalike {
    pub(super) fn new(text: &str) -> Self {
        Self {
            pattern: Pattern::new(text),
            folded: Pattern(folded(text)),
            seen: Pattern(looks(text)),
        }
    }

    pub(super) fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    pub(super) fn folded(&self) -> &Pattern {
        &self.folded
    }

    /// Whether `text` matches byte for byte.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.pattern.matches(text)
    }

    /// Whether `text` matches in any case, or looks as if it did. ASCII has no look-alikes here.
    pub(super) fn resembles(&self, text: &str) -> bool {
        if text.is_ascii() {
            return self
                .folded
                .matches_by(text, |byte| byte.to_ascii_lowercase());
        }
        self.folded.matches(&folded(text)) || self.seen.matches(&looks(text))
    }
}

/// Folds case. Upper case first: letters such as `ſ` and `ß` become ASCII only as capitals.
pub(super) fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.to_uppercase().to_lowercase()
}

/// The visual skeleton of a text: equal for texts that a person would confuse.
pub(crate) fn looks(text: &str) -> String {
    // Lowered again after the skeleton, which maps full-width and other compatibility forms to ASCII.
    let shown: String = text.chars().filter(|c| is_visible(*c)).collect();
    skeleton(&folded(&shown)).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_run() {
        let cases = [
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "abc", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("read_?", "read_x", false),
            ("", "", true),
            ("", "x", false),
            ("x", "x", true),
            ("*ab*ab", "ab", false),
            ("*é*", "aéb", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                Pattern::new(pattern).matches(text),
                expected,
                "{pattern} on {text}"
            );
        }
    }

    #[test]
    fn patterns_cover_narrower_patterns() {
        let covers = |a: &str, b: &str| Pattern::new(a).covers(&Pattern::new(b));
        for (a, b) in [
            ("*", "a*b"),
            ("a*", "a*b"),
            ("a*", "a"),
            ("a", "a"),
            ("*:*", "fs:*"),
        ] {
            assert!(covers(a, b), "{a} {b}");
        }
        for (a, b) in [("a*b", "a*"), ("a", "a*"), ("*:x", "*:*"), ("a**", "b")] {
            assert!(!covers(a, b), "{a} {b}");
        }
    }

    #[test]
    fn lookalike_names_match_a_deny_pattern() {
        let rule = Lookalike::new("*:drop_*");
        for name in [
            "db:drop_table",
            "db:drоp_table",
            "db:ｄrop_table",
            "db:ԁrop_table",
        ] {
            assert!(rule.resembles(name), "{name}");
        }
        for name in ["db:dropdown", "db:löschen", "db:crop_table"] {
            assert!(!rule.resembles(name), "{name}");
        }
    }

    #[test]
    fn case_is_folded_only_for_lookalikes() {
        let rule = Lookalike::new("*:*Destroy*");
        for name in [
            "s:destroy",
            "s:DESTROY_ALL",
            "s:vmDESTROY",
            "s:de\u{17f}troy",
            "s:de\u{200b}stroy",
            "s:ＤＥＳＴＲＯＹ",
        ] {
            assert!(rule.resembles(name), "{name}");
            assert!(!rule.matches(name), "{name}");
        }
        assert!(rule.matches("s:Destroy"));
        assert!(Pattern::new("MOVE_*").resembles("move_x"));
    }
}
