//! Paths in the text of a command. A shell can spell a path in ways that no reader of the text sees; this finds those
//! that are written out.

use globset::GlobBuilder;

use super::{
    Candidate, Protected,
    spelling::{absolute, plain, spelled},
    words,
};
use crate::policy::path::Ground;

/// How many words of a command are looked at.
const MAX_WORDS: usize = 2000;

/// A word of a command, without its quotes.
struct Word {
    text: String,
    /// Whether another command begins with it.
    is_first: bool,
}

/// What the words of a command may lead to, when it starts in `folder`.
pub(super) fn candidates(
    line: &str,
    ground: &Ground,
    folder: &str,
    protected: &Protected,
) -> Vec<Candidate> {
    let mut here = Ground {
        home: ground.home.clone(),
        folder: folder.to_owned(),
    };
    let mut found = Vec::new();
    let mut takes_away = false;
    let mut changes_folder = false;
    for word in divided(line).into_iter().take(MAX_WORDS) {
        if word.is_first {
            takes_away = false;
        }
        let verb = word.text.rsplit('/').next().unwrap_or_default();
        takes_away |= words::takes_away(verb);
        for text in parts(&word.text) {
            for path in meant(text, &here, protected) {
                found.push(Candidate {
                    path,
                    in_command: true,
                    takes_away,
                });
            }
        }
        if changes_folder && !word.is_first && !word.text.starts_with('-') {
            here.folder = plain(&absolute(&word.text, &here));
        }
        changes_folder = match word.is_first {
            true => matches!(verb, "cd" | "pushd"),
            false => changes_folder && word.text.starts_with('-'),
        };
    }
    found.sort();
    found.dedup();
    found
}

/// A word, and what stands behind the signs after which a path may stand in it.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let behind = word
        .match_indices(['=', ':', '@', ','])
        .map(|(at, sign)| &word[at + sign.len()..]);
    [word]
        .into_iter()
        .chain(behind)
        .filter(|text| !text.is_empty())
}

/// The paths that a text may mean: with wildcards in it, the protected places that it fits.
fn meant(text: &str, ground: &Ground, protected: &Protected) -> Vec<String> {
    if !text.contains(['*', '?', '[', '{']) {
        return spelled(text, ground);
    }
    let pattern = plain(&absolute(text, ground));
    let Ok(glob) = GlobBuilder::new(&pattern).literal_separator(true).build() else {
        return Vec::new();
    };
    let matcher = glob.compile_matcher();
    let mut found = Vec::new();
    for place in protected.places() {
        // What stands for a folder above stands for a place when more follows it.
        let ends = place.match_indices('/').map(|(at, _)| at).skip(1);
        for end in ends.chain([place.len()]) {
            if matcher.is_match(&place[..end]) {
                found.push(place[..end].to_owned());
            }
        }
    }
    found
}

/// The words of a command: quotes and backslashes taken away, divided where a shell divides.
fn divided(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut text = String::new();
    let (mut quote, mut is_first) = (None, true);
    let mut chars = line.chars();
    let mut end = |text: &mut String, is_first: &mut bool| {
        if !text.is_empty() {
            words.push(Word {
                text: std::mem::take(text),
                is_first: *is_first,
            });
            *is_first = false;
        }
    };
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None | Some('"'), '\\') => text.extend(chars.next().filter(|c| *c != '\n')),
            (None, ' ' | '\t' | '<' | '>') => end(&mut text, &mut is_first),
            (None, ';' | '|' | '&' | '\n' | '(' | ')' | '`') => {
                end(&mut text, &mut is_first);
                is_first = true;
            }
            (_, c) => text.push(c),
        }
    }
    end(&mut text, &mut is_first);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_divided_and_unquoted() {
        let shown = |line: &str| -> Vec<String> {
            let shown =
                |word: Word| format!("{}{}", if word.is_first { "^" } else { "" }, word.text);
            divided(line).into_iter().map(shown).collect()
        };
        assert_eq!(shown("a 'b c'\"d\" e\\ f"), ["^a", "b cd", "e f"]);
        assert_eq!(shown("a>x;b|c&&d\ne"), ["^a", "x", "^b", "^c", "^d", "^e"]);
        assert_eq!(shown("x $(cat y)"), ["^x", "$", "^cat", "y"]);
    }
}
