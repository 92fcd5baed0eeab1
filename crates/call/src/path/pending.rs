//! A call in flight, as its door sees it.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use callgate_gate::ApprovalId;
use callgate_wire::Pieces;
use tokio_util::sync::CancellationToken;

use crate::CallerDriven;

/// A call in flight. Polling it runs the steps; dropping it cancels the call, which then ends in a task of the path.
#[derive(Debug)]
pub struct Pending {
    pub(super) answer: CallerDriven<PathOutput>,
    pub(super) code: Option<i64>,
    pub(super) held: Option<ApprovalId>,
    pub(super) cancelled: CancellationToken,
}

/// The result of the steps: the answer, its code if it is an error, and the approval that the call waits for if it was held.
pub(super) type PathOutput = (Option<Pieces>, Option<i64>, Option<ApprovalId>);

impl Pending {
    /// The error code of the answer; `None` before the answer is ready, and for answers that are not errors.
    pub fn code(&self) -> Option<i64> {
        self.code
    }

    /// The approval that the call waits for; `None` before the answer is ready, and for calls that were not held.
    pub fn held(&self) -> Option<&ApprovalId> {
        self.held.as_ref()
    }

    /// Moves the call to a task of the path. For a door that may be unable to poll, because its host does not read the stream.
    pub fn hand_over(&mut self) {
        self.answer.hand_over();
    }

    /// Waits for the answer; `None` when the host no longer wants one, because it cancelled the call.
    pub async fn answer(&mut self) -> Option<Pieces> {
        poll_fn(|context| self.poll_answer(context)).await
    }

    /// [`Pending::answer`] for callers that are futures themselves.
    pub fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Option<Pieces>> {
        let output = std::task::ready!(Pin::new(&mut self.answer).poll(context));
        let (answer, code, held) = output;
        self.code = code;
        self.held = held;
        Poll::Ready(answer)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // Before `answer` is dropped, which moves the rest of the call to a task: that task must find the call cancelled.
        self.cancelled.cancel();
    }
}
