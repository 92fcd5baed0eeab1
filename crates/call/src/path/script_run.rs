//! What encloses calls and is none itself: a script. It is on record from before it begins, and its end is as
//! well; the calls that it makes are its children there. Nothing leads from here to a provider but
//! [`ScriptRun::call`], which is the path itself.

use std::{sync::Arc, time::Instant};

use callgate_gate::{Attempt, CallId};
use callgate_record::{Effect, Failed, Open, Outcome, Status};
use callgate_wire::{Era, Json, Strictness, message};
use tokio_util::sync::CancellationToken;

use super::{CallPath, Pending, Shared, pending::Walked};
use crate::{
    Caller, CallerDriven, Received,
    events::gateway::RecordFailed,
    finish::{Refusal, for_stateless_host, no_record, refuse},
    receive::{Begun, receive},
};

/// The inside of something that is on record and makes calls.
#[derive(Debug, Clone)]
pub struct ScriptRun {
    path: CallPath,
    id: CallId,
    cancelled: CancellationToken,
}

/// What a call is a part of.
pub(super) struct Below {
    pub(super) parent: CallId,
    pub(super) via: Option<Arc<str>>,
}

/// What came of it.
#[derive(Debug)]
pub struct ScriptRunEnd {
    /// The JSON of the result that the host gets.
    pub result: String,
    /// Why it is no good one.
    pub failed: Option<String>,
}

impl ScriptRun {
    /// Its id, which is the parent of its calls.
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Fires when nobody waits for it any more.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Makes a call, like any other. `via` is what in it makes the call, if it is not the whole.
    pub fn call(
        &self,
        received: Received,
        caller: Arc<dyn Caller>,
        via: Option<Arc<str>>,
    ) -> Pending {
        let parent = self.id;
        let below = Below { parent, via };
        self.path.start_below(received, caller, Some(below))
    }
}

impl CallPath {
    /// Puts on record that a script begins, lets `work` do it, and puts its end on record. Like a call it can
    /// be cancelled, and draining waits for it.
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
        let walking = async move {
            let Begun {
                attempt, started, ..
            } = receive(received);
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
            answer: CallerDriven::new(walking, self.shared.tasks.clone()),
            code: None,
            held: None,
            cancelled,
        }
    }
}

impl Shared {
    /// Ends it on record, and makes the answer; none where nobody waits for it.
    async fn ended(
        &self,
        attempt: &Attempt,
        open: Open,
        started: Instant,
        ended: Option<ScriptRunEnd>,
    ) -> Walked {
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
