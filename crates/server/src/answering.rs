//! The in-progress answer to one request.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use callgate_call::{Pending, for_stateless_host};
use callgate_wire::{Era, Id, Pieces, RpcError, message};
use futures_util::future::BoxFuture;

use crate::view::Shape;

/// The in-progress answer to one request. The task that polls it does the work.
pub(crate) struct Answering {
    work: Work,
    code: Option<i64>,
}

enum Work {
    /// A finished answer; `None` when the host expects none.
    AtOnce(Option<Pieces>),
    /// An answer of the gateway's own, with its code if it is an error.
    Own(BoxFuture<'static, (Option<Pieces>, Option<i64>)>),
    /// A call. Dropping it cancels the call.
    Call {
        pending: Pending,
        /// A change to its answer; `None` in most views.
        shape: Option<Shape>,
    },
}

impl Answering {
    /// For messages that get no answer.
    pub(crate) fn nothing() -> Self {
        Self::new(Work::AtOnce(None))
    }

    /// An answer that needs no waiting.
    pub(crate) fn at_once(id: &Id, own: Result<String, RpcError>) -> Self {
        let code = own.as_ref().err().map(|error| error.code);
        let work = Work::AtOnce(Some(answer(id, own).into()));
        Self { work, code }
    }

    /// An answer of the gateway's own, in the form of the host's era.
    pub(crate) fn own(
        era: Era,
        id: Id,
        method: &'static str,
        answering: impl Future<Output = Result<String, RpcError>> + Send + 'static,
    ) -> Self {
        Self::new(Work::Own(Box::pin(async move {
            let own = answering.await;
            let code = own.as_ref().err().map(|error| error.code);
            let answer = answer(&id, own);
            let answer = match era {
                Era::Handshake => answer,
                Era::Stateless => for_stateless_host(answer, method),
            };
            (Some(answer.into()), code)
        })))
    }

    /// A list whose result already has the form of the host's era.
    pub(crate) fn listed(
        id: Id,
        listing: impl Future<Output = Result<Bytes, RpcError>> + Send + 'static,
    ) -> Self {
        Self::new(Work::Own(Box::pin(async move {
            match listing.await {
                // The prepared page is shared by all hosts, so it is sent as a piece and not copied.
                Ok(result) => (Some(message::result_around(&id, result)), None),
                Err(error) => {
                    let answer = message::error(Some(&id), &error);
                    (Some(answer.into()), Some(error.code))
                }
            }
        })))
    }

    /// A request that lasts, such as a subscription. It has an answer only if it ends by itself.
    pub(crate) fn lasting(serving: impl Future<Output = Option<Bytes>> + Send + 'static) -> Self {
        Self::new(Work::Own(Box::pin(async move {
            (serving.await.map(Pieces::from), None)
        })))
    }

    /// A call, with an optional change to its answer.
    pub(crate) fn call(pending: Pending, shape: Option<Shape>) -> Self {
        Self::new(Work::Call { pending, shape })
    }

    fn new(work: Work) -> Self {
        Self { work, code: None }
    }

    /// The error code of the answer; `None` before it is ready and for results.
    pub(crate) fn code(&self) -> Option<i64> {
        self.code
    }

    /// Moves a call to a task of its own, for a door that may not poll it regularly from now on.
    pub(crate) fn hand_over(&mut self) {
        match &mut self.work {
            Work::Call { pending, .. } => pending.hand_over(),
            // Neither has an effect that must reach the record, so they may wait for the next poll.
            Work::AtOnce(_) | Work::Own(_) => {}
        }
    }
}

impl Future for Answering {
    type Output = Option<Pieces>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Pieces>> {
        let Self { work, code } = self.get_mut();
        match work {
            Work::AtOnce(answer) => Poll::Ready(answer.take()),
            Work::Own(answering) => answering.as_mut().poll(context).map(|(answer, own)| {
                *code = own;
                answer
            }),
            Work::Call { pending, shape } => pending.poll_answer(context).map(|answer| {
                *code = pending.code();
                match shape.take() {
                    Some(shape) => answer.map(shape),
                    None => answer,
                }
            }),
        }
    }
}

fn answer(id: &Id, own: Result<String, RpcError>) -> Bytes {
    match own {
        Ok(result) => message::result(id, &result),
        Err(error) => message::error(Some(id), &error),
    }
}
