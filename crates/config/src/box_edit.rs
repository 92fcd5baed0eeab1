//! Writing the `box` of a server into `callgate.yaml`: a few lines are put in or replaced, and every other byte stays.
//!
//! The file is read with the parser that also reads the configuration, which has positions. What it does not need to
//! understand to do that safely is refused ([`NotEdited`]), and after the edit both versions are parsed and compared: nothing
//! but this box may differ. Rejected: crates that edit YAML documents; they reformat, or bring a second parser that need not
//! agree with the first.

mod document;

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use callgate_process::{kept_file, regular_file};

use crate::boxes::{BoxChoice, BoxKeys, PlacedText};
use document::{Document, Entry};

/// A box as it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenBox {
    pub mode: Option<BoxChoice>,
    pub read: Vec<String>,
    pub write: Vec<String>,
    pub net: Vec<String>,
}

/// Why a file was not edited. It is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum NotEdited {
    #[error("{0}")]
    Unusual(String),
    #[error("it changed while this command ran")]
    Changed,
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn unusual(what: impl Into<String>) -> NotEdited {
    NotEdited::Unusual(what.into())
}

impl WrittenBox {
    /// A box that is in the file already.
    pub fn of(keys: &BoxKeys) -> Self {
        let texts = |entries: &[PlacedText]| {
            let texts = entries.iter().map(|entry| entry.text.clone());
            texts.collect()
        };
        Self {
            mode: keys.mode,
            read: texts(&keys.read),
            write: texts(&keys.write),
            net: texts(&keys.net),
        }
    }

    /// The lines of `box:`, each behind `indent` spaces.
    pub fn lines(&self, indent: usize) -> String {
        let mut lines = String::new();
        let space = " ".repeat(indent);
        // Writing to a string cannot fail.
        let _ = match self == &Self::default() {
            true => writeln!(lines, "{space}box: {{}}"),
            false => writeln!(lines, "{space}box:"),
        };
        if let Some(mode) = self.mode {
            let _ = writeln!(lines, "{space}  mode: {}", mode.as_str());
        }
        for (key, entries) in [
            ("read", &self.read),
            ("write", &self.write),
            ("net", &self.net),
        ] {
            if !entries.is_empty() {
                let _ = writeln!(lines, "{space}  {key}:");
            }
            for entry in entries {
                let _ = writeln!(lines, "{space}    - {}", scalar(entry));
            }
        }
        lines
    }

    fn value(&self) -> serde_json::Value {
        let mut value = serde_json::Map::new();
        if let Some(mode) = self.mode {
            value.insert("mode".to_owned(), mode.as_str().into());
        }
        for (key, entries) in [
            ("read", &self.read),
            ("write", &self.write),
            ("net", &self.net),
        ] {
            if !entries.is_empty() {
                value.insert(key.to_owned(), entries.clone().into());
            }
        }
        value.into()
    }
}

/// A text that YAML reads as itself: plain if nothing in it means anything else, quoted otherwise.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-@+".contains(c);
    let (rest, starts) = match text.strip_prefix('~') {
        Some(rest) => (rest, rest.starts_with('/')),
        None => (
            text,
            text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
                || text.starts_with("./")
                || text.starts_with("../"),
        ),
    };
    // With one of these it is not read as `true`, `null` or `off`.
    let is_text = rest.contains(['/', '.']);
    match starts && is_text && rest.chars().all(is_plain) {
        true => text.to_owned(),
        // A string of JSON is one of YAML.
        false => serde_json::Value::from(text).to_string(),
    }
}

/// The text with this box for `servers.SERVER`, and nothing else changed.
pub fn with_box(text: &str, server: &str, written: &WrittenBox) -> Result<String, NotEdited> {
    let document = Document::read(text)?;
    let entry = document.server(server)?;
    let lines = written.lines(entry.indent);
    let mut reason = unusual("the place for `box` is not clear");
    // Behind the last key, or, if that cannot be told, in front of the first.
    for place in entry.places() {
        let edited = replaced(text, &place, &lines);
        match check(&document, &entry, (&edited, server), written) {
            Ok(()) => return Ok(edited),
            Err(not) => reason = not,
        }
    }
    Err(reason)
}

/// The text with other lines in place of the lines of `place`, counted from 0.
fn replaced(text: &str, place: &std::ops::Range<usize>, lines: &str) -> String {
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let (before, after) = (&all[..place.start], &all[place.end..]);
    format!("{}{lines}{}", before.concat(), after.concat())
}

/// Nothing but the box may differ, and the box must be read as it was meant.
fn check(
    before: &Document,
    entry: &Entry,
    (edited, server): (&str, &str),
    written: &WrittenBox,
) -> Result<(), NotEdited> {
    let after = Document::read(edited)?;
    let new = after.server(server)?;
    if !before.is_same_besides_box(entry, &after, &new) {
        return Err(unusual("more than the box would change"));
    }
    let value: serde_json::Value =
        serde_saphyr::from_str(edited).map_err(|error| unusual(error.to_string()))?;
    let read = &value["servers"][server]["box"];
    match *read == written.value() {
        true => Ok(()),
        false => Err(unusual(
            "the box would be read differently than it is meant",
        )),
    }
}

/// Replaces the file as a whole, if it still has the content that was edited. Its permissions and its owner stay, and a link
/// stays a link.
pub fn save(file: &Path, before: &str, after: &str) -> Result<(), NotEdited> {
    let real = fs::canonicalize(file)?;
    if regular_file::read(&real)? != before.as_bytes() {
        return Err(NotEdited::Changed);
    }
    Ok(kept_file::replace_as_it_is(&real, after.as_bytes())?)
}

#[cfg(test)]
mod tests;
