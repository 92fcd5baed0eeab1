//! File edits in the arguments of a call, as line diffs.
//!
//! For display only; nothing is decided here. Unrecognised arguments are shown as they are.

use callgate_wire::{Json, JsonKind, Strictness};
use similar::{ChangeTag, TextDiff};

/// Keys of a file's path.
const PATHS: [&str; 6] = [
    "path",
    "file_path",
    "filePath",
    "filepath",
    "file",
    "filename",
];
/// Keys of a text and its replacement.
const PAIRS: [(&str, &str); 6] = [
    ("old_string", "new_string"),
    ("oldText", "newText"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("oldString", "newString"),
    ("search", "replace"),
];
/// Keys of a list of such pairs.
const LISTS: [&str; 2] = ["edits", "changes"];
/// Keys of a file's whole new text.
const WHOLE: [&str; 3] = ["content", "contents", "file_text"];
/// The most edits that are shown as diffs.
const MAX_EDITS: usize = 50;

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The file, as the call names it.
    pub path: String,
    /// The replaced text; `None` where the whole file is written.
    pub old: Option<String>,
    pub new: String,
}

/// A line of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffLine {
    Kept(String),
    Removed(String),
    Added(String),
}

/// The changes that a call's arguments describe.
pub fn file_edits(arguments: &str) -> Vec<FileEdit> {
    let Ok(json) = Json::validate(arguments.as_bytes(), Strictness::Envelope) else {
        return Vec::new();
    };
    let Some(path) = text_under(json, &PATHS) else {
        return Vec::new();
    };
    let mut edits = Vec::new();
    edits.extend(pair(json, &path));
    for list in LISTS.iter().filter_map(|key| json.get(key)) {
        if list.kind() == JsonKind::Array {
            edits.extend(
                list.elements()
                    .take(MAX_EDITS)
                    .filter_map(|one| pair(one, &path)),
            );
        }
    }
    if edits.is_empty() {
        edits.extend(text_under(json, &WHOLE).map(|new| FileEdit {
            path,
            old: None,
            new,
        }));
    }
    edits
}

impl FileEdit {
    /// The line diff, against `current` where the whole file is written.
    pub fn lines(&self, current: Option<&str>) -> Vec<DiffLine> {
        let old = self.old.as_deref().or(current).unwrap_or_default();
        let diff = TextDiff::from_lines(old, &self.new);
        let line = |change: similar::Change<&str>| {
            let text = change.value().trim_end_matches('\n').to_owned();
            match change.tag() {
                ChangeTag::Equal => DiffLine::Kept(text),
                ChangeTag::Delete => DiffLine::Removed(text),
                ChangeTag::Insert => DiffLine::Added(text),
            }
        };
        diff.iter_all_changes().map(line).collect()
    }
}

impl DiffLine {
    /// The sign in front of the line, and the line.
    pub fn parts(&self) -> (char, &str) {
        match self {
            Self::Kept(text) => (' ', text),
            Self::Removed(text) => ('-', text),
            Self::Added(text) => ('+', text),
        }
    }
}

fn pair(json: Json<'_>, path: &str) -> Option<FileEdit> {
    let (old, new) = PAIRS.iter().find_map(|(old, new)| {
        let old = json.get(old)?.as_str()?;
        Some((old, json.get(new)?.as_str()?))
    })?;
    Some(FileEdit {
        path: path.to_owned(),
        old: Some(old.into_owned()),
        new: new.into_owned(),
    })
}

fn text_under(json: Json<'_>, keys: &[&str]) -> Option<String> {
    let found = keys.iter().find_map(|key| json.get(key)?.as_str());
    found.map(|text| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(edit: &FileEdit, current: Option<&str>) -> String {
        let lines = edit.lines(current);
        let line = |line: &DiffLine| format!("{}{}", line.parts().0, line.parts().1);
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn edits_as_pairs_lists_and_whole_texts_are_recognised() {
        let one = file_edits(r#"{"file_path":"a","old_string":"x\ny\n","new_string":"x\nz\n"}"#);
        assert_eq!(one.len(), 1);
        assert_eq!(shown(&one[0], None), " x\n-y\n+z");
        let two = file_edits(
            r#"{"path":"a","edits":[{"oldText":"1","newText":"2"},{"oldText":"3","newText":"4"}]}"#,
        );
        assert_eq!(two.len(), 2);
        let whole = file_edits(r#"{"path":"a","content":"b\nc"}"#);
        assert_eq!(shown(&whole[0], Some("b\nd")), " b\n-d\n+c");
        assert_eq!(shown(&whole[0], None), "+b\n+c");
    }

    #[test]
    fn other_arguments_are_not_shown_as_edits() {
        for arguments in [
            "{}",
            "[]",
            r#"{"path":"a"}"#,
            r#"{"content":"a"}"#,
            "no json",
        ] {
            assert_eq!(file_edits(arguments), [], "{arguments}");
        }
    }
}
