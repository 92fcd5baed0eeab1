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
    lines::{JournalState, Line, lines},
    locked,
};
use crate::Status;

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
        let (status, ended, message) = match folded.ended {
            _ if is_running => (RunStatus::Running, None, String::new()),
            None => (RunStatus::Interrupted, None, String::new()),
            Some((Status::Success, message, at)) => (RunStatus::Success, Some(at), message),
            Some((Status::Failure, message, at)) => (RunStatus::Failure, Some(at), message),
        };
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
                .map(|(key, state, outcome, at)| StepReport {
                    key: (*key).clone(),
                    state: (*state).clone(),
                    status: outcome.status,
                    exit_code: outcome.exit_code,
                    at: *at,
                    error: if outcome.has_failed() {
                        outcome.stderr.clone()
                    } else {
                        String::new()
                    },
                })
                .collect(),
            open: folded.open.into_iter().cloned().collect(),
        })
    }
}
