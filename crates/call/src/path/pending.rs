//! A call as its door sees it.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use callgate_gate::ApprovalId;
use callgate_wire::Pieces;
use tokio_util::sync::CancellationToken;

use crate::CallerDriven;

/// A call under way, from the door's side: whoever waits for the answer walks the steps. Dropping it
/// cancels the call, which then ends in a task of the path.
#[derive(Debug)]
pub struct Pending {
    pub(super) answer: CallerDriven<Walked>,
    pub(super) code: Option<i64>,
    pub(super) held: Option<ApprovalId>,
    pub(super) cancelled: CancellationToken,
}

/// What the walk gives: the answer, its code where it is an error, and what it waits for where it was held.
pub(super) type Walked = (Option<Pieces>, Option<i64>, Option<ApprovalId>);

impl Pending {
    /// The code of the answer, once it is there and where it is an error.
    pub fn code(&self) -> Option<i64> {
        self.code
    }

    /// The approval that the call waits for, once it is answered and where it was held.
    pub fn held(&self) -> Option<&ApprovalId> {
        self.held.as_ref()
    }

    /// Lets the call go on by itself, for a door that may be kept from waiting: by a host that does not
    /// read what it asked for.
    pub fn hand_over(&mut self) {
        self.answer.hand_over();
    }

    /// Waits for the answer; `None` when the host asked for none any more.
    pub async fn answer(&mut self) -> Option<Pieces> {
        poll_fn(|context| self.poll_answer(context)).await
    }

    /// The same for whoever is a future already.
    pub fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Option<Pieces>> {
        let walked = std::task::ready!(Pin::new(&mut self.answer).poll(context));
        let (answer, code, held) = walked;
        self.code = code;
        self.held = held;
        Poll::Ready(answer)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}
