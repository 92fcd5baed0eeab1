//! Tokenisation: splits identifiers, lowercases, stems and drops stop words.

use std::{borrow::Cow, sync::OnceLock};

use rust_stemmers::{Algorithm, Stemmer};

/// Longer words are truncated: they are data such as hashes, not language.
const MAX_WORD_BYTES: usize = 40;

/// Stop words: they say nothing about a tool's purpose. Sorted, for binary search.
const STOP_WORDS: &[&str] = &[
    "a",
    "about",
    "after",
    "again",
    "ago",
    "all",
    "already",
    "also",
    "although",
    "am",
    "an",
    "and",
    "any",
    "anything",
    "are",
    "as",
    "at",
    "be",
    "because",
    "been",
    "before",
    "being",
    "both",
    "but",
    "by",
    "can",
    "could",
    "did",
    "do",
    "does",
    "doing",
    "don",
    "down",
    "during",
    "each",
    "either",
    "else",
    "ever",
    "every",
    "everything",
    "few",
    "for",
    "from",
    "further",
    "had",
    "has",
    "have",
    "having",
    "he",
    "help",
    "her",
    "here",
    "him",
    "his",
    "how",
    "i",
    "if",
    "in",
    "into",
    "is",
    "it",
    "its",
    "itself",
    "just",
    "let",
    "like",
    "ll",
    "m",
    "may",
    "me",
    "might",
    "mine",
    "must",
    "my",
    "need",
    "needed",
    "no",
    "nor",
    "not",
    "of",
    "off",
    "on",
    "one",
    "only",
    "onto",
    "or",
    "other",
    "our",
    "out",
    "over",
    "own",
    "please",
    "re",
    "s",
    "same",
    "shall",
    "she",
    "should",
    "so",
    "some",
    "someone",
    "something",
    "such",
    "t",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "thing",
    "things",
    "this",
    "those",
    "through",
    "to",
    "too",
    "under",
    "until",
    "up",
    "upon",
    "us",
    "use",
    "used",
    "using",
    "ve",
    "very",
    "via",
    "want",
    "was",
    "we",
    "were",
    "what",
    "whatever",
    "when",
    "where",
    "whether",
    "which",
    "while",
    "who",
    "whom",
    "whose",
    "why",
    "will",
    "with",
    "within",
    "without",
    "would",
    "yet",
    "you",
    "your",
];

/// Words kept unstemmed because their stem is the stem of an unrelated word: `customer` and `custom`,
/// `recording` and `record`.
const UNSTEMMED: &[&str] = &[
    "accountant",
    "container",
    "conversion",
    "customer",
    "direction",
    "internal",
    "international",
    "production",
    "recording",
    "setting",
];

/// The words of a text in lower case and in order, each at most [`MAX_WORD_BYTES`] long.
pub(crate) fn split(text: &str) -> Vec<String> {
    let cut = |word: Cow<'_, str>| {
        let end = word.floor_char_boundary(MAX_WORD_BYTES);
        let mut word = word.into_owned();
        word.truncate(end);
        word
    };
    callgate_wire::words(text).map(cut).collect()
}

pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// The stem of a lower-cased word.
pub(crate) fn stem(word: &str) -> String {
    let singular = word.strip_suffix('s').unwrap_or(word);
    if UNSTEMMED.binary_search(&singular).is_ok() {
        return singular.to_owned();
    }
    static STEMMER: OnceLock<Stemmer> = OnceLock::new();
    let stemmer = STEMMER.get_or_init(|| Stemmer::create(Algorithm::English));
    stemmer.stem(word).into_owned()
}

/// The stems of a text's words without its stop words.
pub(crate) fn stems(text: &str) -> Vec<String> {
    let words = split(text);
    let content = words.iter().filter(|word| !is_stop_word(word));
    content.map(|word| stem(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_have_no_stems() {
        assert_eq!(
            stems("Creates the new directories, please"),
            ["creat", "new", "directori"]
        );
    }

    #[test]
    fn unrelated_words_keep_different_stems() {
        for (one, other) in [
            ("customers", "custom"),
            ("recording", "record"),
            ("settings", "set"),
            ("container", "contained"),
            ("conversion", "conversation"),
        ] {
            assert_ne!(stem(one), stem(other));
        }
        assert_eq!(stem("customers"), stem("customer"));
    }

    #[test]
    fn word_tables_are_sorted() {
        assert!(STOP_WORDS.is_sorted() && UNSTEMMED.is_sorted());
    }
}
