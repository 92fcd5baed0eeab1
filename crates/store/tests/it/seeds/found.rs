//! What the files of a log say, read as little as needed: a segment only grows.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::support::{folders, segments};

/// The entries of the calls in a data folder.
#[derive(Debug, Default)]
pub(super) struct Found {
    segments: BTreeMap<PathBuf, Segment>,
    /// Which segments were there at the last look.
    present: Vec<PathBuf>,
}

#[derive(Debug, Default)]
struct Segment {
    read: usize,
    lines: Vec<Line>,
}

#[derive(Debug, Clone)]
struct Line {
    kind: Kind,
    id: String,
    /// The request that it is about; 0 where it names none.
    key: u64,
    approval: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Forwarding,
    Finished,
    Unknown,
    Refused,
}

/// How often a call has each kind of entry.
#[derive(Debug, Default, Clone)]
pub(super) struct Entries {
    pub(super) forwarding: u32,
    pub(super) finished: u32,
    pub(super) unknown: u32,
    /// Refused or held.
    pub(super) refused: u32,
    /// The approval that its forwarding names.
    pub(super) approval: Option<String>,
}

#[derive(Deserialize)]
struct Raw<'a> {
    kind: &'a str,
    id: Option<&'a str>,
    #[serde(borrow)]
    request_id: Option<Cow<'a, str>>,
    approval_id: Option<&'a str>,
}

impl Line {
    fn read(text: &[u8]) -> Option<Self> {
        let raw: Raw<'_> = serde_json::from_slice(text).ok()?;
        let kind = match raw.kind {
            "forwarding" => Kind::Forwarding,
            "finished" => Kind::Finished,
            "unknown" => Kind::Unknown,
            "refused" | "held" => Kind::Refused,
            _ => return None,
        };
        Some(Self {
            kind,
            id: raw.id?.to_owned(),
            key: raw.request_id.map_or(0, |id| id.parse().unwrap_or(0)),
            approval: raw.approval_id.map(str::to_owned),
        })
    }
}

impl Found {
    /// Reads what is new.
    pub(super) fn look(&mut self, dir: &Path) {
        let folders = folders(dir);
        self.present = folders.iter().flat_map(|folder| segments(folder)).collect();
        for path in &self.present {
            let Ok(text) = fs::read(path) else { continue };
            let segment = self.segments.entry(path.clone()).or_default();
            if text.len() < segment.read {
                *segment = Segment::default();
            }
            let new = &text[segment.read..];
            let whole = new.iter().rposition(|byte| *byte == b'\n');
            let whole = whole.map_or(0, |end| end + 1);
            let lines = new[..whole].split(|byte| *byte == b'\n');
            segment.lines.extend(lines.filter_map(Line::read));
            segment.read += whole;
        }
    }

    /// Forgets what was read: another folder is looked at from now on.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The entries of each call, by the key of its request.
    pub(super) fn entries(&self) -> BTreeMap<u64, Entries> {
        let lines = || {
            let there = self
                .present
                .iter()
                .filter_map(|path| self.segments.get(path));
            there.flat_map(|segment| &segment.lines)
        };
        let mut keys = BTreeMap::new();
        let mut entries: BTreeMap<u64, Entries> = BTreeMap::new();
        for line in lines().filter(|line| line.key != 0) {
            let of = entries.entry(line.key).or_default();
            match line.kind {
                Kind::Forwarding => {
                    of.forwarding += 1;
                    of.approval.clone_from(&line.approval);
                    keys.insert(&*line.id, line.key);
                }
                Kind::Refused => of.refused += 1,
                Kind::Finished | Kind::Unknown => {}
            }
        }
        for line in lines() {
            let Some(of) = keys.get(&*line.id).and_then(|key| entries.get_mut(key)) else {
                continue;
            };
            match line.kind {
                Kind::Finished => of.finished += 1,
                Kind::Unknown => of.unknown += 1,
                Kind::Forwarding | Kind::Refused => {}
            }
        }
        entries
    }
}
