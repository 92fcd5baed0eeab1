//! Destructive verbs in tool names, in every spelling: `bulkDelete`, `db_drop`, `DELETE_ALL`, `deletefile`.

use super::pattern::{folded, looks};
use callgate_wire::words;

/// Verbs that are found anywhere in a word: no other common word has them in it.
const ANYWHERE: [&str; 6] = ["delete", "remove", "destroy", "purge", "truncate", "erase"];
/// Verbs that are found only where a word begins with them: `swipe` and `backdrop` are harmless.
const AT_THE_START: [&str; 2] = ["drop", "wipe"];
/// Endings that turn a verb into a participle or a noun: `deleted`, `remover`.
const HARMLESS_ENDINGS: [&str; 7] = ["d", "r", "rs", "ed", "er", "ers", "ped"];
/// Words that begin like a verb and mean something else.
const OTHER_WORDS: [&str; 14] = [
    "dropbox",
    "dropboxes",
    "dropdown",
    "dropdowns",
    "droplet",
    "droplets",
    "dropoff",
    "dropoffs",
    "dropout",
    "dropper",
    "dropship",
    "dropzone",
    "undelete",
    "undeletes",
];
/// Forms of the verbs that lose a letter.
const OTHER_FORMS: [(&str, &str); 5] = [
    ("deleting", "delete"),
    ("removing", "remove"),
    ("purging", "purge"),
    ("truncating", "truncate"),
    ("erasing", "erase"),
];

/// The destructive verb in a tool's name, if it has one.
pub(super) fn destructive(name: &str) -> Option<&'static str> {
    // A fast path: this runs for every call of an unannotated tool, and most names have no verb.
    if name.is_ascii() && !has_stem(name.as_bytes()) {
        return None;
    }
    // Word by word, so that `list_removed` and `deleted_items` stay harmless while `bulkDelete` does not.
    let found = |name: &str| words(name).find_map(|word| in_word(&word));
    found(name).or_else(|| {
        // `rn` reads as `m` in many fonts: `rernove`.
        let seen = || found(&looks(name).replace("rn", "m"));
        let is_plain = name.is_ascii();
        (!is_plain).then(|| seen().or_else(|| found(&folded(name))))?
    })
}

/// Whether the stem of a verb occurs anywhere in a name.
fn has_stem(name: &[u8]) -> bool {
    let begins = |at: usize| {
        let stems: &[&str] = match name[at].to_ascii_lowercase() {
            b'd' => &["delet", "drop", "destroy"],
            b'r' => &["remov"],
            b'p' => &["purg"],
            b't' => &["truncat"],
            b'w' => &["wipe"],
            b'e' => &["eras"],
            _ => &[],
        };
        stems.iter().any(|stem| {
            let part = name.get(at..at + stem.len());
            part.is_some_and(|part| part.eq_ignore_ascii_case(stem.as_bytes()))
        })
    };
    (0..name.len()).any(begins)
}

/// The destructive verb in a word of small letters.
fn in_word(word: &str) -> Option<&'static str> {
    if OTHER_WORDS.contains(&word) {
        return None;
    }
    let at_the_start = AT_THE_START.into_iter().find(|verb| {
        let rest = word.strip_prefix(verb);
        rest.is_some_and(|rest| !HARMLESS_ENDINGS.contains(&rest))
    });
    let anywhere = || {
        ANYWHERE.into_iter().find(|verb| {
            let mut places = word.match_indices(verb);
            // Every occurrence counts: in `deleteddelete` the first one is a participle and the second is not.
            places.any(|(at, _)| !HARMLESS_ENDINGS.contains(&&word[at + verb.len()..]))
        })
    };
    let other_form = || {
        let mut forms = OTHER_FORMS.into_iter();
        forms.find_map(|(form, verb)| word.contains(form).then_some(verb))
    };
    at_the_start.or_else(anywhere).or_else(other_form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destructive_verbs_are_found_in_every_spelling() {
        let cases = [
            ("delete", "delete"),
            ("bulkDelete", "delete"),
            ("db_drop", "drop"),
            ("DELETE_ALL", "delete"),
            ("delete-file", "delete"),
            ("HTTPDelete", "delete"),
            ("deleteFile2", "delete"),
            ("removeAll", "remove"),
            ("removeall", "remove"),
            ("DROPDATABASE", "drop"),
            ("softdelete", "delete"),
            ("deletes_rows", "delete"),
            ("deleting", "delete"),
            ("dropping", "drop"),
            ("wipeall", "wipe"),
            ("dеlete_file", "delete"),
            ("remоve_file", "remove"),
            ("ＤＥＬＥＴＥ", "delete"),
            ("de\u{200b}lete", "delete"),
            ("de\u{17f}troy", "destroy"),
        ];
        for (name, verb) in cases {
            assert_eq!(destructive(name), Some(verb), "{name}");
        }
    }

    #[test]
    fn words_resembling_a_destructive_verb_are_not_matched() {
        for name in [
            "undelete",
            "dropdown",
            "create_droplet",
            "deleted_items_list",
            "list_removed",
            "remover",
            "eraser",
            "swipe_left",
            "dropped_frames",
            "set_backdrop",
            "löschen",
            "",
        ] {
            assert_eq!(destructive(name), None, "{name}");
        }
    }
}
