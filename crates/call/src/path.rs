//! The one path: the order of the steps, and the task that a call runs in.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use callgate_gate::{Verdict, decide};
use callgate_record::Recorder;
use callgate_wire::{RpcError, message};
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Caller, Exchange, Providers, Received, Registry, facts,
    finish::{Ended, Refusal, finish, finish_unresolved, refuse},
    forward::forward,
    hold::hold,
    receive::receive,
    resolve::resolve,
};

/// The way of every call, whatever door it came through.
#[derive(Debug, Clone)]
pub struct CallPath {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    providers: Arc<dyn Providers>,
    recorder: Recorder,
    registry: Arc<Registry>,
    tasks: TaskTracker,
}

/// A call under way, from the door's side. Dropping it cancels the call.
#[derive(Debug)]
pub struct Pending {
    answer: oneshot::Receiver<Option<Bytes>>,
    cancelled: CancellationToken,
}

impl CallPath {
    /// A path over `providers` that puts everything on record with `recorder`.
    pub fn new(providers: Arc<dyn Providers>, recorder: Recorder) -> Self {
        let registry = Arc::new(Registry::default());
        let tasks = TaskTracker::new();
        Self {
            shared: Arc::new(Shared {
                providers,
                recorder,
                registry,
                tasks,
            }),
        }
    }

    /// What can be called.
    pub fn providers(&self) -> &Arc<dyn Providers> {
        &self.shared.providers
    }

    /// The calls under way.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// The recorder, for what happens outside of calls.
    pub fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// Starts a call in a task of its own.
    pub fn start(&self, received: Received, caller: Arc<dyn Caller>) -> Pending {
        let (send, answer) = oneshot::channel();
        let session = received.host.who.session.clone();
        let Some(id) = received.frame.id().cloned() else {
            let error = RpcError::new(RpcError::INVALID_REQUEST, "a call needs an id");
            let _ = send.send(Some(message::error(None, &error)));
            return Pending {
                answer,
                cancelled: CancellationToken::new(),
            };
        };
        let Some(place) = self.shared.registry.enter(&session, &id) else {
            let error = RpcError::new(
                RpcError::INVALID_REQUEST,
                "a request of this id is still under way",
            );
            let _ = send.send(Some(message::error(Some(&id), &error)));
            return Pending {
                answer,
                cancelled: CancellationToken::new(),
            };
        };
        let cancelled = place.cancelled.clone();
        let exchange = Exchange {
            caller,
            cancelled: cancelled.clone(),
        };
        let shared = self.shared.clone();
        self.shared.tasks.spawn(async move {
            let answer = shared.walk(received, exchange).await;
            drop(place);
            // A door that went away does not want the answer; the record has it.
            let _ = send.send(answer);
        });
        Pending { answer, cancelled }
    }

    /// Lets the calls under way end, for at most `patience`; then cancels what is left and waits
    /// for its records.
    pub async fn drain(&self, patience: Duration) {
        self.shared.tasks.close();
        if tokio::time::timeout(patience, self.shared.tasks.wait())
            .await
            .is_err()
        {
            self.shared.registry.cancel_all();
            self.shared.tasks.wait().await;
        }
    }
}

impl Shared {
    async fn walk(&self, received: Received, exchange: Exchange) -> Option<Bytes> {
        let (attempt, started) = receive(received);
        let call = match resolve(&*self.providers, attempt).await {
            Ok(call) => call,
            Err(unresolved) => return finish_unresolved(&self.recorder, unresolved),
        };
        let request = call.attempt.frame.clone();
        let facts = facts::gather(&call);
        let permit = match decide(call, &self.providers.policy(), &facts) {
            Verdict::Permit(permit) => permit,
            Verdict::Hold(held) => return refuse(&request, &hold(&self.recorder, &held).await),
            Verdict::Deny(denied) => {
                self.recorder.denied(&denied);
                let ruling = denied.ruling().clone();
                return refuse(
                    &request,
                    &Refusal::Denied {
                        rule: ruling.rule,
                        reason: ruling.reason,
                    },
                );
            }
        };
        let (recorded, open) = match self.recorder.forwarding(permit).await {
            Ok(recorded) => recorded,
            Err(error) => return refuse(&request, &Refusal::not_recorded(&error)),
        };
        let target = recorded.call().target.clone();
        let outcome = forward(&*self.providers, recorded, exchange).await;
        let ended = Ended {
            request: &request,
            target: &target,
            open,
            outcome,
            started,
        };
        finish(&self.recorder, ended).await
    }
}

impl Pending {
    /// Waits for the answer; `None` when the host asked for none any more.
    pub async fn answer(&mut self) -> Option<Bytes> {
        (&mut self.answer).await.unwrap_or(None)
    }

    /// Tells the provider that nobody waits any more.
    pub fn cancel(&self) {
        self.cancelled.cancel();
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}
