//! The lines of a journal, and the state that they add up to.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{JOURNAL, JournalError};
use crate::{Outcome, Sources, Status};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    Started {
        workflow: String,
        /// Where the workflow was read from; relative paths in it start there.
        file: PathBuf,
        workdir: PathBuf,
        inputs: Map<String, Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        mocks: Vec<(String, String)>,
        #[serde(default)]
        sources: Sources,
        at: Timestamp,
    },
    /// All files that belong to the workflow so far.
    Sources { sources: Sources },
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
    /// What an attempt at a visit has used since the last such line.
    Used {
        key: String,
        #[serde(default)]
        calls: u64,
        #[serde(default)]
        tokens: u64,
        #[serde(default)]
        cost_usd: f64,
        at: Timestamp,
    },
    /// The run was resumed; the visits in `again` are repeated.
    Resumed {
        again: Vec<String>,
        /// Whether what was used before does not count any more.
        #[serde(default)]
        fresh_budget: bool,
        at: Timestamp,
    },
    Ended {
        status: Status,
        message: String,
        at: Timestamp,
    },
}

/// The key and the state of a finished visit, its outcome, and when it finished.
pub(super) type FinishedVisit<'a> = (&'a String, &'a String, &'a Outcome, Timestamp);

/// The state of a run after all its lines.
pub(super) struct JournalState<'a> {
    pub(super) started: Option<&'a Line>,
    pub(super) finished: Vec<FinishedVisit<'a>>,
    /// When each visit began, the last time.
    pub(super) began: BTreeMap<&'a String, Timestamp>,
    pub(super) open: Vec<&'a String>,
    pub(super) ended: Option<(Status, String, Timestamp)>,
    pub(super) sources: Option<&'a Sources>,
}

impl<'a> JournalState<'a> {
    pub(super) fn of(lines: &'a [Line]) -> Self {
        let mut folded = Self {
            started: None,
            finished: Vec::new(),
            began: BTreeMap::new(),
            open: Vec::new(),
            ended: None,
            sources: None,
        };
        for line in lines {
            match line {
                Line::Started { .. } => folded.started = Some(line),
                Line::Sources { sources } => folded.sources = Some(sources),
                Line::Used { .. } => {}
                Line::Began { key, at, .. } => {
                    folded.began.insert(key, *at);
                    folded.open.retain(|known| *known != key);
                    folded.open.push(key);
                }
                Line::Finished {
                    key,
                    state,
                    outcome,
                    at,
                } => {
                    folded.open.retain(|known| *known != key);
                    folded.finished.retain(|(known, ..)| *known != key);
                    folded.finished.push((key, state, outcome, *at));
                }
                Line::Resumed { again, .. } => {
                    folded.finished.retain(|(known, ..)| !again.contains(known));
                    folded.open.clear();
                    folded.ended = None;
                }
                Line::Ended {
                    status,
                    message,
                    at,
                } => folded.ended = Some((*status, message.clone(), *at)),
            }
        }
        folded
    }
}

/// The visits to repeat: everything from the last visit of `from` on; without `from`, the failed visits at the end, if
/// the run failed because of them.
pub(super) fn keys_to_repeat(lines: &[Line], from: Option<&str>) -> Vec<String> {
    let folded = JournalState::of(lines);
    let keys = |at: usize| {
        let rest = folded.finished[at..].iter();
        rest.map(|(key, ..)| (*key).clone()).collect()
    };
    if let Some(from) = from {
        let at = folded
            .finished
            .iter()
            .rposition(|(_, state, ..)| *state == from);
        return at.map(keys).unwrap_or_default();
    }
    let has_failed = matches!(folded.ended, Some((Status::Failure, ..)));
    let failed_last = folded
        .finished
        .last()
        .is_some_and(|(_, _, outcome, _)| outcome.has_failed());
    if !has_failed || !failed_last {
        return Vec::new();
    }
    // A failed branch or loop body also failed the states around it, so all of them are repeated.
    let first = folded
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
    // An incomplete line was never acted on: the run only continues after the write.
    Ok(lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect())
}
