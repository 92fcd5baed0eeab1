//! The beginning of everything that is taken: a place in the registry, and that draining waits for it.

use std::future::ready;

use callgate_wire::{Id, RpcError, message};
use tokio_util::{sync::CancellationToken, task::task_tracker::TaskTrackerToken};

use super::{CallPath, Pending};
use crate::{CallerDriven, Received, registry::Place};

/// What a call that was taken in keeps until its end.
pub(super) type Entered = (Place, TaskTrackerToken);

impl CallPath {
    /// Takes a request in, or answers why not.
    pub(super) fn enter(&self, received: &Received) -> Result<Entered, Box<Pending>> {
        let invalid = |text: &str| RpcError::new(RpcError::INVALID_REQUEST, text);
        let refused = |id, error: &RpcError| Err(Box::new(self.refuse(id, error)));
        let Some(id) = received.frame.id() else {
            return refused(None, &invalid("a call needs an id"));
        };
        // Counted before it is looked whether calls are still taken: draining waits for it, or it
        // sees that draining has begun.
        let counted = self.shared.tasks.token();
        if self.shared.tasks.is_closed() {
            let error = RpcError::new(RpcError::INTERNAL, "the gateway is stopping");
            return refused(Some(id), &error.with_data(r#"{"effect":"none"}"#));
        }
        match self.shared.registry.enter(&received.host.who.session, id) {
            Some(place) => Ok((place, counted)),
            None => {
                let error = invalid("a request of this id is still under way");
                refused(Some(id), &error)
            }
        }
    }

    /// Answers a call before it began.
    fn refuse(&self, id: Option<&Id>, error: &RpcError) -> Pending {
        let answer = Some(message::error(id, error).into());
        Pending {
            answer: CallerDriven::new(
                ready((answer, Some(error.code), None)),
                self.shared.tasks.clone(),
            ),
            code: None,
            held: None,
            cancelled: CancellationToken::new(),
        }
    }
}
