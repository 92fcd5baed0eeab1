//! What retention keeps about the clock, in the file `activity/clock`.
//!
//! The file has a code made with the log's key. One that is missing, cut or forged counts as missing: then the times
//! of the entries themselves show how far the clock is believed, and a gap between them pauses retention.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use callgate_record::{ClockTrust, RetentionPause, WriterId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{disk::Files, key::Key};

/// The clock's trust, while one run of retention changes it.
#[derive(Debug, Default)]
pub(super) struct KeptClock {
    trust: Option<ClockTrust>,
    /// The newest time in front of chains whose beginning was dropped.
    before: BTreeMap<WriterId, Timestamp>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    #[serde(flatten)]
    trust: ClockTrust,
    #[serde(default)]
    before: BTreeMap<WriterId, Timestamp>,
}

impl KeptClock {
    pub(super) fn load(root: &Path) -> Self {
        match read(root) {
            Ok(content) => Self {
                trust: Some(content.trust),
                before: content.before,
            },
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    crate::log::clock_file_not_used(&path(root), &error);
                }
                Self::default()
            }
        }
    }

    /// Looks at the clock, and returns why age drops nothing, if so. `times` are those of the entries; they are used
    /// where nothing was kept.
    pub(super) fn look(
        &mut self,
        now: Timestamp,
        since: Option<Duration>,
        times: impl FnOnce() -> Vec<Timestamp>,
    ) -> Option<RetentionPause> {
        if self.trust.is_none() {
            self.trust = ClockTrust::from_times(times());
        }
        let trust = self.trust_at(now);
        trust.look(now, since);
        trust.pause(now)
    }

    pub(super) fn confirm(&mut self, now: Timestamp) {
        self.trust_at(now).confirm(now);
    }

    pub(super) fn restored(&mut self, now: Timestamp) {
        self.trust_at(now).restored = Some(now);
    }

    pub(super) fn known(self) -> Option<ClockTrust> {
        self.trust
    }

    /// The newest time in front of what is left of a chain.
    pub(super) fn noted(&self, writer: WriterId) -> Option<Timestamp> {
        self.before.get(&writer).copied()
    }

    /// Notes the newest time of what was dropped in front of a chain.
    pub(super) fn note(&mut self, writer: WriterId, newest: Timestamp) {
        self.before.insert(writer, newest);
    }

    pub(super) fn forget(&mut self, writer: WriterId) {
        self.before.remove(&writer);
    }

    /// Writes the file.
    pub(super) fn keep(&self, root: &Path, files: &Files) -> io::Result<()> {
        let Some(trust) = &self.trust else {
            return Ok(());
        };
        let content = Content {
            trust: trust.clone(),
            before: self.before.clone(),
        };
        let text = serde_json::to_string(&content)?;
        let key = Key::load(root).map_err(io::Error::other)?;
        let bytes = format!("{}\n{text}\n", key.code(&text));
        files.replace(&path(root), bytes.as_bytes())
    }

    fn trust_at(&mut self, now: Timestamp) -> &mut ClockTrust {
        self.trust.get_or_insert_with(|| ClockTrust::new(now))
    }
}

pub(super) fn path(root: &Path) -> PathBuf {
    root.join("clock")
}

fn read(root: &Path) -> io::Result<Content> {
    let text = fs::read_to_string(path(root))?;
    let key = Key::load(root).map_err(io::Error::other)?;
    let (code, content) = text.trim_end().split_once('\n').unwrap_or_default();
    if !key.made(code, content) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "its code was not made with the log's key",
        ));
    }
    Ok(serde_json::from_str(content)?)
}
