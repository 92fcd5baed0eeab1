//! Events of cancelled calls.

use callgate_gate::{Attempt, Target};
use callgate_record::{Effect, Status};

use super::{Event, EventFields, calls::of_call};
use crate::Metrics;

/// A call was cancelled before it was sent.
#[derive(Debug)]
pub struct CallCancelled<'a> {
    pub attempt: &'a Attempt,
    pub target: &'a Target,
}

impl Event for CallCancelled<'_> {
    const NAME: &'static str = "call.finished";

    fn log(&self) {
        tracing::debug!(
            record_id = %self.attempt.id,
            server = self.target.server().as_str(),
            tool = &*self.target.label(),
            status = Status::Cancelled.as_str(),
            "{}", Self::NAME
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.call(Some(self.target), Status::Cancelled);
    }

    fn fields(&self) -> EventFields<'_> {
        of_call(Self::NAME, self.attempt, self.target)
            .meta("status", Status::Cancelled.as_str())
            .meta("effect", Effect::None.as_str())
    }
}

/// The gateway stops while calls ignore their cancellation. Their outcome is unknown.
#[derive(Debug)]
pub struct CallsGivenUp {
    pub calls: usize,
}

impl Event for CallsGivenUp {
    const NAME: &'static str = "calls.given_up";

    fn log(&self) {
        tracing::warn!(calls = self.calls, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields::new(Self::NAME).meta("calls", self.calls)
    }
}
