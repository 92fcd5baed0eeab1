//! The journal of a run: one line for each thing that happened, written before the run goes on.
//!
//! A run that was killed is walked again from its beginning, and every state that stands in the journal as over is
//! taken from there. A last line that was cut off never happened. Whoever walks a run holds its lock.

mod lines;
mod report;

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Map, Value};
use ulid::Ulid;

use crate::{Outcome, Status};
use lines::{Line, Told, again, lines};
pub use report::{RunReport, RunStatus, StepReport, runs};

/// The folder of runs in the data folder.
const FOLDER: &str = "workflows";
const JOURNAL: &str = "journal.jsonl";
/// The workflow as it was when the run began.
const FILE: &str = "workflow.yaml";
const LOCK: &str = "lock";

/// Why a run cannot be kept or gone on with.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// There is no such run.
    #[error("there is no run `{0}`")]
    Unknown(String),
    /// Somebody walks it right now.
    #[error("run `{0}` is under way")]
    Busy(String),
    /// It cannot be read or written.
    #[error("the journal of run `{run}`: {error}")]
    Io {
        /// The run.
        run: String,
        /// What the system said.
        error: io::Error,
    },
    /// It is damaged.
    #[error("the journal of run `{0}` is damaged")]
    Damaged(String),
}

/// A run that is walked.
#[derive(Debug)]
pub struct Journal {
    /// The run's id.
    pub run: String,
    /// Its workflow's text.
    pub text: String,
    /// Where that came from.
    pub file: PathBuf,
    /// Where the run works.
    pub workdir: PathBuf,
    /// What it was given.
    pub inputs: Map<String, Value>,
    /// The one state that it is about, where it is about one.
    pub only: Option<String>,
    /// Whether it was begun before.
    pub resumed: bool,
    finished: BTreeMap<String, Outcome>,
    out: Mutex<File>,
    _lock: File,
}

/// A run that begins.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// The workflow's name.
    pub workflow: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Where that came from.
    pub file: &'a Path,
    /// Where the run works.
    pub workdir: &'a Path,
    /// What it is given.
    pub inputs: Map<String, Value>,
    /// The one state that it is about, where it is about one.
    pub only: Option<String>,
}

impl Journal {
    /// Begins a run.
    pub fn begin(data_dir: &Path, beginning: Beginning<'_>) -> Result<Self, JournalError> {
        let run = Ulid::generate().to_string();
        let folder = data_dir.join(FOLDER).join(&run);
        let failed = |error| JournalError::Io {
            run: run.clone(),
            error,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(failed)?;
        let lock = locked(&folder, &run)?;
        fs::write(folder.join(FILE), beginning.text).map_err(failed)?;
        let out = opened(&folder).map_err(failed)?;
        let Beginning {
            workflow,
            text,
            file,
            workdir,
            inputs,
            only,
        } = beginning;
        let journal = Self {
            text: text.to_owned(),
            file: file.to_owned(),
            workdir: workdir.to_owned(),
            inputs: inputs.clone(),
            only: only.clone(),
            resumed: false,
            finished: BTreeMap::new(),
            out: Mutex::new(out),
            _lock: lock,
            run,
        };
        journal.write(&Line::Started {
            workflow: workflow.to_owned(),
            file: journal.file.clone(),
            workdir: journal.workdir.clone(),
            inputs,
            only,
            at: Timestamp::now(),
        })?;
        Ok(journal)
    }

    /// Goes on with a run: from the last visit of a state where one is named, else where it stopped. A state that
    /// failed in the end is done again.
    pub fn resume(data_dir: &Path, run: &str, from: Option<&str>) -> Result<Self, JournalError> {
        let folder = folder(data_dir, run)?;
        let lock = locked(&folder, run)?;
        let failed = |error| JournalError::Io {
            run: run.to_owned(),
            error,
        };
        let text = fs::read_to_string(folder.join(FILE)).map_err(failed)?;
        let lines = lines(&folder, run)?;
        let again = again(&lines, from);
        let told = Told::of(&lines);
        let Some(Line::Started {
            file,
            workdir,
            inputs,
            only,
            ..
        }) = told.started.cloned()
        else {
            return Err(JournalError::Damaged(run.to_owned()));
        };
        let mut finished: BTreeMap<String, Outcome> = told
            .finished
            .into_iter()
            .map(|(key, _, outcome, _)| (key.clone(), outcome.clone()))
            .collect();
        finished.retain(|key, _| !again.contains(key));
        let journal = Self {
            run: run.to_owned(),
            text,
            file,
            workdir,
            inputs,
            only,
            resumed: true,
            finished,
            out: Mutex::new(opened(&folder).map_err(failed)?),
            _lock: lock,
        };
        journal.write(&Line::Resumed {
            again,
            at: Timestamp::now(),
        })?;
        Ok(journal)
    }

    /// What came of a state before the run was interrupted.
    pub(crate) fn kept(&self, key: &str) -> Option<&Outcome> {
        self.finished.get(key)
    }

    pub(crate) fn began(&self, key: &str, state: &str) -> Result<(), JournalError> {
        self.write(&Line::Began {
            key: key.to_owned(),
            state: state.to_owned(),
            at: Timestamp::now(),
        })
    }

    pub(crate) fn finished(
        &self,
        key: &str,
        state: &str,
        outcome: &Outcome,
    ) -> Result<(), JournalError> {
        self.write(&Line::Finished {
            key: key.to_owned(),
            state: state.to_owned(),
            outcome: outcome.clone(),
            at: Timestamp::now(),
        })
    }

    pub(crate) fn ended(&self, status: Status, message: &str) -> Result<(), JournalError> {
        self.write(&Line::Ended {
            status,
            message: message.to_owned(),
            at: Timestamp::now(),
        })
    }

    /// One write for one line: what was cut off is the last line, and alone.
    fn write(&self, line: &Line) -> Result<(), JournalError> {
        let failed = |error| JournalError::Io {
            run: self.run.clone(),
            error,
        };
        let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(&text).map_err(failed)
    }
}

fn folder(data_dir: &Path, run: &str) -> Result<PathBuf, JournalError> {
    let unknown = || JournalError::Unknown(run.to_owned());
    // An id is one part of a path, and leads nowhere else.
    run.parse::<Ulid>().map_err(|_| unknown())?;
    let folder = data_dir.join(FOLDER).join(run);
    if folder.is_dir() {
        Ok(folder)
    } else {
        Err(unknown())
    }
}

fn locked(folder: &Path, run: &str) -> Result<File, JournalError> {
    let failed = |error| JournalError::Io {
        run: run.to_owned(),
        error,
    };
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(folder.join(LOCK))
        .map_err(failed)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(JournalError::Busy(run.to_owned())),
        Err(error) => Err(failed(error.into())),
    }
}

fn opened(folder: &Path) -> io::Result<File> {
    let path = folder.join(JOURNAL);
    let mut out = OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        .mode(0o600)
        .open(&path)?;
    // A line that was cut off must not grow together with the next.
    let text = fs::read(&path)?;
    if text.last().is_some_and(|last| *last != b'\n') {
        out.write_all(b"\n")?;
    }
    Ok(out)
}
