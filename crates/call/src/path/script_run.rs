//! A script run: it makes calls and is not a call itself. The record has its start and its end, and the script's calls as its
//! children. The only way from here to a provider is [`ScriptRun::call`], which is the call path.

use std::{sync::Arc, time::Instant};

use callgate_gate::{Attempt, CallId};
use callgate_record::{Effect, Failed, Open, Outcome, Status};
use callgate_wire::{Era, Json, Strictness, message};
use tokio_util::sync::CancellationToken;

use super::{CallPath, Pending, Shared, pending::PathOutput};
use crate::{
    Caller, CallerDriven, Received,
    events::gateway::RecordFailed,
    finish::{Refusal, for_stateless_host, no_record, refuse},
    receive::{ReceivedAttempt, receive},
};

/// A recorded script run, for the script to make calls with. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ScriptRun {
    path: CallPath,
    id: CallId,
    cancelled: CancellationToken,
}

/// The script run that makes a call.
pub(super) struct ParentRun {
    pub(super) parent: CallId,
    /// The part of the script that makes the call, if not the whole.
    pub(super) via: Option<Arc<str>>,
}

/// How a script ended.
#[derive(Debug)]
pub struct ScriptRunEnd {
    /// The JSON of the result that the host gets.
    pub result: String,
    /// Why the script failed; `None` for success.
    pub failed: Option<String>,
}

impl ScriptRun {
    /// The run's id in the record, which is the parent of its calls.
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Fires when the host cancels the run or disconnects.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Makes a call through the path. `via` names the part of the script that makes it, if not the whole.
    pub fn call(
        &self,
        received: Received,
        caller: Arc<dyn Caller>,
        via: Option<Arc<str>>,
    ) -> Pending {
        let parent = self.id;
        let parent_run = ParentRun { parent, via };
        self.path.start_under(received, caller, Some(parent_run))
    }
}

impl CallPath {
    /// Records the start of a script, runs `work`, and records the end. Like a call, a run can be cancelled, and draining
    /// waits for it.
    pub fn run_script<W, F>(&self, received: Received, work: W) -> Pending
    where
        W: FnOnce(ScriptRun) -> F + Send + 'static,
        F: Future<Output = ScriptRunEnd> + Send + 'static,
    {
        let (place, counted) = match self.enter(&received) {
            Ok(entered) => entered,
            Err(refused) => return *refused,
        };
        let cancelled = place.cancelled.clone();
        let path = self.clone();
        let ended = cancelled.clone();
        let running = async move {
            let ReceivedAttempt {
                attempt, started, ..
            } = receive(received);
            // Before the script starts: its calls name this entry as their parent.
            let answer = match path.shared.recorder.running(&attempt).await {
                Err(error) => {
                    let error = error.to_string();
                    let events = &path.shared.telemetry.events;
                    events.emit(RecordFailed { error: &error });
                    let ruling = no_record();
                    let answer = refuse(&attempt, &Refusal::Denied(&ruling));
                    (answer.frame, answer.code, None)
                }
                Ok(open) => {
                    let inside = ScriptRun {
                        path: path.clone(),
                        id: attempt.id,
                        cancelled: ended.clone(),
                    };
                    // A cancelled script is dropped where it waits: it must not start further calls.
                    let ended = tokio::select! {
                        ended = work(inside) => Some(ended),
                        () = ended.cancelled() => None,
                    };
                    path.shared.ended(&attempt, open, started, ended).await
                }
            };
            drop((place, counted));
            answer
        };
        Pending {
            answer: CallerDriven::new(running, self.shared.tasks.clone()),
            code: None,
            held: None,
            cancelled,
        }
    }
}

impl Shared {
    /// Records the end and builds the answer; `None` where the run was cancelled.
    async fn ended(
        &self,
        attempt: &Attempt,
        open: Open,
        started: Instant,
        ended: Option<ScriptRunEnd>,
    ) -> PathOutput {
        let failed = match &ended {
            None => Some("cancelled by the host"),
            Some(ended) => ended.failed.as_deref(),
        };
        let response = ended.as_ref().map(|ended| ended.result.as_bytes());
        let response =
            response.and_then(|result| Json::validate(result, Strictness::Envelope).ok());
        let outcome = Outcome {
            status: if failed.is_some() {
                Status::Error
            } else {
                Status::Success
            },
            // Effects are those of the script's calls, which have their own entries.
            effect: Effect::Done,
            duration_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            response,
            error: failed.map(|text| Failed {
                code: 0,
                message: text.to_owned(),
            }),
        };
        self.recorder.finished(open, outcome).await;
        let answer = ended.and_then(|ended| {
            let answer = message::result(attempt.frame.id()?, &ended.result);
            Some(match attempt.host.era {
                Era::Handshake => answer,
                Era::Stateless => {
                    for_stateless_host(answer, attempt.frame.method().unwrap_or_default())
                }
            })
        });
        (answer.map(Into::into), None, None)
    }
}
