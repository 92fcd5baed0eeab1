//! Paths in the text of a command. A shell can compute a path (`$(…)`, variables); only paths that are written out are
//! found.

use globset::GlobBuilder;

use super::{
    Candidate, Protected,
    spelling::{absolute, parts, plain, spelled},
    words,
};
use crate::policy::path::PathBase;

/// The most words of a command that are searched.
const MAX_WORDS: usize = 2000;

/// A word of a command, without its quotes.
struct Word {
    text: String,
    /// Whether it starts a command.
    is_first: bool,
}

/// The candidates in a command line that starts in `folder`.
pub(super) fn candidates(
    line: &str,
    ground: &PathBase,
    folder: &str,
    protected: &Protected,
) -> Vec<Candidate> {
    let mut here = PathBase {
        home: ground.home.clone(),
        folder: folder.to_owned(),
    };
    let mut found = Vec::new();
    let mut takes_whole = false;
    let mut changes_folder = false;
    for word in divided(line).into_iter().take(MAX_WORDS) {
        if word.is_first {
            takes_whole = false;
        }
        let verb = word.text.rsplit('/').next().unwrap_or_default();
        takes_whole |= words::takes_whole(verb);
        for text in parts(&word.text) {
            let mut paths = spelled(text, &here);
            // `ls *` only lists names; `rm *` deletes the files.
            if text.contains(['*', '?', '[', '{']) && (takes_whole || !is_any_name(text)) {
                paths.extend(fitting(text, &here, protected));
            }
            found.extend(paths.into_iter().map(|path| Candidate {
                path,
                in_command: true,
                takes_whole,
            }));
        }
        // `cd ~/.config/callgate && cat callgate.yaml` names the file only relative to the new folder.
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

/// The protected places, and folders above them, that a glob matches. A wildcard does not cross folders, so both are
/// compared up to the shorter length.
pub(super) fn fitting(text: &str, ground: &PathBase, protected: &Protected) -> Vec<String> {
    let pattern = plain(&absolute(text, ground));
    let pattern: Vec<&str> = pattern.split('/').collect();
    let mut found = Vec::new();
    for place in protected.places() {
        let place: Vec<&str> = place.split('/').collect();
        let both = pattern.len().min(place.len());
        let place = place[..both].join("/");
        let glob = GlobBuilder::new(&pattern[..both].join("/"))
            .literal_separator(true)
            .build();
        if glob.is_ok_and(|glob| glob.compile_matcher().is_match(&place)) {
            found.push(place);
        }
    }
    found
}

/// Whether a glob matches any name: `*`.
fn is_any_name(text: &str) -> bool {
    let last = text.rsplit('/').next().unwrap_or_default();
    last.chars().all(|c| "*?.".contains(c))
}

/// The words of a command, split where a shell splits, without quotes and backslashes.
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
            // A backslash before a line break joins the lines; inside single quotes it is an ordinary character.
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
    fn command_lines_are_split_and_unquoted() {
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
