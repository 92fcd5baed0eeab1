//! One run as the gateway sees it: passes the worker's calls to [`HostCalls`], concurrently, until the script ends or
//! is stopped.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::{
    Form, HostCall, Limits, LocalPack, Outcome, Pool,
    frames::{Done, EXIT_INTERPRETER_FAILED, EXIT_OUT_OF_CPU, Failed, FromWorker, Start, ToWorker},
    pool::Worker,
};

/// SIGKILL.
const KILL: i32 = 9;
/// Room in a frame for everything besides the script's output.
const FRAME_SLACK_BYTES: usize = 256 * 1024;
/// The most bytes that one byte of text becomes when escaped in JSON: `\u0000`.
const LONGEST_ESCAPE: usize = 6;

#[derive(Debug, Clone)]
pub struct Script {
    pub source: String,
    /// The names of all packs, local ones included.
    pub packs: Vec<String>,
    /// Packs that are scripts themselves.
    pub local: Vec<LocalPack>,
    /// Workers are never shared between owners.
    pub owner: String,
    /// The script's fixed clock, in microseconds since 1970.
    pub now_us: i64,
}

/// Makes the calls of a script.
pub trait HostCalls: Send + Sync {
    /// Makes one call. Dropping the future cancels it.
    fn call(&self, call: HostCall) -> BoxFuture<'_, CallReply>;
}

/// How a run continues after a call.
#[derive(Debug)]
pub enum CallReply {
    /// The script continues with this outcome.
    Outcome(Outcome),
    /// The script is stopped. Calls in flight are still awaited.
    Stop,
}

/// How a run ended.
#[derive(Debug)]
pub enum ScriptEnd {
    /// The script ran to its end.
    Done {
        printed: String,
        /// The value of its last expression, or what it returned.
        value: Option<Box<RawValue>>,
        /// Without a value: the names that it assigned, in order.
        names: Vec<(String, Box<RawValue>)>,
        /// The result format that the script chose.
        form: Option<Form>,
    },
    /// The script failed or reached a limit.
    Failed {
        printed: String,
        /// What went wrong, and what to do.
        message: String,
        /// The line in the script.
        line: Option<u32>,
    },
    /// By [`CallReply::Stop`].
    Stopped,
}

impl ScriptEnd {
    fn failed(message: impl Into<String>) -> Self {
        Self::Failed {
            printed: String::new(),
            message: message.into(),
            line: None,
        }
    }
}

impl Pool {
    /// Runs a script. Dropping the future kills the worker and cancels the calls.
    pub async fn run(&self, script: Script, limits: &Limits, outside: &dyn HostCalls) -> ScriptEnd {
        let until = Instant::now() + limits.wall;
        match timeout_at(until, self.run_on(script, limits, outside)).await {
            Ok(ended) => ended,
            Err(_) => ScriptEnd::failed(format!(
                "the script ran longer than {:?} (code.wall): do less in one run, or make calls at once with `asyncio.gather`",
                limits.wall
            )),
        }
    }

    async fn run_on(&self, script: Script, limits: &Limits, outside: &dyn HostCalls) -> ScriptEnd {
        let Some(_permit) = self.run_permit().await else {
            return ScriptEnd::failed("the gateway is stopping");
        };
        let start = ToWorker::Start(Box::new(Start {
            source: script.source,
            packs: script.packs,
            local: script.local,
            limits: limits.clone(),
            now_us: script.now_us,
        }));
        loop {
            let mut worker = match self.take(&script.owner, limits.memory_bytes).await {
                Ok(worker) => worker,
                Err(error) => return ScriptEnd::failed(error.to_string()),
            };
            let was_waiting = worker.was_waiting;
            match drive(&mut worker, &start, limits, outside).await {
                DriveOutcome::Ended(ended) => {
                    worker.was_waiting = true;
                    self.give_back(&script.owner, worker);
                    return ended;
                }
                DriveOutcome::Spent(ended) => return ended,
                DriveOutcome::Stopped => return ScriptEnd::Stopped,
                DriveOutcome::Gone { calls } => {
                    let (status, stderr) = worker.end().await;
                    let signal = status.as_ref().and_then(ExitStatus::signal);
                    // A worker that was killed while idle is only noticed now. The script made no call yet, so running it
                    // again on another worker is safe.
                    if was_waiting && calls == 0 && signal == Some(KILL) {
                        continue;
                    }
                    return ScriptEnd::failed(death_message(status, &stderr, limits));
                }
            }
        }
    }
}

/// How driving a worker ended.
enum DriveOutcome {
    /// The script ended; the worker can be reused.
    Ended(ScriptEnd),
    /// The script reached a limit; the worker is not reused.
    Spent(ScriptEnd),
    /// A call ended the run with [`CallReply::Stop`].
    Stopped,
    /// The worker died or broke the protocol.
    Gone { calls: u32 },
}

async fn drive(
    worker: &mut Worker,
    start: &ToWorker,
    limits: &Limits,
    outside: &dyn HostCalls,
) -> DriveOutcome {
    let longest = limits.output_bytes.saturating_mul(LONGEST_ESCAPE);
    let longest = longest.saturating_add(FRAME_SLACK_BYTES);
    let mut going = worker.send(start).await;
    let mut in_flight = FuturesUnordered::new();
    let mut calls = 0;
    while going {
        tokio::select! {
            said = worker.receive(longest) => match said {
                Some(FromWorker::Call(call)) if calls < limits.calls => {
                    calls += 1;
                    let id = call.id;
                    in_flight.push(async move { (id, outside.call(call).await) });
                }
                Some(FromWorker::Done(done)) => return DriveOutcome::Ended(done.into()),
                Some(FromWorker::Failed(failed)) if failed.is_spent => {
                    return DriveOutcome::Spent(failed.into());
                }
                Some(FromWorker::Failed(failed)) => return DriveOutcome::Ended(failed.into()),
                // More calls than allowed, or a frame out of order: the worker enforces the limit itself, so this one is
                // no longer trusted.
                Some(FromWorker::Call(_) | FromWorker::Ready) | None => going = false,
            },
            Some((id, reply)) = in_flight.next() => match reply {
                CallReply::Outcome(outcome) => {
                    going = worker.send(&ToWorker::Answer { id, outcome }).await;
                }
                CallReply::Stop => {
                    while in_flight.next().await.is_some() {}
                    return DriveOutcome::Stopped;
                }
            },
        }
    }
    DriveOutcome::Gone { calls }
}

/// Why a worker died, for the script's author.
fn death_message(status: Option<ExitStatus>, stderr: &str, limits: &Limits) -> String {
    let code = status.and_then(|status| status.code());
    let signal = status.as_ref().and_then(ExitStatus::signal);
    let memory = || {
        format!(
            "the script used more than {} MiB of memory (code.memory_mib): keep less at once",
            limits.memory_bytes / (1024 * 1024)
        )
    };
    match (code, signal) {
        (Some(EXIT_OUT_OF_CPU), _) => format!(
            "the script used more than {:?} of CPU time (code.cpu): do less, or in several runs",
            limits.cpu
        ),
        _ if stderr.contains("memory allocation") || stderr.contains("Cannot allocate") => memory(),
        _ if stderr.contains("overflowed its stack") => {
            "the script is nested too deeply: use loops and smaller expressions".to_owned()
        }
        (Some(EXIT_INTERPRETER_FAILED), _) => {
            "the interpreter crashed on this script: write it differently".to_owned()
        }
        (_, Some(_)) => {
            "the script's process was killed from outside, or it used too much memory".to_owned()
        }
        (_, None) => "the script ended without a result".to_owned(),
    }
}

impl From<Done> for ScriptEnd {
    fn from(done: Done) -> Self {
        let Done {
            printed,
            value,
            names,
            form,
        } = done;
        Self::Done {
            printed,
            value,
            names,
            form,
        }
    }
}

impl From<Failed> for ScriptEnd {
    fn from(failed: Failed) -> Self {
        let Failed {
            printed,
            message,
            line,
            is_spent: _,
        } = failed;
        Self::Failed {
            printed,
            message,
            line,
        }
    }
}
