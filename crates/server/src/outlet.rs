//! The way back to a host during a call: notifications, and questions with their replies.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use callgate_call::{AskFailed, Caller};
use callgate_wire::{Frame, Id, message, methods};
use futures_util::future::BoxFuture;

use crate::{asks::OpenQuestions, queue::Sender};

/// How long a host may take to answer a question. It is long because a person may have to answer.
const ASK_DEADLINE: Duration = Duration::from_secs(600);

/// Sends to one host.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    messages: Sender,
    asks: Arc<OpenQuestions>,
}

impl Outlet {
    pub(crate) fn new(messages: Sender, asks: Arc<OpenQuestions>) -> Self {
        Self { messages, asks }
    }
}

impl Caller for Outlet {
    fn notify(&self, notification: Bytes) {
        // Notifications are best effort. Waiting for a slow host here would stall the call that sends them.
        if self.messages.try_send(notification).is_err() {
            crate::log::notification_to_host_dropped();
        }
    }

    fn keep_alive(&self) {
        // An empty message stands for a keep-alive; the door writes whatever its transport uses.
        let _ = self.messages.try_send(Bytes::new());
    }

    fn cancel_reason(&self, request: &Id) -> Option<String> {
        self.asks.cancel_reason(request)
    }

    fn ask(&self, request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async move {
            let (id, reply) = self.asks.register();
            let question = request.edit().id(&id).finish();
            // Made before the send, so that a caller that is dropped while it waits for room also removes the question.
            let _open = Question { outlet: self, id };
            self.messages
                .send(question)
                .await
                .map_err(|_| AskFailed::Gone)?;
            tokio::select! {
                reply = tokio::time::timeout(ASK_DEADLINE, reply) => match reply {
                    Ok(Ok(reply)) => Ok(reply),
                    Ok(Err(_)) => Err(AskFailed::Gone),
                    Err(_) => Err(AskFailed::TimedOut),
                },
                // The host's stream is closed, so no answer can come.
                () = self.messages.closed() => Err(AskFailed::Gone),
            }
        })
    }
}

/// An open question. If it is dropped before its reply, the host is sent a cancellation.
struct Question<'a> {
    outlet: &'a Outlet,
    id: Id,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if self.outlet.asks.forget(&self.id) {
            let params = format!(r#"{{"requestId":{}}}"#, self.id.raw());
            self.outlet
                .notify(message::notification(methods::CANCELLED, Some(&params)));
        }
    }
}
