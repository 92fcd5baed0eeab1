//! Transcripts: the events of each step, kept in the data folder as JSON lines that the user alone can read.
//!
//! Texts are redacted like everything on record. A step whose transcript cannot be written goes on without one.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use callgate_record::Recorder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{StepContext, StepEvent};

/// The folder in the data folder.
const FOLDER: &str = "agents";
const END: &str = ".jsonl";
/// Of more transcripts, the oldest are deleted.
const MAX_KEPT: usize = 1000;
/// Where a transcript is cut off.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The transcripts of a data folder.
#[derive(Debug, Clone)]
pub struct Transcripts {
    folder: PathBuf,
}

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptEvent {
    pub at: Timestamp,
    #[serde(flatten)]
    pub event: StepEvent,
}

/// Why a transcript cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum NoTranscript {
    #[error("no agent run `{0}`")]
    Unknown(String),
    #[error("cannot read `{}`: {error}", .file.display())]
    Unreadable { file: PathBuf, error: io::Error },
}

/// The transcript of a running step.
#[derive(Debug)]
pub(crate) struct Transcript {
    out: Mutex<Out>,
}

#[derive(Debug)]
struct Out {
    file: File,
    room: usize,
}

/// Begins the transcript of a step, if they are kept.
pub(crate) fn begin(context: &StepContext, step: &str) -> Option<Transcript> {
    let transcripts = context.transcripts.as_ref()?;
    match transcripts.begin(step) {
        Ok(transcript) => Some(transcript),
        Err(error) => {
            crate::log::transcript_not_kept(&error);
            None
        }
    }
}

impl Transcripts {
    /// Those in a data folder.
    pub fn of(data_dir: &Path) -> Self {
        Self {
            folder: data_dir.join(FOLDER),
        }
    }

    /// The ids of the steps, newest first.
    pub fn steps(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut steps: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter_map(|name| Some(name.strip_suffix(END)?.to_owned()))
            .collect();
        // The ids are ULIDs, which sort by time.
        steps.sort_unstable_by(|a, b| b.cmp(a));
        steps
    }

    /// The events of a step. An incomplete last line is left out.
    pub fn read(&self, step: &str) -> Result<Vec<KeptEvent>, NoTranscript> {
        let unknown = || NoTranscript::Unknown(step.to_owned());
        // The id comes from the command line. A valid ULID cannot leave the folder.
        step.parse::<Ulid>().map_err(|_| unknown())?;
        let file = self.file(step);
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unknown()),
            Err(error) => return Err(NoTranscript::Unreadable { file, error }),
        };
        let lines = text.split(|byte| *byte == b'\n');
        Ok(lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }

    fn begin(&self, step: &str) -> io::Result<Transcript> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        for old in self.steps().iter().skip(MAX_KEPT - 1) {
            // Another process may delete it at the same time.
            let _ = fs::remove_file(self.file(old));
        }
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .mode(0o600)
            .open(self.file(step))?;
        let room = MAX_BYTES;
        let out = Mutex::new(Out { file, room });
        Ok(Transcript { out })
    }

    fn file(&self, step: &str) -> PathBuf {
        self.folder.join(format!("{step}{END}"))
    }
}

impl Transcript {
    /// Adds an event, without secrets. After a failure nothing more is kept.
    pub(crate) fn add(&self, recorder: &Recorder, event: &StepEvent) {
        let kept = KeptEvent {
            at: Timestamp::now(),
            event: redacted(recorder, event.clone()),
        };
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.room == 0 {
            return;
        }
        let Ok(mut line) = serde_json::to_vec(&kept) else {
            return;
        };
        line.push(b'\n');
        let fits = line.len() <= out.room;
        if !fits {
            line = b"{\"type\":\"warning\",\"text\":\"the transcript is cut off here: it is too long\"}\n".to_vec();
        }
        match out.file.write_all(&line) {
            Ok(()) if fits => out.room -= line.len(),
            Ok(()) => out.room = 0,
            Err(error) => {
                out.room = 0;
                crate::log::transcript_not_kept(&error);
            }
        }
    }
}

/// An event whose free texts are redacted. Those of calls are redacted already.
fn redacted(recorder: &Recorder, mut event: StepEvent) -> StepEvent {
    match &mut event {
        StepEvent::Warning { text } | StepEvent::Text { text } => *text = recorder.redact(text),
        StepEvent::Finished { text, error, .. } => {
            *text = recorder.redact(text);
            *error = error.as_deref().map(|error| recorder.redact(error));
        }
        StepEvent::Started { .. }
        | StepEvent::Call(_)
        | StepEvent::CallEnded(_)
        | StepEvent::Bypassed { .. }
        | StepEvent::NativeRefused { .. } => {}
    }
    event
}
