//! The lines of a journal, and what they amount to.

use std::{
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{JOURNAL, JournalError};
use crate::{Outcome, Status};

/// One line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    Started {
        workflow: String,
        /// Where the file came from: relative paths in it begin there.
        file: PathBuf,
        workdir: PathBuf,
        inputs: Map<String, Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<String>,
        at: Timestamp,
    },
    Began {
        key: String,
        state: String,
        at: Timestamp,
    },
    Finished {
        key: String,
        state: String,
        outcome: Outcome,
        at: Timestamp,
    },
    /// Gone on with; what stands there is done again.
    Resumed { again: Vec<String>, at: Timestamp },
    Ended {
        status: Status,
        message: String,
        at: Timestamp,
    },
}

/// What the lines amount to.
pub(super) struct Told<'a> {
    pub(super) started: Option<&'a Line>,
    pub(super) finished: Vec<(&'a String, &'a String, &'a Outcome, Timestamp)>,
    pub(super) open: Vec<&'a String>,
    pub(super) ended: Option<(Status, String, Timestamp)>,
}

impl<'a> Told<'a> {
    pub(super) fn of(lines: &'a [Line]) -> Self {
        let mut told = Self {
            started: None,
            finished: Vec::new(),
            open: Vec::new(),
            ended: None,
        };
        for line in lines {
            match line {
                Line::Started { .. } => told.started = Some(line),
                Line::Began { key, .. } => {
                    told.open.retain(|known| *known != key);
                    told.open.push(key);
                }
                Line::Finished {
                    key,
                    state,
                    outcome,
                    at,
                } => {
                    told.open.retain(|known| *known != key);
                    told.finished.retain(|(known, ..)| *known != key);
                    told.finished.push((key, state, outcome, *at));
                }
                Line::Resumed { again, .. } => {
                    told.finished.retain(|(known, ..)| !again.contains(known));
                    told.open.clear();
                    told.ended = None;
                }
                Line::Ended {
                    status,
                    message,
                    at,
                } => told.ended = Some((*status, message.clone(), *at)),
            }
        }
        told
    }
}

/// What is to be done again: everything from the last visit of `from` on; else what failed last, where the run
/// ended because of it.
pub(super) fn again(lines: &[Line], from: Option<&str>) -> Vec<String> {
    let told = Told::of(lines);
    let keys = |at: usize| {
        let rest = told.finished[at..].iter();
        rest.map(|(key, ..)| (*key).clone()).collect()
    };
    if let Some(from) = from {
        let at = told
            .finished
            .iter()
            .rposition(|(_, state, ..)| *state == from);
        return at.map(keys).unwrap_or_default();
    }
    let has_failed = matches!(told.ended, Some((Status::Failure, ..)));
    let failed_last = told
        .finished
        .last()
        .is_some_and(|(_, _, outcome, _)| outcome.has_failed());
    if !has_failed || !failed_last {
        return Vec::new();
    }
    // A branch or a body that failed took the states around it with it.
    let first = told
        .finished
        .iter()
        .rposition(|(_, _, outcome, _)| !outcome.has_failed());
    keys(first.map_or(0, |first| first + 1))
}

pub(super) fn lines(folder: &Path, run: &str) -> Result<Vec<Line>, JournalError> {
    let text = fs::read(folder.join(JOURNAL)).map_err(|error| JournalError::Io {
        run: run.to_owned(),
        error,
    })?;
    let lines = text.split(|byte| *byte == b'\n');
    // A line that was cut off never happened.
    Ok(lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect())
}
