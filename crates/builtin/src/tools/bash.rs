//! Bash: a command below a warden, which ends with its call together with everything it started.

use std::{path::PathBuf, time::Duration};

use bytes::Bytes;
use callgate_call::Exchange;
use callgate_gate::BuiltinTool;
use callgate_process::{CloseTimes, Ending, Process, ProcessSpec};
use callgate_wire::{Content, ToolResult};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::JoinHandle,
};

use super::files;
use crate::{
    Roots,
    answer::{FileToolResult, ToolFailed},
    arguments::{ArgumentError, Arguments},
    provider::{ToolEnd, with},
};

/// A command's timeout if the call sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest timeout that a call can set: a day.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);
/// How much is kept of a stream's head, and again of its tail.
const EXCERPT_BYTES: usize = 48 * 1024;
/// The time between SIGTERM and SIGKILL after a timeout.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// How long to wait for the end of a stream after the command has ended.
const STREAM_SLACK: Duration = Duration::from_secs(1);
const PIECE: usize = 16 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Shell {
    pub(crate) warden_program: PathBuf,
    /// The whole environment of a command. API keys of the gateway and the agent are not in it.
    pub(crate) env: Vec<(String, String)>,
}

struct BashRequest {
    command: String,
    cwd: PathBuf,
    timeout: Duration,
}

/// Why a command ended.
enum CommandEnd {
    Itself(Ending),
    TimedOut,
    Cancelled,
}

pub(crate) async fn run(
    shell: &Shell,
    roots: &Roots,
    arguments: &Bytes,
    exchange: &Exchange,
) -> ToolEnd {
    match with(BuiltinTool::Bash, arguments, |arguments| {
        parse_request(roots, arguments)
    }) {
        Ok(request) => run_request(shell, request, exchange).await,
        Err(failed) => ToolEnd::Finished(Err(failed)),
    }
}

fn parse_request(roots: &Roots, arguments: Arguments<'_>) -> Result<BashRequest, ToolFailed> {
    let command = arguments.command("command")?.into_owned();
    let cwd = arguments.path_or_here("cwd")?;
    let seconds = arguments.number("timeout_seconds")?;
    if command.contains('\0') {
        return Err(ToolFailed::message("the command contains a NUL"));
    }
    let timeout = seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    if timeout.is_zero() || timeout > MAX_TIMEOUT {
        return Err(ArgumentError::WrongType {
            name: "timeout_seconds",
            expected: "between 1 and 86400",
        }
        .into());
    }
    let at = roots.place(&cwd)?;
    if !files::is_folder(&at)? {
        let what = format!("`{}` is not a folder", at.as_requested());
        return Err(ToolFailed::message(what));
    }
    Ok(BashRequest {
        command,
        cwd: at.whole(),
        timeout,
    })
}

async fn run_request(shell: &Shell, request: BashRequest, exchange: &Exchange) -> ToolEnd {
    let spec = ProcessSpec {
        warden_program: shell.warden_program.clone(),
        command: "bash".to_owned(),
        args: vec!["-c".to_owned(), request.command],
        env: shell.env.clone(),
        cwd: Some(request.cwd),
        sandbox: None,
    };
    let mut process = match Process::spawn_piped(&spec) {
        Ok(process) => process,
        Err(error) => return ToolEnd::Finished(Err(ToolFailed::message(error.to_string()))),
    };
    // Closed, so that a command that reads stdin sees its end instead of waiting until the timeout.
    drop(process.take_stdin());
    let stdout = tokio::spawn(read_excerpt(process.take_stdout()));
    let stderr = tokio::spawn(read_excerpt(process.take_stderr()));
    let ended = tokio::select! {
        ending = process.wait() => CommandEnd::Itself(ending),
        () = tokio::time::sleep(request.timeout) => CommandEnd::TimedOut,
        () = exchange.cancelled.cancelled() => CommandEnd::Cancelled,
    };
    if !matches!(ended, CommandEnd::Itself(_)) {
        process
            .close(CloseTimes {
                after_eof: Duration::ZERO,
                after_term: TERM_GRACE,
            })
            .await;
    }
    let (stdout, stderr) = (
        finished_excerpt(stdout).await,
        finished_excerpt(stderr).await,
    );
    match ended {
        CommandEnd::Cancelled => ToolEnd::Cancelled,
        CommandEnd::TimedOut => {
            let seconds = request.timeout.as_secs();
            let how = format!("exit code: none (killed after {seconds} s)");
            ToolEnd::Finished(shown(&how, true, &stdout, &stderr))
        }
        CommandEnd::Itself(ending) => {
            let (how, failed) = exit_line(&ending);
            ToolEnd::Finished(shown(&how, failed, &stdout, &stderr))
        }
    }
}

fn exit_line(ending: &Ending) -> (String, bool) {
    match ending {
        Ending::Exited { code } => (format!("exit code: {code}"), *code != 0),
        Ending::NotStarted { message } => (format!("exit code: none ({message})"), true),
        Ending::WardenKilled { signal } => (format!("exit code: none (signal {signal})"), true),
        Ending::Unknown => ("exit code: unknown".to_owned(), true),
    }
}

fn shown(
    how: &str,
    failed: bool,
    stdout: &StreamExcerpt,
    stderr: &StreamExcerpt,
) -> FileToolResult {
    let text = format!(
        "{how}\nstdout:\n{}\nstderr:\n{}",
        stdout.text(),
        stderr.text()
    );
    Ok(ToolResult {
        content: vec![Content::Text(text)],
        is_error: failed,
        ..ToolResult::default()
    })
}

/// The head and the tail of a stream.
#[derive(Debug, Default)]
struct StreamExcerpt {
    head: Vec<u8>,
    tail: Vec<u8>,
    omitted: usize,
}

impl StreamExcerpt {
    fn push(&mut self, mut bytes: &[u8]) {
        let room = EXCERPT_BYTES - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        bytes = rest;
        self.tail.extend_from_slice(bytes);
        // Cut only at twice the limit: each byte is then moved at most once, not on every read.
        if self.tail.len() > 2 * EXCERPT_BYTES {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let over = self.tail.len().saturating_sub(EXCERPT_BYTES);
        self.tail.drain(..over);
        self.omitted += over;
    }

    fn text(&self) -> String {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if self.omitted == 0 {
            return lossy(&[self.head.as_slice(), &self.tail].concat());
        }
        format!(
            "{}\n[… {} bytes omitted …]\n{}",
            lossy(&self.head),
            self.omitted,
            lossy(&self.tail)
        )
    }
}

/// The excerpt of a stream whose writers have ended. The wait is bounded: a process that could not be killed may
/// still hold the pipe open.
async fn finished_excerpt(mut reading: JoinHandle<StreamExcerpt>) -> StreamExcerpt {
    let excerpt = tokio::time::timeout(STREAM_SLACK, &mut reading).await;
    match excerpt {
        Ok(excerpt) => excerpt.unwrap_or_default(),
        Err(_) => {
            reading.abort();
            StreamExcerpt::default()
        }
    }
}

/// Reads a stream to its end, beyond what is kept: a full pipe would block the command.
async fn read_excerpt<R: AsyncRead + Unpin>(stream: Option<R>) -> StreamExcerpt {
    let mut excerpt = StreamExcerpt::default();
    let Some(mut stream) = stream else {
        return excerpt;
    };
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        excerpt.push(&piece[..length]);
    }
    excerpt.cut();
    excerpt
}
