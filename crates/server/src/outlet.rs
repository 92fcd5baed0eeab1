//! The host's side of a call: a channel to the host, and its replies to questions.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use callgate_call::{AskFailed, Caller};
use callgate_wire::{Frame, Id, message, methods};
use futures_util::future::BoxFuture;

use crate::{asks::Asks, queue::Sender};

/// How long a host may take to answer a question; a person may be behind it.
const ASK_DEADLINE: Duration = Duration::from_secs(600);

/// A way to a host.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    messages: Sender,
    asks: Arc<Asks>,
}

impl Outlet {
    pub(crate) fn new(messages: Sender, asks: Arc<Asks>) -> Self {
        Self { messages, asks }
    }
}

impl Caller for Outlet {
    fn notify(&self, notification: Bytes) {
        if self.messages.try_send(notification).is_err() {
            crate::log::notification_to_host_dropped();
        }
    }

    fn keep_alive(&self) {
        // An empty message is none: the door writes what its transport has for a sign of life.
        let _ = self.messages.try_send(Bytes::new());
    }

    fn ask(&self, request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async move {
            let (id, reply) = self.asks.enter();
            let question = request.edit().id(&id).finish();
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
                // Nobody reads the question any more, so nobody will answer it.
                () = self.messages.closed() => Err(AskFailed::Gone),
            }
        })
    }
}

/// An open question. When it is given up before its reply came, the host is told.
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
