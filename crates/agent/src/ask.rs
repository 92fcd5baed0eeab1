//! Runs an agent's program to query its version or configuration. Below a warden, with a deadline.

use std::{path::Path, time::Duration};

use callgate_process::{CloseTimes, Ending, Process, ProcessSpec, sandbox::Sandbox};
use tokio::io::AsyncReadExt;

use crate::failed::StepFailed;

/// The time limit for one query. Generous: some agents start slowly, more so on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_BYTES: u64 = 16 * 1024 * 1024;

pub(crate) struct Question<'a> {
    pub(crate) program: &'a str,
    pub(crate) args: &'a [&'a str],
    pub(crate) env: &'a [(String, String)],
    pub(crate) cwd: &'a Path,
    pub(crate) sandbox: Option<&'a Sandbox>,
}

/// Runs a program to its end and returns its stdout.
pub(crate) async fn ask(
    warden_program: &Path,
    question: &Question<'_>,
) -> Result<String, StepFailed> {
    let spec = ProcessSpec {
        warden_program: warden_program.to_owned(),
        command: question.program.to_owned(),
        args: question.args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: question.env.to_vec(),
        cwd: Some(question.cwd.to_owned()),
        sandbox: question.sandbox.cloned(),
    };
    let failed = |reason: String| StepFailed::NotStarted {
        program: question.program.to_owned(),
        reason,
    };
    let mut process = Process::spawn_piped(&spec).map_err(|error| failed(error.to_string()))?;
    drop(process.take_stdin());
    let (stdout, stderr) = (process.take_stdout(), process.take_stderr());
    let reading = async {
        let mut text = Vec::new();
        if let Some(stdout) = stdout {
            let _ = stdout.take(MAX_BYTES).read_to_end(&mut text).await;
        }
        text
    };
    let reading_stderr = async {
        let mut text = Vec::new();
        if let Some(stderr) = stderr {
            let _ = stderr.take(MAX_BYTES).read_to_end(&mut text).await;
        }
        text
    };
    let answering = async { tokio::join!(reading, reading_stderr, process.wait()) };
    let answered = tokio::time::timeout(ANSWER_TIMEOUT, answering).await;
    let Ok((stdout, stderr, ending)) = answered else {
        process
            .close(CloseTimes {
                after_eof: Duration::ZERO,
                after_term: Duration::from_secs(1),
            })
            .await;
        return Err(failed(format!(
            "it did not answer within {} s",
            ANSWER_TIMEOUT.as_secs()
        )));
    };
    let said = String::from_utf8_lossy(&stderr);
    match ending {
        Ending::Exited { code: 0 } => Ok(String::from_utf8_lossy(&stdout).into_owned()),
        Ending::Exited { code } => Err(failed(format!("exit code {code}: {}", said.trim()))),
        Ending::NotStarted { message } => Err(failed(message)),
        Ending::WardenKilled { .. } | Ending::Unknown => Err(failed("it was killed".to_owned())),
    }
}
