//! Words with which a definition speaks past the person to the model, asks for what is not its business, or claims an authority.
//!
//! Each sign is a pattern. One that no honest definition has is enough; others are also in honest ones, and only two kinds of them in one
//! text count. `unless_negated` is for what a server may forbid: "never deploy without the user's consent".

mod signs;

use std::sync::{LazyLock, OnceLock};

use regex::Regex;

use self::signs::{ENGLISH, OTHER_LANGUAGES};
use super::hidden::{folded, without_hidden};

/// How much of a suspicious text is quoted.
const QUOTED_CHARS: usize = 80;
/// How far before a sign a negation may stand, in characters.
const NEGATED_WITHIN: usize = 60;

/// Something suspicious that a text says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// What it does, as a part of a sentence.
    pub(super) what: &'static str,
    /// Its words.
    pub(super) words: String,
}

/// What is suspicious in a text; nothing where that could be in an honest one.
pub(super) fn suspicious(text: &str) -> Vec<Said> {
    let plain = flattened(&without_hidden(text));
    let lines = without_hidden(text);
    let mut found: Vec<(Weight, Said)> = Vec::new();
    for form in [Some(plain.clone()), folded(&plain)].into_iter().flatten() {
        let small = form.to_lowercase();
        for found_by in SIGNS.iter().filter(|sign| sign.may_be_in(&small)) {
            let text = if found_by.over_lines { &lines } else { &form };
            let Some(words) = found_by.find(text) else {
                continue;
            };
            let sign = found_by.sign;
            let said = Said {
                what: sign.says,
                words: words.chars().take(QUOTED_CHARS).collect(),
            };
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
    /// Also in honest definitions.
    Half,
    /// In no honest definition.
    Enough,
}

struct Sign {
    says: &'static str,
    weight: Weight,
    /// One of these is in every text that the pattern finds; looking for them first saves most searches.
    needs: &'static [&'static str],
    unless_negated: bool,
    pattern: &'static str,
}

/// A sign whose pattern is compiled when a text has one of its words: most texts have none, and the patterns of all
/// signs take megabytes.
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

/// Whether the sentence says before `at` that it is about what does not happen, or must not.
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

/// Words of English begin and end at ASCII letters; saying so keeps the search fast on any text.
fn compiled(pattern: &str, is_ascii: bool) -> Regex {
    let pattern = match is_ascii {
        true => pattern
            .replace(r"\b", r"(?-u:\b)")
            .replace(r"\w", "[a-z0-9_]"),
        false => pattern.to_owned(),
    };
    Regex::new(&format!("(?is){pattern}")).expect("the pattern is a constant")
}
