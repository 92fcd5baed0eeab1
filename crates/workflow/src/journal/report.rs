//! Reports on runs, from their journals.

use std::{
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    FOLDER, JournalError, folder,
    lines::{FinishedVisit, JournalState, Line, lines},
    locked,
};
use crate::{Status, Usage};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// A process holds the run's lock.
    Running,
    /// The run has no end in its journal, and no process holds its lock.
    Interrupted,
    Success,
    Failure,
}

/// A run, as its journal shows it.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    pub run: String,
    pub workflow: String,
    /// Where the workflow was read from.
    pub file: PathBuf,
    pub status: RunStatus,
    pub started: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// The message at the end of the run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub inputs: Map<String, Value>,
    /// The finished visits, in order.
    pub steps: Vec<StepReport>,
    /// The visits that started and have not finished.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
    /// What all agents used together.
    #[serde(skip_serializing_if = "Usage::is_empty")]
    pub usage: Usage,
    /// From the start of the run to its end; of a run without an end to its last finished visit.
    pub duration_ms: u64,
}

/// A finished visit of a state.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// Identifies the visit.
    pub key: String,
    pub state: String,
    pub status: Status,
    pub exit_code: i64,
    /// When the visit finished.
    pub at: Timestamp,
    pub duration_ms: u64,
    /// What its agent used.
    #[serde(skip_serializing_if = "Usage::is_empty")]
    pub usage: Usage,
    /// Empty unless the state failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// All runs, newest first. Unreadable ones are left out.
pub fn runs(data_dir: &Path) -> Vec<RunReport> {
    let entries = fs::read_dir(data_dir.join(FOLDER));
    let entries = entries.into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable_by(|a, b| b.cmp(a));
    let report = |name: &String| RunReport::of(data_dir, name).ok();
    names.iter().filter_map(report).collect()
}

impl RunReport {
    pub fn of(data_dir: &Path, run: &str) -> Result<Self, JournalError> {
        let folder = folder(data_dir, run)?;
        let is_running = match locked(&folder, run) {
            Ok(_) => false,
            Err(JournalError::Busy(_)) => true,
            Err(error) => return Err(error),
        };
        let lines = lines(&folder, run)?;
        let folded = JournalState::of(&lines);
        let Some(Line::Started {
            workflow,
            file,
            inputs,
            at,
            ..
        }) = folded.started
        else {
            return Err(JournalError::Damaged(run.to_owned()));
        };
        let (status, ended, message) = match folded.ended.clone() {
            _ if is_running => (RunStatus::Running, None, String::new()),
            None => (RunStatus::Interrupted, None, String::new()),
            Some((Status::Success, message, at)) => (RunStatus::Success, Some(at), message),
            Some((Status::Failure, message, at)) => (RunStatus::Failure, Some(at), message),
        };
        let mut usage = Usage::default();
        for (_, _, outcome, _) in &folded.finished {
            usage.add(&outcome.usage);
        }
        let last = ended.or_else(|| folded.finished.last().map(|(.., at)| *at));
        Ok(Self {
            run: run.to_owned(),
            workflow: workflow.clone(),
            file: file.clone(),
            status,
            started: *at,
            ended,
            message,
            inputs: inputs.clone(),
            steps: folded
                .finished
                .iter()
                .map(|visit| StepReport::of(visit, &folded))
                .collect(),
            open: folded.open.into_iter().cloned().collect(),
            usage,
            duration_ms: last.map_or(0, |last| since(*at, last)),
        })
    }
}

impl StepReport {
    fn of((key, state, outcome, at): &FinishedVisit<'_>, folded: &JournalState<'_>) -> Self {
        let began = folded.began.get(key);
        Self {
            key: (*key).clone(),
            state: (*state).clone(),
            status: outcome.status,
            exit_code: outcome.exit_code,
            at: *at,
            duration_ms: began.map_or(0, |began| since(*began, *at)),
            usage: outcome.usage.clone(),
            error: if outcome.has_failed() {
                outcome.stderr.clone()
            } else {
                String::new()
            },
        }
    }
}

/// The milliseconds between two times; 0 if the clock was set back between them.
fn since(began: Timestamp, ended: Timestamp) -> u64 {
    let passed = ended.duration_since(began).as_millis();
    u64::try_from(passed).unwrap_or(0)
}
