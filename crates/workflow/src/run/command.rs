//! A command of a workflow: its author's own, below a warden. It ends with its state, and so does all that it
//! started.

use std::{path::PathBuf, time::Duration};

use callgate_process::{CloseTimes, Ending, Process, ProcessSpec};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{Failure, Outcome, Status};

/// The shell that commands are written for.
const SHELL: &str = "/bin/sh";
/// How much is kept of each stream; what comes after it is read and dropped.
const KEPT_BYTES: usize = 4 * 1024 * 1024;
/// How long a command has between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(3);
/// How long the last bytes of a stream are waited for after the command has ended.
const STREAM_SLACK: Duration = Duration::from_secs(1);
/// How much is read at once.
const PIECE: usize = 16 * 1024;

/// A command that is ready to be run.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) command: String,
    pub(super) dir: PathBuf,
    pub(super) env: Vec<(String, String)>,
    pub(super) warden_program: PathBuf,
    pub(super) timeout: Option<Duration>,
}

pub(super) async fn run(ready: Ready, stop: &CancellationToken) -> Result<Outcome, Failure> {
    let spec = ProcessSpec {
        warden_program: ready.warden_program,
        command: SHELL.to_owned(),
        args: vec!["-c".to_owned(), ready.command],
        env: ready.env,
        cwd: Some(ready.dir),
    };
    let spawned = Process::spawn_piped(&spec);
    let mut process = spawned.map_err(|error| Failure::Failed(error.to_string()))?;
    // Nobody answers what a command of a workflow asks.
    drop(process.take_stdin());
    let stdout = tokio::spawn(kept(process.take_stdout()));
    let stderr = tokio::spawn(kept(process.take_stderr()));
    let limit = ready.timeout.unwrap_or(Duration::MAX);
    let failure = tokio::select! {
        ending = process.wait() => {
            return Ok(outcome(&ending, text(stdout).await, text(stderr).await));
        }
        () = tokio::time::sleep(limit) => {
            Failure::TimedOut(format!("it was stopped after {} s", limit.as_secs_f64()))
        }
        () = stop.cancelled() => Failure::Stopped,
    };
    let times = CloseTimes {
        after_eof: Duration::ZERO,
        after_term: TERM_GRACE,
    };
    process.close(times).await;
    Err(failure)
}

fn outcome(ending: &Ending, output: String, stderr: String) -> Outcome {
    let exit_code = match ending {
        Ending::Exited { code } => i64::from(*code),
        Ending::NotStarted { .. } => 127,
        Ending::WardenKilled { signal } => 128 + i64::from(*signal),
        Ending::Unknown => 1,
    };
    Outcome {
        status: if exit_code == 0 {
            Status::Success
        } else {
            Status::Failure
        },
        // As in a shell's `$(…)`.
        output: output.trim_end_matches(['\n', '\r']).to_owned(),
        stderr,
        exit_code,
        ..Outcome::default()
    }
}

async fn text(stream: JoinHandle<Vec<u8>>) -> String {
    let bytes = tokio::time::timeout(STREAM_SLACK, stream).await;
    let bytes = bytes.ok().and_then(Result::ok).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn kept<R: AsyncRead + Unpin>(stream: Option<R>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else {
        return kept;
    };
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        let room = KEPT_BYTES - kept.len();
        kept.extend_from_slice(&piece[..length.min(room)]);
    }
    kept
}
