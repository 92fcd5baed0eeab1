//! The journal of a run: one line per event, written before the run continues.
//!
//! A resumed run is executed again from its start, but takes the result of every finished state from the journal. An
//! incomplete last line is ignored. The process that executes a run holds its lock.

mod lines;
mod report;
mod spent;

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use callgate_agent::Spent;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Map, Value};
use ulid::Ulid;

use crate::{Outcome, Sources, Status};
use lines::{JournalState, Line, keys_to_repeat, lines};
pub use report::{RunReport, RunStatus, StepReport, runs};
use spent::SpentBefore;

/// The folder for runs in the data folder.
const FOLDER: &str = "workflows";
const JOURNAL: &str = "journal.jsonl";
/// A copy of the workflow from the start of the run: a resumed run must not see later edits.
const FILE: &str = "workflow.yaml";
const LOCK: &str = "lock";
/// The beginning of the names of scripts in use.
const SCRIPT: &str = "script-";

/// Why a run cannot be recorded or resumed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("unknown run `{0}`")]
    Unknown(String),
    /// Another process holds the run's lock.
    #[error("run `{0}` is in progress in another process")]
    Busy(String),
    #[error("cannot access the journal of run `{run}`: {error}")]
    Io { run: String, error: io::Error },
    #[error("the journal of run `{0}` is damaged: it has no start entry")]
    Damaged(String),
}

/// The journal of a run in progress. Holds the run's lock.
#[derive(Debug)]
pub struct Journal {
    pub run: String,
    pub text: String,
    /// Where the text was read from; relative paths in it start there.
    pub file: PathBuf,
    /// The working directory of the run.
    pub workdir: PathBuf,
    /// The values of its inputs.
    pub inputs: Map<String, Value>,
    /// The only state to run (`--step`); `None` for the whole workflow.
    pub only: Option<String>,
    /// Values of states that are not run, for a run of one state (`--mock`): the path `states.NAME.MEMBER`, and its text.
    pub mocks: Vec<(String, String)>,
    /// Whether the run continues an earlier one.
    pub resumed: bool,
    sources: Mutex<Sources>,
    folder: PathBuf,
    finished: BTreeMap<String, Outcome>,
    spent: SpentBefore,
    out: Mutex<File>,
    _lock: File,
}

/// How a run is resumed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Resumption<'a> {
    /// The state from whose last visit on everything is repeated; otherwise the run continues where it stopped.
    pub from: Option<&'a str>,
    /// Whether the run has its whole budget again, instead of what is left of it.
    pub fresh_budget: bool,
}

/// A run to start.
#[derive(Debug)]
pub struct NewRun<'a> {
    pub workflow: &'a str,
    pub text: &'a str,
    /// Where the text was read from; relative paths in it start there.
    pub file: &'a Path,
    /// The working directory of the run.
    pub workdir: &'a Path,
    /// The values of its inputs.
    pub inputs: Map<String, Value>,
    /// The only state to run (`--step`); `None` for the whole workflow.
    pub only: Option<String>,
    /// Values of states that are not run, for a run of one state (`--mock`): the path `states.NAME.MEMBER`, and its text.
    pub mocks: Vec<(String, String)>,
    /// The templates that were read for the workflow.
    pub sources: Sources,
}

impl Journal {
    pub fn begin(data_dir: &Path, beginning: NewRun<'_>) -> Result<Self, JournalError> {
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
        let NewRun {
            workflow,
            text,
            file,
            workdir,
            inputs,
            only,
            mocks,
            sources,
        } = beginning;
        let journal = Self {
            text: text.to_owned(),
            file: file.to_owned(),
            workdir: workdir.to_owned(),
            inputs: inputs.clone(),
            only: only.clone(),
            mocks: mocks.clone(),
            sources: Mutex::new(sources.clone()),
            folder,
            resumed: false,
            finished: BTreeMap::new(),
            spent: SpentBefore::default(),
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
            mocks,
            sources,
            at: Timestamp::now(),
        })?;
        Ok(journal)
    }

    /// Resumes a run. A state whose failure ended the run is repeated.
    pub fn resume(
        data_dir: &Path,
        run: &str,
        resumption: Resumption<'_>,
    ) -> Result<Self, JournalError> {
        let Resumption { from, fresh_budget } = resumption;
        let folder = folder(data_dir, run)?;
        let lock = locked(&folder, run)?;
        let failed = |error| JournalError::Io {
            run: run.to_owned(),
            error,
        };
        let text = fs::read_to_string(folder.join(FILE)).map_err(failed)?;
        let lines = lines(&folder, run)?;
        let again = keys_to_repeat(&lines, from);
        let folded = JournalState::of(&lines);
        let Some(Line::Started {
            file,
            workdir,
            inputs,
            only,
            mocks,
            sources,
            ..
        }) = folded.started.cloned()
        else {
            return Err(JournalError::Damaged(run.to_owned()));
        };
        let finished = folded.finished.into_iter();
        let finished = finished.filter(|(key, ..)| !again.contains(key));
        let finished = finished.map(|(key, _, outcome, _)| (key.clone(), outcome.clone()));
        remove_scripts(&folder);
        let out = opened(&folder).map_err(failed)?;
        let journal = Self {
            run: run.to_owned(),
            text,
            file,
            workdir,
            inputs,
            only,
            mocks,
            sources: Mutex::new(folded.sources.cloned().unwrap_or(sources)),
            folder,
            resumed: true,
            finished: finished.collect(),
            spent: match fresh_budget {
                true => SpentBefore::default(),
                false => SpentBefore::of(&lines),
            },
            out: Mutex::new(out),
            _lock: lock,
        };
        journal.write(&Line::Resumed {
            again,
            fresh_budget,
            at: Timestamp::now(),
        })?;
        Ok(journal)
    }

    /// The files that belong to the workflow, as they were when they were first read.
    pub fn sources(&self) -> Sources {
        self.locked_sources().clone()
    }

    fn locked_sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the files, once a called workflow has been read.
    pub(crate) fn keep_sources(&self, sources: &Sources) -> Result<(), JournalError> {
        if *self.locked_sources() == *sources {
            return Ok(());
        }
        self.write(&Line::Sources {
            sources: sources.clone(),
        })?;
        *self.locked_sources() = sources.clone();
        Ok(())
    }

    /// Writes a script to a private file, which goes with the returned value.
    pub(crate) fn script(&self, text: &str) -> io::Result<ScriptFile> {
        let path = self.folder.join(format!("{SCRIPT}{}", Ulid::generate()));
        let mut file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path)?;
        let file_of = ScriptFile(path);
        file.write_all(text.as_bytes())?;
        Ok(file_of)
    }

    /// The outcome of a visit that finished before the interruption.
    pub(crate) fn finished_outcome(&self, key: &str) -> Option<&Outcome> {
        self.finished.get(key)
    }

    /// What the visit `key` and all visits in it used before the run was resumed; with an empty key, the whole run.
    pub(crate) fn spent(&self, key: &str) -> Spent {
        self.spent.of_visit(key)
    }

    /// Notes what an attempt at the visit `key` has used, since the last such note.
    pub(crate) fn used(&self, key: &str, spent: Spent) -> Result<(), JournalError> {
        self.write(&Line::Used {
            key: key.to_owned(),
            calls: spent.calls,
            tokens: spent.tokens,
            cost_usd: spent.cost_usd,
            at: Timestamp::now(),
        })
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

    /// Writes a line in a single `write`: a crash can only cut the last line.
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

/// A script that is deleted after its use.
#[derive(Debug)]
pub(crate) struct ScriptFile(pub(crate) PathBuf);

impl Drop for ScriptFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Deletes scripts that a killed process left behind.
fn remove_scripts(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(SCRIPT) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn folder(data_dir: &Path, run: &str) -> Result<PathBuf, JournalError> {
    let unknown = || JournalError::Unknown(run.to_owned());
    // The id comes from the command line. A valid ULID is a single path component, so it cannot leave the folder.
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
    // The kernel releases the lock when its process dies, so a killed run can be resumed at once.
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
    // Ends an incomplete last line, or the next line would be appended to it and lost as well.
    let text = fs::read(&path)?;
    if text.last().is_some_and(|last| *last != b'\n') {
        out.write_all(b"\n")?;
    }
    Ok(out)
}
