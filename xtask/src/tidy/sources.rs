//! Source files stay short, and nothing unfinished is left in them.

use super::{File, Tree};

/// The most lines a file may have before its tests.
const MOST_LINES: usize = 450;

/// A file whose doc begins like this is a flat table and may be long.
const TABLE: &str = "//! Table:";

/// Words that say something is unfinished. They are written in halves so that this file passes its own check.
const UNFINISHED: [&str; 6] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("#[ign", "ore"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("db", "g!"),
];

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let sources = tree.with_extension(".rs");
    sources
        .flat_map(|file| too_long(file).into_iter().chain(unfinished(file)))
        .collect()
}

fn too_long(file: &File) -> Option<String> {
    let lines = file
        .text
        .lines()
        .take_while(|line| line.trim() != "#[cfg(test)]")
        .count();
    let allowed = lines <= MOST_LINES || file.text.starts_with(TABLE);
    (!allowed).then(|| {
        format!(
            "{}: {lines} lines before its tests, at most {MOST_LINES} are allowed",
            file.path
        )
    })
}

fn unfinished(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for word in UNFINISHED.iter().filter(|word| is_word(line, word)) {
            found.push(format!("{}:{}: `{word}`", file.path, index + 1));
        }
    }
    found
}

/// True where the word stands alone: a character escape can have the same letters.
pub(super) fn is_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let mut places = line.match_indices(word);
    places.any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_length_excludes_tests_and_tables_are_exempt() {
        let long = "x\n".repeat(MOST_LINES + 1);
        let tested = format!("{}#[cfg(test)]\n{long}", "x\n".repeat(MOST_LINES));
        let table = format!("{TABLE} of things\n{long}");
        let tree = Tree::of(&[
            ("a.rs", &long),
            ("b.rs", &tested),
            ("c.rs", &table),
            ("d.md", &long),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a.rs: 451 lines"));
    }

    #[test]
    fn each_placeholder_word_is_found_with_its_line() {
        for word in UNFINISHED {
            let tree = Tree::of(&[("a.rs", &format!("fine\n  {word}()\n"))]);
            assert_eq!(check(&tree), [format!("a.rs:2: `{word}`")]);
        }
        let escape = Tree::of(&[("a.rs", concat!("a \\u", "XX", "XX escape"))]);
        assert_eq!(check(&escape), Vec::<String>::new());
    }
}
