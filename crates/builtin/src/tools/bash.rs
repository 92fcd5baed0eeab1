//! Bash: a command below a warden. It ends with its call, and so does everything it started.

use std::{path::PathBuf, time::Duration};

use bytes::Bytes;
use callgate_call::Exchange;
use callgate_gate::BuiltinTool;
use callgate_process::{CloseTimes, Ending, Process, ProcessSpec};
use callgate_wire::{Content, ToolAnswer};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::JoinHandle,
};

use super::files;
use crate::{
    Roots,
    answer::{Done, ToolFailed},
    arguments::{ArgumentError, Arguments},
    provider::{Answered, with},
};

/// How long a command may take when nothing is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest that can be asked for: a day.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);
/// How much is kept of each stream: so much of its head and so much of its tail.
const KEPT_BYTES: usize = 48 * 1024;
/// How long a command has between SIGTERM and SIGKILL once its time is up.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// How long the last bytes of a stream are waited for after the command has ended.
const STREAM_SLACK: Duration = Duration::from_secs(1);
/// How much is read at once.
const PIECE: usize = 16 * 1024;

/// How commands are run.
#[derive(Debug, Clone)]
pub(crate) struct Shell {
    /// Our own binary, which is started as the warden.
    pub(crate) warden_program: PathBuf,
    /// The whole environment of a command: keys of the gateway and of the agent are not in it.
    pub(crate) env: Vec<(String, String)>,
}

/// A command as it was asked for.
struct Asked {
    command: String,
    cwd: PathBuf,
    timeout: Duration,
}

/// Why a command is not running any more.
enum Ended {
    Itself(Ending),
    TimedOut,
    Cancelled,
}

pub(crate) async fn run(
    shell: &Shell,
    roots: &Roots,
    arguments: &Bytes,
    exchange: &Exchange,
) -> Answered {
    match with(BuiltinTool::Bash, arguments, |arguments| {
        asked(roots, arguments)
    }) {
        Ok(asked) => run_asked(shell, asked, exchange).await,
        Err(failed) => Answered::Done(Err(failed)),
    }
}

fn asked(roots: &Roots, arguments: Arguments<'_>) -> Result<Asked, ToolFailed> {
    let command = arguments.command("command")?.into_owned();
    let cwd = arguments.path_or_here("cwd")?;
    let seconds = arguments.number("timeout_seconds")?;
    if command.contains('\0') {
        return Err(ToolFailed::told("the command contains a NUL"));
    }
    let timeout = seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    if timeout.is_zero() || timeout > MAX_TIMEOUT {
        return Err(ArgumentError::WrongType {
            name: "timeout_seconds",
            wanted: "between 1 and 86400",
        }
        .into());
    }
    let at = roots.place(&cwd)?;
    if !files::is_folder(&at)? {
        let what = format!("`{}` is not a folder", at.asked());
        return Err(ToolFailed::told(what));
    }
    Ok(Asked {
        command,
        cwd: at.whole(),
        timeout,
    })
}

async fn run_asked(shell: &Shell, asked: Asked, exchange: &Exchange) -> Answered {
    let spec = ProcessSpec {
        warden_program: shell.warden_program.clone(),
        command: "bash".to_owned(),
        args: vec!["-c".to_owned(), asked.command],
        env: shell.env.clone(),
        cwd: Some(asked.cwd),
    };
    let mut process = match Process::spawn_piped(&spec) {
        Ok(process) => process,
        Err(error) => return Answered::Done(Err(ToolFailed::told(error.to_string()))),
    };
    // A command has no input: one that asks for some sees its end.
    drop(process.take_stdin());
    let stdout = tokio::spawn(keep(process.take_stdout()));
    let stderr = tokio::spawn(keep(process.take_stderr()));
    let ended = tokio::select! {
        ending = process.wait() => Ended::Itself(ending),
        () = tokio::time::sleep(asked.timeout) => Ended::TimedOut,
        () = exchange.cancelled.cancelled() => Ended::Cancelled,
    };
    if !matches!(ended, Ended::Itself(_)) {
        process
            .close(CloseTimes {
                after_eof: Duration::ZERO,
                after_term: TERM_GRACE,
            })
            .await;
    }
    let (stdout, stderr) = (last_words(stdout).await, last_words(stderr).await);
    match ended {
        Ended::Cancelled => Answered::Cancelled,
        Ended::TimedOut => {
            let seconds = asked.timeout.as_secs();
            let how = format!("exit code: none (killed after {seconds} s)");
            Answered::Done(shown(&how, true, &stdout, &stderr))
        }
        Ended::Itself(ending) => {
            let (how, failed) = told(&ending);
            Answered::Done(shown(&how, failed, &stdout, &stderr))
        }
    }
}

fn told(ending: &Ending) -> (String, bool) {
    match ending {
        Ending::Exited { code } => (format!("exit code: {code}"), *code != 0),
        Ending::NotStarted { message } => (format!("exit code: none ({message})"), true),
        Ending::WardenKilled { signal } => (format!("exit code: none (signal {signal})"), true),
        Ending::Unknown => ("exit code: not known".to_owned(), true),
    }
}

fn shown(how: &str, failed: bool, stdout: &Kept, stderr: &Kept) -> Done {
    let text = format!(
        "{how}\nstdout:\n{}\nstderr:\n{}",
        stdout.text(),
        stderr.text()
    );
    Ok(ToolAnswer {
        content: vec![Content::Text(text)],
        is_error: failed,
        ..ToolAnswer::default()
    })
}

/// The head and the tail of a stream.
#[derive(Debug, Default)]
struct Kept {
    head: Vec<u8>,
    tail: Vec<u8>,
    left_out: usize,
}

impl Kept {
    fn push(&mut self, mut bytes: &[u8]) {
        let room = KEPT_BYTES - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        bytes = rest;
        self.tail.extend_from_slice(bytes);
        // Let go of in large pieces, so that each byte is moved once.
        if self.tail.len() > 2 * KEPT_BYTES {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let over = self.tail.len().saturating_sub(KEPT_BYTES);
        self.tail.drain(..over);
        self.left_out += over;
    }

    fn text(&self) -> String {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if self.left_out == 0 {
            return lossy(&[self.head.as_slice(), &self.tail].concat());
        }
        format!(
            "{}\n[… {} bytes are left out …]\n{}",
            lossy(&self.head),
            self.left_out,
            lossy(&self.tail)
        )
    }
}

/// What was kept of a stream whose writers have ended. One that could not be killed may hold it open.
async fn last_words(mut keeping: JoinHandle<Kept>) -> Kept {
    let kept = tokio::time::timeout(STREAM_SLACK, &mut keeping).await;
    match kept {
        Ok(kept) => kept.unwrap_or_default(),
        Err(_) => {
            keeping.abort();
            Kept::default()
        }
    }
}

/// Reads a stream to its end, whatever is kept of it: a command must not block on writing.
async fn keep<R: AsyncRead + Unpin>(stream: Option<R>) -> Kept {
    let mut kept = Kept::default();
    let Some(mut stream) = stream else {
        return kept;
    };
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        kept.push(&piece[..length]);
    }
    kept.cut();
    kept
}
