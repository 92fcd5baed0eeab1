//! A public corpus of JSON texts: `y_` must be accepted, `n_` refused, `i_` is ours to decide.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use callgate_wire::{ScanError, Strictness, scan};

/// Valid JSON that two readers understand differently, and therefore refused here.
const REFUSED_THOUGH_VALID: [&str; 2] = [
    "y_object_duplicated_key.json",
    "y_object_duplicated_key_and_value.json",
];

/// Numbers are kept as the text they came in, so none is too large.
const ACCEPTED_BY_CHOICE: [&str; 10] = [
    "i_number_double_huge_neg_exp.json",
    "i_number_huge_exp.json",
    "i_number_neg_int_huge_exp.json",
    "i_number_pos_double_huge_exp.json",
    "i_number_real_neg_overflow.json",
    "i_number_real_pos_overflow.json",
    "i_number_real_underflow.json",
    "i_number_too_big_neg_int.json",
    "i_number_too_big_pos_int.json",
    "i_number_very_big_negative_int.json",
];

/// Why the other texts that RFC 8259 leaves open are refused.
const REFUSED_BY_CHOICE: [(&str, Reason); 25] = [
    ("i_object_key_lone_2nd_surrogate.json", Reason::Surrogate),
    (
        "i_string_1st_surrogate_but_2nd_missing.json",
        Reason::Surrogate,
    ),
    (
        "i_string_1st_valid_surrogate_2nd_invalid.json",
        Reason::Surrogate,
    ),
    ("i_string_UTF-16LE_with_BOM.json", Reason::Encoding),
    ("i_string_UTF-8_invalid_sequence.json", Reason::Encoding),
    ("i_string_UTF8_surrogate_U+D800.json", Reason::Encoding),
    (
        "i_string_incomplete_surrogate_and_escape_valid.json",
        Reason::Surrogate,
    ),
    ("i_string_incomplete_surrogate_pair.json", Reason::Surrogate),
    (
        "i_string_incomplete_surrogates_escape_valid.json",
        Reason::Surrogate,
    ),
    ("i_string_invalid_lonely_surrogate.json", Reason::Surrogate),
    ("i_string_invalid_surrogate.json", Reason::Surrogate),
    ("i_string_invalid_utf-8.json", Reason::Encoding),
    (
        "i_string_inverted_surrogates_U+1D11E.json",
        Reason::Surrogate,
    ),
    ("i_string_iso_latin_1.json", Reason::Encoding),
    ("i_string_lone_second_surrogate.json", Reason::Surrogate),
    (
        "i_string_lone_utf8_continuation_byte.json",
        Reason::Encoding,
    ),
    ("i_string_not_in_unicode_range.json", Reason::Encoding),
    ("i_string_overlong_sequence_2_bytes.json", Reason::Encoding),
    ("i_string_overlong_sequence_6_bytes.json", Reason::Encoding),
    (
        "i_string_overlong_sequence_6_bytes_null.json",
        Reason::Encoding,
    ),
    ("i_string_truncated-utf-8.json", Reason::Encoding),
    ("i_string_utf16BE_no_BOM.json", Reason::Encoding),
    ("i_string_utf16LE_no_BOM.json", Reason::Encoding),
    ("i_structure_500_nested_arrays.json", Reason::Depth),
    ("i_structure_UTF-8_BOM_empty_object.json", Reason::Mark),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Surrogate,
    Encoding,
    NotJson,
    Depth,
    Mark,
    RepeatedKey,
}

impl Reason {
    fn of(error: ScanError) -> Reason {
        match error {
            ScanError::LoneSurrogate { .. } => Reason::Surrogate,
            ScanError::NotUtf8 { .. } => Reason::Encoding,
            ScanError::TooDeep { .. } => Reason::Depth,
            ScanError::ByteOrderMark => Reason::Mark,
            ScanError::RepeatedKey { .. } => Reason::RepeatedKey,
            ScanError::UnexpectedByte { .. }
            | ScanError::Unfinished
            | ScanError::TrailingText { .. }
            | ScanError::ControlCharacter { .. }
            | ScanError::TooLong => Reason::NotJson,
        }
    }
}

#[test]
fn the_json_corpus_is_judged_as_documented() {
    let Some(folder) = folder() else {
        println!("skipped: the JSON corpus is not on this machine");
        return;
    };
    let mut texts = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).expect("the corpus can be listed") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        texts.insert(name.into_owned(), std::fs::read(&path).expect("readable"));
    }
    let mut wrong = Vec::new();
    for (name, text) in &texts {
        let outcome = scan(text, Strictness::Full).map(drop).map_err(Reason::of);
        if !as_documented(name, outcome) {
            wrong.push(format!("{name}: {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{} texts judged", texts.len());
    for name in REFUSED_BY_CHOICE.iter().map(|(name, _)| name) {
        assert!(texts.contains_key(*name), "{name} is not in the corpus");
    }
    for name in ACCEPTED_BY_CHOICE.iter().chain(&REFUSED_THOUGH_VALID) {
        assert!(texts.contains_key(*name), "{name} is not in the corpus");
    }
}

fn as_documented(name: &str, outcome: Result<(), Reason>) -> bool {
    if REFUSED_THOUGH_VALID.contains(&name) {
        return outcome == Err(Reason::RepeatedKey);
    }
    if ACCEPTED_BY_CHOICE.contains(&name) {
        return outcome.is_ok();
    }
    if let Some((_, reason)) = REFUSED_BY_CHOICE.iter().find(|(known, _)| *known == name) {
        return outcome == Err(*reason);
    }
    match name.split_once('_') {
        Some(("y", _)) => outcome.is_ok(),
        Some(("n", _)) => outcome.is_err(),
        Some(_) | None => false,
    }
}

fn folder() -> Option<PathBuf> {
    let within = "data/json/test_parsing";
    if let Some(shared) = std::env::var_os("CALLGATE_SHARED") {
        return Some(Path::new(&shared).join(within));
    }
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared").join(within))
        .find(|folder| folder.is_dir())
}
