//! Words and turns of phrase that a reader stumbles over do not come back (house style: plain English).

use super::{File, Tree, sources::is_word};

/// People without a role: a comment names the caller, the writer or the task instead.
const WORDS: [&str; 4] = ["whoever", "nobody", "somebody", "whomever"];

/// "Is no X" for "is not an X", and what it must not be confused with.
const NEGATIONS: [&str; 2] = ["is no ", "are no "];
const BEFORE_NEGATION: [&str; 2] = ["there ", "here "];
const AFTER_NEGATION: [&str; 3] = ["longer", "more than", "better"];

/// Where strings are the data of tests.
const TESTS: [&str; 3] = [
    "tests/",
    "crates/testkit/",
    "crates/record/src/conformance/",
];

/// This file names the words that it looks for.
const EXEMPT: &str = "xtask/src/tidy/words.rs";

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let files = tree.files.iter().filter(|file| file.path != EXEMPT);
    files.flat_map(in_file).collect()
}

fn in_file(file: &File) -> Vec<String> {
    let is_page = file.path.ends_with(".md");
    if !is_page && !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut tested = TESTS.iter().any(|folder| file.path.contains(folder));
    for (index, line) in file.text.lines().enumerate() {
        tested |= line.trim() == "#[cfg(test)]";
        // Names and search texts in tests are data: only their comments are prose.
        let prose = match (is_page, tested) {
            (true, _) | (_, false) => line,
            (false, true) => comment(line),
        };
        for phrase in phrases(&without_code(prose)) {
            found.push(format!(
                "{}:{}: `{phrase}`: say it in plain English",
                file.path,
                index + 1
            ));
        }
    }
    found
}

/// What follows `//` on a line.
fn comment(line: &str) -> &str {
    line.split_once("// ")
        .or_else(|| line.split_once("/// "))
        .or_else(|| line.split_once("//! "))
        .map_or("", |(_, text)| text)
}

/// The text in small letters, without what stands in backticks.
fn without_code(text: &str) -> String {
    let pieces: Vec<&str> = text.split('`').step_by(2).collect();
    pieces.join("`").to_lowercase()
}

fn phrases(text: &str) -> Vec<&'static str> {
    let words = WORDS.into_iter().filter(|word| is_word(text, word));
    let negations = NEGATIONS.into_iter().filter(|negation| {
        text.match_indices(negation).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + negation.len()..]);
            let starts = before.is_empty() || before.ends_with(' ');
            let is_existence = BEFORE_NEGATION.iter().any(|word| before.ends_with(word));
            starts && !is_existence && !AFTER_NEGATION.iter().any(|word| after.starts_with(word))
        })
    });
    words.chain(negations).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
    }

    #[test]
    fn listed_words_are_found_in_comments_messages_and_pages() {
        let bad = [
            ("crates/a/src/a.rs", "// Whoever asks"),
            ("crates/a/src/a.rs", "bail!(\"nobody can be asked\");"),
            ("crates/a/tests/it/a.rs", "/// Somebody who asks."),
            ("docs/a.md", "This is no lock."),
        ];
        for (path, text) in bad {
            assert_eq!(found(path, text).len(), 1, "{path}: {text}");
        }
    }

    #[test]
    fn data_code_and_other_phrases_are_left_alone() {
        let fine = [
            ("crates/a/tests/it/a.rs", "let name = \"nobody\";"),
            ("crates/a/src/a.rs", "#[cfg(test)]\nlet name = \"nobody\";"),
            (
                "docs/a.md",
                "There is no lock, and it is no longer `nobody`.",
            ),
            ("a.yaml", "user: nobody"),
        ];
        for (path, text) in fine {
            assert_eq!(found(path, text), Vec::<String>::new(), "{path}: {text}");
        }
    }
}
