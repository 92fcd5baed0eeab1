//! Phrases with which a definition addresses the model behind the user's back, asks for data that it does not need, or claims
//! authority.
//!
//! Each sign is a pattern. One sign that honest definitions never have is enough; of the others two kinds in one text are needed.
//! `unless_negated` is for what a server may forbid: "never deploy without the user's consent".

mod signs;

use std::sync::{LazyLock, OnceLock};

use regex::Regex;

use self::signs::{ENGLISH, OTHER_LANGUAGES};
use super::hidden::{folded, without_hidden};

/// The longest quotation from a suspicious text.
const QUOTED_CHARS: usize = 80;
/// The distance between a negation and a sign, in characters.
const NEGATED_WITHIN: usize = 60;

/// A suspicious phrase in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SuspiciousPhrase {
    /// Its effect, as the predicate of a sentence.
    pub(super) what: &'static str,
    pub(super) words: String,
}

/// The suspicious phrases in a text; empty if an honest text could contain them.
pub(super) fn suspicious(text: &str) -> Vec<SuspiciousPhrase> {
    let plain = flattened(&without_hidden(text));
    let lines = without_hidden(text);
    let mut found: Vec<(Weight, SuspiciousPhrase)> = Vec::new();
    // Both forms: folding Cyrillic look-alikes would destroy the words that the Russian patterns need.
    for form in [Some(plain.clone()), folded(&plain)].into_iter().flatten() {
        let small = form.to_lowercase();
        for found_by in SIGNS.iter().filter(|sign| sign.may_be_in(&small)) {
            // A few patterns look for line structure, such as an imitated turn; the others must match across line breaks.
            let text = if found_by.over_lines { &lines } else { &form };
            let Some(words) = found_by.find(text) else {
                continue;
            };
            let sign = found_by.sign;
            let said = SuspiciousPhrase {
                what: sign.effect,
                words: words.chars().take(QUOTED_CHARS).collect(),
            };
            // Signs of one kind count once: two phrasings of one harmless request are still one request.
            match found.iter_mut().find(|(_, one)| one.what == said.what) {
                Some(known) if known.0 < sign.weight => *known = (sign.weight, said),
                Some(_) => {}
                None => found.push((sign.weight, said)),
            }
        }
    }
    let is_enough = found.len() >= 2 || found.iter().any(|(weight, _)| *weight == Weight::Enough);
    match is_enough {
        true => found.into_iter().map(|(_, said)| said).collect(),
        false => Vec::new(),
    }
}

/// One line with single spaces and plain apostrophes.
fn flattened(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(word.chars().map(|c| {
            if matches!(c, '\u{2018}' | '\u{2019}') {
                '\''
            } else {
                c
            }
        }));
    }
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// Honest definitions have it too; two kinds are needed.
    Half,
    /// Honest definitions never have it.
    Enough,
}

struct Sign {
    effect: &'static str,
    weight: Weight,
    /// Every match contains one of these words. Testing them first saves most searches.
    needs: &'static [&'static str],
    unless_negated: bool,
    pattern: &'static str,
}

/// A sign whose pattern is compiled on first use: most texts need none, and all patterns together take megabytes.
struct Compiled {
    sign: &'static Sign,
    is_ascii: bool,
    over_lines: bool,
    pattern: OnceLock<Regex>,
}

impl Compiled {
    fn may_be_in(&self, small: &str) -> bool {
        let needs = self.sign.needs;
        needs.is_empty() || needs.iter().any(|word| small.contains(word))
    }

    fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        let counts = |found: &regex::Match<'_>| {
            !self.sign.unless_negated || !is_negated(text, found.start())
        };
        let compile = || compiled(self.sign.pattern, self.is_ascii);
        self.pattern
            .get_or_init(compile)
            .find_iter(text)
            .find(counts)
            .map(|found| found.as_str())
    }
}

/// Whether a negation precedes `at` in the same sentence.
fn is_negated(text: &str, at: usize) -> bool {
    let before = &text[..at];
    let from = before
        .char_indices()
        .rev()
        .nth(NEGATED_WITHIN - 1)
        .map_or(0, |(from, _)| from);
    NEGATION.is_match(&before[from..])
}

static NEGATION: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"\b(never|not|don't|cannot|can't|doesn't|won't|without|no|avoid|neither|nor|isn't|removes?|strips?|masks?|refus\w+|prevents?|except|if|unless|only when|when the user|until|instead of including|redact\w*|excluded?|excluding|left out)\b[^.;!?\n]{0,45}$",
        true,
    )
});

static SIGNS: LazyLock<Vec<Compiled>> = LazyLock::new(|| {
    let english = ENGLISH.iter().map(|sign| (sign, true));
    let others = OTHER_LANGUAGES.iter().map(|sign| (sign, false));
    english
        .chain(others)
        .map(|(sign, is_ascii)| Compiled {
            sign,
            is_ascii,
            over_lines: sign.pattern.contains(r"\n"),
            pattern: OnceLock::new(),
        })
        .collect()
});

/// Compiles a pattern. English word boundaries are ASCII; the ASCII classes keep the search fast on any text.
fn compiled(pattern: &str, is_ascii: bool) -> Regex {
    let pattern = match is_ascii {
        true => pattern
            .replace(r"\b", r"(?-u:\b)")
            .replace(r"\w", "[a-z0-9_]"),
        false => pattern.to_owned(),
    };
    Regex::new(&format!("(?is){pattern}")).expect("the pattern is a constant")
}
