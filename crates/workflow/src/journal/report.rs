//! What is known about runs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    FOLDER, JournalError, folder,
    lines::{Line, Told, lines},
    locked,
};
use crate::Status;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Somebody walks it.
    Running,
    /// Nobody does, and it has not ended.
    Interrupted,
    /// It ended well.
    Success,
    /// It ended, and not well.
    Failure,
}

/// What is known about a run.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// Its id.
    pub run: String,
    /// The workflow.
    pub workflow: String,
    /// Where its file came from.
    pub file: PathBuf,
    /// How it stands.
    pub status: RunStatus,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// What was said in the end.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What it was given.
    pub inputs: Map<String, Value>,
    /// The states that are over, in order.
    pub steps: Vec<StepReport>,
    /// The states that were begun and are not over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
}

/// What is known about a state of a run.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// Which visit of it.
    pub key: String,
    /// Its name.
    pub state: String,
    /// Whether it worked.
    pub status: Status,
    /// Its exit code.
    pub exit_code: i64,
    /// When it was over.
    pub at: Timestamp,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// Every run, newest first.
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
    /// What is known about one run.
    pub fn of(data_dir: &Path, run: &str) -> Result<Self, JournalError> {
        let folder = folder(data_dir, run)?;
        let is_running = match locked(&folder, run) {
            Ok(_) => false,
            Err(JournalError::Busy(_)) => true,
            Err(error) => return Err(error),
        };
        let lines = lines(&folder, run)?;
        let told = Told::of(&lines);
        let Some(Line::Started {
            workflow,
            file,
            inputs,
            at,
            ..
        }) = told.started
        else {
            return Err(JournalError::Damaged(run.to_owned()));
        };
        let (status, ended, message) = match told.ended {
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
            steps: told
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
            open: told.open.into_iter().cloned().collect(),
        })
    }
}
