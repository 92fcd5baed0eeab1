//! Runs a step with an agent program: starts it below a warden, reads its events and judges its end.

mod environment;
mod prompt;

use std::{os::fd::AsFd, time::Duration};

use callgate_boxes::OpenBox;
use callgate_process::{CloseTimes, Ending, Process, ProcessSpec, sandbox::Sandbox, warden};
use callgate_server::StepDoor;
use callgate_wire::{Cut, LineCutter};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Proxy, StepFailed,
    access::Variables,
    agent_box,
    cli::AgentCli,
    door::Door,
    folder::{self, Folder},
    home::OwnHome,
    launch::{Launch, Relay, Task},
    progress::StepProgress,
    relay::RelayFile,
    step::Run,
};

#[cfg(test)]
pub(crate) use environment::own_environment;

/// The time between SIGTERM and SIGKILL. With the rest of the cleanup, a stopped step is gone within 6 s.
const TERM_GRACE: Duration = Duration::from_secs(4);
/// Longer event lines are skipped. Generous: an event may carry a whole tool result.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
/// How much of an agent's stderr is kept for error messages.
const STDERR_BYTES: usize = 4 * 1024;
/// How many of its last lines an error shows.
const STDERR_LINES: usize = 10;
/// How long to wait for the end of a stream after the program has ended.
const STREAM_TIMEOUT: Duration = Duration::from_secs(2);
const PIECE: usize = 64 * 1024;
/// The size of the pipe of an agent's events; the most that Linux grants every user.
#[cfg(target_os = "linux")]
const EVENT_PIPE_BYTES: usize = 1024 * 1024;

/// Runs the program of a step to its end.
pub(crate) async fn run(
    run: &Run<'_>,
    cli: &dyn AgentCli,
    progress: &mut StepProgress,
) -> Result<(), StepFailed> {
    folder::sweep();
    let folder = Folder::make()?;
    let spending = run.spending.clone();
    let step_door =
        StepDoor::new(run.id.clone(), run.span.context()).admitting(move || spending.admits_call());
    let closing = CancellationToken::new();
    let (relay, serving) = open_door(run, &folder, &step_door, &closing)?;
    let ended = tokio::select! {
        prepared = prepare(run, cli, &folder, relay) => match prepared {
            Ok(program) => program.run(run, &folder, &closing, progress).await,
            Err(failed) => Err(failed),
        },
        () = run.stop.cancelled() => Err(StepFailed::Stopped),
    };
    closing.cancel();
    if let Some(serving) = serving
        && serving.await.is_err()
    {
        crate::log::door_failed();
    }
    let is_proxied = run.step.proxy != Proxy::Off;
    let listed = !is_proxied || step_door.tools_were_listed();
    judge(ended, progress, listed).inspect_err(|failed| agent_box::advise(run, failed))
}

type Serving = Option<JoinHandle<()>>;

fn open_door(
    run: &Run<'_>,
    folder: &Folder,
    step_door: &StepDoor,
    closing: &CancellationToken,
) -> Result<(Option<Relay>, Serving), StepFailed> {
    if run.step.proxy == Proxy::Off {
        return Ok((None, None));
    }
    let door = Door::open(folder, agent_box::has_sockets(run))?;
    let file = RelayFile {
        traceparent: run.span.context().map(|trace| trace.parent().to_owned()),
        intercept_builtins: run.step.proxy == Proxy::Full,
        ..door.relay_file()
    };
    let text = serde_json::to_string(&file).map_err(std::io::Error::from)?;
    let relay = Relay {
        program: run.context.program.clone(),
        file: folder.write("relay.json", &text)?,
        doors: door.paths(),
    };
    let serving = door.serve(run.context.clone(), step_door.clone(), closing.clone());
    Ok((Some(relay), Some(tokio::spawn(serving))))
}

/// Makes the agent's home and its launch.
async fn prepare<'a>(
    run: &Run<'_>,
    cli: &'a dyn AgentCli,
    folder: &Folder,
    relay: Option<Relay>,
) -> Result<Program<'a>, StepFailed> {
    let users = [run.context.env.as_slice(), &run.step.options.extra_env].concat();
    let users = Variables(&users);
    let plan = agent_box::plan(run);
    let home = match run.step.proxy {
        Proxy::Full => Some(OwnHome::make(folder)?),
        // In a box the user's home is out of reach.
        Proxy::Additive if plan.is_some() => Some(OwnHome::make(folder)?),
        Proxy::Additive | Proxy::Off => None,
    };
    let env = match &home {
        None => users.0.to_vec(),
        Some(own) => environment::of_step(run, cli, users, own),
    };
    let grants = home.as_ref().map(|home| agent_box::Grants {
        folder,
        home,
        env: &env,
        users,
        relay: relay.as_ref(),
    });
    let open_box = match plan.zip(grants) {
        Some((plan, grants)) => Some(agent_box::open(run, cli, plan, &grants)?),
        None => None,
    };
    let prompt = prompt::prompt(run, cli, users).await;
    let task = Task {
        warden_program: &run.context.warden_program,
        folder,
        workdir: &run.step.workdir,
        proxy: run.step.proxy,
        options: &run.step.options,
        preface: prompt.preface,
        prompt: prompt.task,
        users,
        env: &env,
        home,
        sandbox: open_box.as_ref().map(OpenBox::sandbox),
        relay,
    };
    let launch = cli.launch(&task).await?;
    Ok(Program {
        cli,
        env,
        launch,
        open_box,
    })
}

/// An agent's program, ready to start.
struct Program<'a> {
    cli: &'a dyn AgentCli,
    env: Vec<(String, String)>,
    launch: Launch,
    open_box: Option<OpenBox>,
}

impl Program<'_> {
    /// Runs the program until it ends, is stopped or runs out of time, and cleans up after it.
    async fn run(
        mut self,
        run: &Run<'_>,
        folder: &Folder,
        closing: &CancellationToken,
        progress: &mut StepProgress,
    ) -> Result<ProgramExit, StepFailed> {
        let cli = self.cli;
        let open_box = self.open_box.take();
        let sandbox = open_box.as_ref().map(|open| open.sandbox().clone());
        let mut process = self.spawn(run, folder, sandbox)?;
        let stderr = tokio::spawn(tail(process.take_stderr()));
        let ended = watch(run, cli, &mut process, progress).await;
        // The door closes first: calls in flight must not outlive the agent that made them.
        closing.cancel();
        if ended.is_err() {
            let times = CloseTimes {
                after_eof: Duration::ZERO,
                after_term: TERM_GRACE,
            };
            process.close(times).await;
        }
        if let Some(open_box) = open_box {
            open_box.close().await;
        }
        let stderr = tokio::time::timeout(STREAM_TIMEOUT, stderr).await;
        let stderr = stderr.ok().and_then(Result::ok).unwrap_or_default();
        started(cli.program(), ended?, agent_box::own_words(&stderr))
    }

    /// Starts the program and writes its prompt to stdin.
    fn spawn(
        self,
        run: &Run<'_>,
        folder: &Folder,
        sandbox: Option<Sandbox>,
    ) -> Result<Process, StepFailed> {
        let Launch {
            mut args,
            env: added,
            stdin: prompt,
            cwd,
        } = self.launch;
        let mut env = self.env;
        env.extend(added);
        if let Some(trace) = run.span.context() {
            env.extend(trace.variables());
        }
        args.extend(run.step.options.extra_args.iter().cloned());
        let spec = ProcessSpec {
            warden_program: run.context.warden_program.clone(),
            command: self.cli.program().to_owned(),
            args,
            env,
            cwd: Some(cwd.unwrap_or_else(|| run.step.workdir.clone())),
            sandbox,
        };
        let spawned = Process::spawn_for(&spec, folder.path());
        let mut process = spawned.map_err(|error| StepFailed::NotStarted {
            program: spec.command.clone(),
            reason: error.to_string(),
        })?;
        if let Some(mut stdin) = process.take_stdin() {
            // In a task of its own: a long prompt fills the pipe before the agent reads. A failed write is ignored, because
            // the agent's missing final event tells more.
            tokio::spawn(async move {
                let _ = stdin.write_all(prompt.as_bytes()).await;
            });
        }
        Ok(process)
    }
}

/// Reads the agent's events until the program ends, the step is stopped or its time is up.
async fn watch(
    run: &Run<'_>,
    cli: &dyn AgentCli,
    process: &mut Process,
    progress: &mut StepProgress,
) -> Result<Ending, StepFailed> {
    let stdout = process.take_stdout();
    if let Some(stdout) = &stdout {
        enlarge(stdout);
    }
    let mut watcher = Watcher { run, cli, progress };
    let reading = watcher.read(stdout);
    let timeout = run.step.timeout.unwrap_or(Duration::MAX);
    let ending = async {
        tokio::pin!(reading);
        tokio::select! {
            () = &mut reading => process.wait().await,
            ending = process.wait() => {
                let _ = tokio::time::timeout(STREAM_TIMEOUT, reading).await;
                ending
            }
        }
    };
    tokio::select! {
        ending = ending => Ok(ending),
        () = run.stop.cancelled() => Err(StepFailed::Stopped),
        () = tokio::time::sleep(timeout) => Err(StepFailed::TimedOut(timeout)),
    }
}

/// Makes room for the events of an agent. Gemini exits without waiting until its last events are written: behind a large event,
/// they would be lost in a full pipe. Best effort: the system may allow less.
#[cfg(target_os = "linux")]
fn enlarge(stdout: impl AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(stdout, EVENT_PIPE_BYTES);
}

#[cfg(not(target_os = "linux"))]
fn enlarge(_stdout: impl AsFd) {}

/// Distinguishes a program that ran from one that the warden could not start.
fn started(program: &str, ending: Ending, stderr: String) -> Result<ProgramExit, StepFailed> {
    let program = program.to_owned();
    match ending {
        Ending::NotStarted { message } => Err(StepFailed::NotStarted {
            program,
            reason: message,
        }),
        Ending::Exited { code }
            if code == i32::from(warden::EXIT_NOT_STARTED)
                && stderr.starts_with(warden::NOT_STARTED_PREFIX) =>
        {
            Err(StepFailed::NotStarted {
                program,
                reason: stderr.trim().to_owned(),
            })
        }
        Ending::Exited { .. } | Ending::WardenKilled { .. } | Ending::Unknown => {
            Ok(ProgramExit { ending, stderr })
        }
    }
}

/// How a program exited by itself.
struct ProgramExit {
    ending: Ending,
    stderr: String,
}

/// A step only succeeds if the agent listed its tools, sent a final event without an error, and exited with code 0.
/// Any one of these alone can be wrong: some agents exit with 0 after a failure.
fn judge(
    ended: Result<ProgramExit, StepFailed>,
    progress: &StepProgress,
    listed: bool,
) -> Result<(), StepFailed> {
    let how = ended?;
    if let Some(Some(error)) = &progress.done {
        return Err(StepFailed::Agent(error.clone()));
    }
    if !listed {
        return Err(StepFailed::NoTools {
            stderr: last_lines(&how.stderr),
        });
    }
    let told = match &how.ending {
        Ending::Exited { code } => format!("exit code {code}"),
        Ending::NotStarted { message } => message.clone(),
        Ending::WardenKilled { signal } => format!("signal {signal}"),
        Ending::Unknown => "cause unknown".to_owned(),
    };
    match (&progress.done, &how.ending) {
        (Some(None), Ending::Exited { code: 0 }) => Ok(()),
        (Some(_), _) => {
            let stderr = last_lines(&how.stderr);
            Err(StepFailed::Agent(format!("{told}: {stderr}")))
        }
        (None, _) => {
            let stderr = progress.trouble.clone();
            let stderr = stderr.unwrap_or_else(|| last_lines(&how.stderr));
            Err(StepFailed::NoFinalEvent { how: told, stderr })
        }
    }
}

/// The end of what a program wrote to its stderr: the cause is usually printed last.
fn last_lines(stderr: &str) -> String {
    let lines: Vec<&str> = stderr
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(STDERR_LINES)..].join("\n")
}

/// Reads an agent's events.
struct Watcher<'a, 'r> {
    run: &'a Run<'r>,
    cli: &'a dyn AgentCli,
    progress: &'a mut StepProgress,
}

impl Watcher<'_, '_> {
    async fn read<R: AsyncRead + Unpin>(&mut self, stdout: Option<R>) {
        let Some(mut stdout) = stdout else {
            return;
        };
        let mut cutter = LineCutter::new(MAX_LINE_BYTES);
        loop {
            while let Some(cut) = cutter.cut() {
                match cut {
                    Cut::Line(line) => self.line(&line),
                    Cut::TooLong(_) => crate::log::event_too_long(),
                }
            }
            match stdout.read_buf(cutter.buffer()).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        // The last line may lack its newline.
        self.line(&cutter.into_rest());
    }

    fn line(&mut self, line: &[u8]) {
        // Agents also print other lines between their events.
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        for said in self.cli.read_event(&value) {
            self.progress.note(self.run, said);
        }
    }
}

/// The tail of an agent's stderr.
async fn tail<R: AsyncRead + Unpin>(stream: Option<R>) -> String {
    let Some(mut stream) = stream else {
        return String::new();
    };
    let mut kept = Vec::new();
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        kept.extend_from_slice(&piece[..length]);
        let over = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..over);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(code: i32) -> Result<ProgramExit, StepFailed> {
        Ok(ProgramExit {
            ending: Ending::Exited { code },
            stderr: "on stderr\n".to_owned(),
        })
    }

    fn seen(done: Option<Option<&str>>) -> StepProgress {
        let mut progress = StepProgress::default();
        progress.done = done.map(|error| error.map(str::to_owned));
        progress
    }

    #[test]
    fn success_requires_a_tool_list_a_good_final_event_and_exit_code_0() {
        let cases = [
            (exited(0), Some(None), true, "success"),
            (exited(0), Some(None), false, "NO_TOOLS"),
            (exited(0), None, true, "NO_FINAL_EVENT"),
            (exited(0), Some(Some("no")), true, "AGENT"),
            (exited(0), Some(Some("no")), false, "AGENT"),
            (exited(1), Some(None), true, "AGENT"),
            (exited(1), None, true, "NO_FINAL_EVENT"),
            (Err(StepFailed::Stopped), Some(None), true, "STOPPED"),
        ];
        for (ended, done, listed, expected) in cases {
            let judged = judge(ended, &seen(done), listed);
            let code = judged.as_ref().err().map_or("success", StepFailed::code);
            assert_eq!(code, expected, "{done:?} {listed} {judged:?}");
        }
    }

    #[test]
    fn a_killed_agent_fails_even_after_its_final_event() {
        for ending in [Ending::WardenKilled { signal: 9 }, Ending::Unknown] {
            let stderr = String::new();
            let how = Ok(ProgramExit { ending, stderr });
            let judged = judge(how, &seen(Some(None)), true);
            assert!(matches!(judged, Err(StepFailed::Agent(_))), "{judged:?}");
        }
    }

    #[test]
    fn a_missing_final_event_is_explained_by_the_last_reported_trouble() {
        let mut progress = seen(None);
        let told =
            |progress: &StepProgress| judge(exited(1), progress, true).unwrap_err().to_string();
        assert!(told(&progress).ends_with("; last output: on stderr"));
        progress.trouble = Some("quota".to_owned());
        assert!(told(&progress).ends_with("(exit code 1); last output: quota"));
    }

    #[test]
    fn a_failed_start_differs_from_a_failed_program() {
        let code = i32::from(warden::EXIT_NOT_STARTED);
        let ending = || Ending::Exited { code };
        let said = format!("{}: no such file", warden::NOT_STARTED_PREFIX);
        let missing = started("codex", ending(), said);
        assert!(matches!(missing, Err(StepFailed::NotStarted { .. })));
        assert!(started("codex", ending(), "its own words".to_owned()).is_ok());
    }

    #[tokio::test]
    async fn only_the_tail_of_stderr_is_kept() {
        let text = format!("{}the end", "x".repeat(3 * STDERR_BYTES));
        let kept = tail(Some(text.as_bytes())).await;
        assert_eq!(kept.len(), STDERR_BYTES);
        assert!(kept.ends_with("xthe end"));
    }
}
