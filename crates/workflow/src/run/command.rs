//! Runs a command of a workflow below a warden. It ends with its state, together with everything it started.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use callgate_boxes::{BoxPlan, Occupant, OpenBox};
use callgate_process::{CloseTimes, Ending, Process, ProcessSpec};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{Failure, Outcome, Status};

const SHELL: &str = "/bin/sh";
/// Shells that understand what is written for `/bin/sh`. Another `$SHELL` is not used.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "yash"];
/// How much is kept of each stream; the rest is read and dropped.
const MAX_STREAM_BYTES: usize = 4 * 1024 * 1024;
/// The time between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(3);
/// How long to wait for the end of a stream after the command has ended.
const STREAM_SLACK: Duration = Duration::from_secs(1);
const PIECE: usize = 16 * 1024;

/// What to start.
#[derive(Debug)]
pub(super) enum Runnable {
    /// A command for the shell.
    Shell(String),
    /// A file for its interpreter, with the argument from its first line.
    Script {
        interpreter: String,
        argument: Option<String>,
        file: PathBuf,
    },
}

impl Runnable {
    /// The program to start, and its arguments.
    fn program(self, shell: String) -> (String, Vec<String>) {
        match self {
            Self::Shell(command) => (shell, vec!["-c".to_owned(), command]),
            Self::Script {
                interpreter,
                argument,
                file,
            } => {
                let file = file.display().to_string();
                (interpreter, argument.into_iter().chain([file]).collect())
            }
        }
    }
}

/// A command with its templates rendered.
#[derive(Debug)]
pub(super) struct CommandRun<'a> {
    pub(super) script: Runnable,
    pub(super) dir: PathBuf,
    pub(super) env: Vec<(String, String)>,
    pub(super) warden_program: PathBuf,
    pub(super) timeout: Option<Duration>,
    pub(super) command_box: Option<&'a BoxPlan>,
}

/// Runs a command, in a box of its own if commands are boxed.
pub(super) async fn run(
    ready: CommandRun<'_>,
    stop: &CancellationToken,
) -> Result<Outcome, Failure> {
    let shell = shell(&ready.env);
    let occupant = || Occupant {
        title: "workflow command".to_owned(),
        // An interpreter is not granted: the file that names it is not trusted.
        program: match &ready.script {
            Runnable::Shell(_) => shell.clone().into(),
            Runnable::Script { file, .. } => file.clone(),
        },
        warden_program: Some(ready.warden_program.clone()),
        ..Occupant::default()
    };
    let open_box = ready.command_box.map(|plan| plan.open(occupant()));
    let open_box = open_box
        .transpose()
        .map_err(|error| Failure::Failed(error.to_string()))?;
    let done = run_in(open_box.as_ref(), (ready, shell.clone()), stop).await;
    if let Some(open_box) = open_box {
        open_box.close().await;
    }
    done
}

async fn run_in(
    open_box: Option<&OpenBox>,
    (ready, shell): (CommandRun<'_>, String),
    stop: &CancellationToken,
) -> Result<Outcome, Failure> {
    let (program, args) = ready.script.program(shell);
    let spec = ProcessSpec {
        warden_program: ready.warden_program,
        command: program,
        args,
        env: ready.env,
        cwd: Some(ready.dir),
        sandbox: open_box.map(|open| open.sandbox().clone()),
    };
    let spawned = match open_box.and_then(OpenBox::folder) {
        Some(folder) => Process::spawn_for(&spec, folder),
        None => Process::spawn_piped(&spec),
    };
    let mut process = spawned.map_err(|error| Failure::Failed(error.to_string()))?;
    // A workflow runs unattended: a command that reads stdin must see its end instead of waiting.
    drop(process.take_stdin());
    let stdout = tokio::spawn(read_capped(process.take_stdout()));
    let stderr = tokio::spawn(read_capped(process.take_stderr()));
    let limit = ready.timeout.unwrap_or(Duration::MAX);
    let failure = tokio::select! {
        ending = process.wait() => {
            return Ok(outcome(&ending, text(stdout).await, text(stderr).await));
        }
        () = tokio::time::sleep(limit) => {
            Failure::TimedOut(format!("timed out after {} s", limit.as_secs_f64()))
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

/// The user's shell, as `$SHELL` names it, or else `/bin/sh`.
fn shell(env: &[(String, String)]) -> String {
    let named = env.iter().find(|(name, _)| name == "SHELL");
    let named = named.map(|(_, shell)| Path::new(shell));
    let usable = named.filter(|shell| {
        let name = shell.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| SHELLS.contains(&name)) && shell.is_absolute() && shell.is_file()
    });
    usable.map_or_else(|| SHELL.to_owned(), |shell| shell.display().to_string())
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
        // Like a shell's `$(…)`, so the output can be used in other commands.
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

async fn read_capped<R: AsyncRead + Unpin>(stream: Option<R>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(mut stream) = stream else {
        return bytes;
    };
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        let room = MAX_STREAM_BYTES - bytes.len();
        bytes.extend_from_slice(&piece[..length.min(room)]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_run_in_the_users_shell_if_it_is_one_of_posix() {
        let of = |value: &str| shell(&[("SHELL".to_owned(), value.to_owned())]);
        assert_eq!(shell(&[]), "/bin/sh");
        assert_eq!(of("/bin/sh"), "/bin/sh");
        for other in ["sh", "/bin/none/bash", "/bin/true", ""] {
            assert_eq!(of(other), "/bin/sh", "{other}");
        }
        if Path::new("/bin/bash").is_file() {
            assert_eq!(of("/bin/bash"), "/bin/bash");
        }
    }
}
