//! One run, seen from outside: what the worker asks is asked of [`HostCalls`], many at once, until the script ends
//! or is ended.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::{
    Form, HostCall, Limits, LocalPack, Outcome, Pool,
    frames::{BROKEN, Done, Failed, FromWorker, OUT_OF_CPU, Start, ToWorker},
    pool::Worker,
};

/// The signal that ends a process from outside.
const KILL: i32 = 9;
/// What a frame has besides the text of a script: names, numbers, places.
const FRAME_SLACK_BYTES: usize = 256 * 1024;
/// How many bytes one byte of text can become in a frame.
const LONGEST_ESCAPE: usize = 6;

/// A script that is to be run.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its text.
    pub source: String,
    /// Names that stand for packs, local ones included.
    pub packs: Vec<String>,
    /// Packs that are scripts themselves.
    pub local: Vec<LocalPack>,
    /// For whom: a worker that served one serves no other.
    pub owner: String,
    /// The one moment that the script sees, in microseconds since 1970.
    pub now_us: i64,
}

/// Does what a script asks for.
pub trait HostCalls: Send + Sync {
    /// Makes one call. Dropped, the call is given up.
    fn call(&self, call: HostCall) -> BoxFuture<'_, Reply>;
}

/// What becomes of a run after a call.
#[derive(Debug)]
pub enum Reply {
    /// The script goes on with this.
    Outcome(Outcome),
    /// The script does not go on. Calls that are under way are still waited for.
    Stop,
}

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// By itself.
    Done {
        /// What it printed.
        printed: String,
        /// The value of its last expression, or what it returned.
        value: Option<Box<RawValue>>,
        /// Otherwise what it assigned, in order.
        names: Vec<(String, Box<RawValue>)>,
        /// How it wants its result shown.
        form: Option<Form>,
    },
    /// By an error or a limit.
    Failed {
        /// What it had printed.
        printed: String,
        /// What is wrong, and what to do.
        message: String,
        /// The line in the script.
        line: Option<u32>,
    },
    /// By [`Reply::Stop`].
    Stopped,
}

impl Ended {
    fn failed(message: impl Into<String>) -> Self {
        Self::Failed {
            printed: String::new(),
            message: message.into(),
            line: None,
        }
    }
}

impl Pool {
    /// Runs a script. Dropped, the script is ended and its calls are given up.
    pub async fn run(&self, script: Script, limits: &Limits, outside: &dyn HostCalls) -> Ended {
        let until = Instant::now() + limits.wall;
        match timeout_at(until, self.run_on(script, limits, outside)).await {
            Ok(ended) => ended,
            Err(_) => Ended::failed(format!(
                "the script ran longer than {:?} (code.wall): do less in one run, or make calls at once with `asyncio.gather`",
                limits.wall
            )),
        }
    }

    async fn run_on(&self, script: Script, limits: &Limits, outside: &dyn HostCalls) -> Ended {
        let Some(_turn) = self.turn().await else {
            return Ended::failed("the gateway is stopping");
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
                Err(error) => return Ended::failed(error.to_string()),
            };
            let was_waiting = worker.was_waiting;
            match driven(&mut worker, &start, limits, outside).await {
                Driven::Ended(ended) => {
                    worker.was_waiting = true;
                    self.give_back(&script.owner, worker);
                    return ended;
                }
                Driven::Spent(ended) => return ended,
                Driven::Stopped => return Ended::Stopped,
                Driven::Gone { calls } => {
                    let (status, words) = worker.end().await;
                    let signal = status.as_ref().and_then(ExitStatus::signal);
                    // One that was killed while it waited is found out only now; nothing was done in it.
                    if was_waiting && calls == 0 && signal == Some(KILL) {
                        continue;
                    }
                    return Ended::failed(died(status, &words, limits));
                }
            }
        }
    }
}

/// What came of driving a worker.
enum Driven {
    /// The script ended; the worker waits for another.
    Ended(Ended),
    /// The script reached a limit; the worker is not used again.
    Spent(Ended),
    /// The script does not go on.
    Stopped,
    /// The worker is gone, or is not what was started.
    Gone { calls: u32 },
}

async fn driven(
    worker: &mut Worker,
    start: &ToWorker,
    limits: &Limits,
    outside: &dyn HostCalls,
) -> Driven {
    let longest = limits.output_bytes.saturating_mul(LONGEST_ESCAPE);
    let longest = longest.saturating_add(FRAME_SLACK_BYTES);
    let mut going = worker.tell(start).await;
    let mut under_way = FuturesUnordered::new();
    let mut calls = 0;
    while going {
        tokio::select! {
            said = worker.hear(longest) => match said {
                Some(FromWorker::Call(call)) if calls < limits.calls => {
                    calls += 1;
                    let id = call.id;
                    under_way.push(async move { (id, outside.call(call).await) });
                }
                Some(FromWorker::Done(done)) => return Driven::Ended(done.into()),
                Some(FromWorker::Failed(failed)) if failed.is_spent => {
                    return Driven::Spent(failed.into());
                }
                Some(FromWorker::Failed(failed)) => return Driven::Ended(failed.into()),
                // More calls than it may make, or something out of turn.
                Some(FromWorker::Call(_) | FromWorker::Ready) | None => going = false,
            },
            Some((id, reply)) = under_way.next() => match reply {
                Reply::Outcome(outcome) => {
                    going = worker.tell(&ToWorker::Answer { id, outcome }).await;
                }
                Reply::Stop => {
                    while under_way.next().await.is_some() {}
                    return Driven::Stopped;
                }
            },
        }
    }
    Driven::Gone { calls }
}

/// Why a worker is gone, as the script's author is told.
fn died(status: Option<ExitStatus>, words: &str, limits: &Limits) -> String {
    let code = status.and_then(|status| status.code());
    let signal = status.as_ref().and_then(ExitStatus::signal);
    let memory = || {
        format!(
            "the script used more than {} MiB of memory (code.memory_mib): keep less at once",
            limits.memory_bytes / (1024 * 1024)
        )
    };
    match (code, signal) {
        (Some(OUT_OF_CPU), _) => format!(
            "the script used more than {:?} of CPU time (code.cpu): do less, or in several runs",
            limits.cpu
        ),
        _ if words.contains("memory allocation") || words.contains("Cannot allocate") => memory(),
        _ if words.contains("overflowed its stack") => {
            "the script is nested too deeply: use loops and smaller expressions".to_owned()
        }
        (Some(BROKEN), _) => {
            "the interpreter failed at this script: write it in another way".to_owned()
        }
        (_, Some(_)) => "the script was ended from outside, or used too much memory".to_owned(),
        (_, None) => "the script ended without a result".to_owned(),
    }
}

impl From<Done> for Ended {
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

impl From<Failed> for Ended {
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
