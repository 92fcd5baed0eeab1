//! Accepting a call: it gets an entry in the registry, and draining waits for it.

use std::future::ready;

use callgate_wire::{Id, RpcError, message};
use tokio_util::{sync::CancellationToken, task::task_tracker::TaskTrackerToken};

use super::{CallPath, Pending};
use crate::{CallerDriven, Received, registry::RegistryEntry};

/// What an accepted call holds until its end: its registry entry, and its count among the tasks that draining waits for.
pub(super) type InFlight = (RegistryEntry, TaskTrackerToken);

impl CallPath {
    /// Accepts a request, or answers why not.
    pub(super) fn enter(&self, received: &Received) -> Result<InFlight, Box<Pending>> {
        let invalid = |text: &str| RpcError::new(RpcError::INVALID_REQUEST, text);
        let refused = |id, error: &RpcError| Err(Box::new(self.refuse(id, error)));
        let Some(id) = received.frame.id() else {
            return refused(None, &invalid("a call must have an id"));
        };
        // Counted before the check: either draining sees this call and waits for it, or this call sees that draining has
        // begun. In the other order a call could slip through between the two.
        let counted = self.shared.tasks.token();
        if self.shared.tasks.is_closed() {
            let error = RpcError::new(RpcError::INTERNAL, "the gateway is stopping");
            return refused(Some(id), &error.with_data(r#"{"effect":"none"}"#));
        }
        // Of two requests with one id, a cancellation could not say which it means.
        match self
            .shared
            .registry
            .enter(&received.host.identity.session, id)
        {
            Some(place) => Ok((place, counted)),
            None => {
                let error = invalid("a request with this id is still in flight");
                refused(Some(id), &error)
            }
        }
    }

    /// Answers a call that was not accepted.
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
