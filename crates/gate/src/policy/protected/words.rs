//! Words that tell what an argument or a tool is about.

use crate::{policy::projection, tool::split_words};

/// Verbs that take a folder away, or put something else in its place.
const TAKING_AWAY: [&str; 24] = [
    "delete", "remove", "rm", "rmdir", "rmtree", "unlink", "trash", "erase", "wipe", "purge",
    "destroy", "drop", "move", "mv", "rename", "replace", "swap", "exchange", "link", "symlink",
    "ln", "mount", "shred", "cut",
];

/// Whether a word is such a verb.
pub(super) fn takes_away(word: &str) -> bool {
    TAKING_AWAY
        .iter()
        .any(|verb| verb.eq_ignore_ascii_case(word))
}

/// Whether a key says that a path stands under it, also as a bare word.
pub(super) fn is_path_key(key: &str) -> bool {
    let words = split_words(key);
    words.iter().any(|word| projection::is_path_word(word))
}
