//! Calls that end before anything is sent: recorded, reported as events, and answered.

use std::sync::Arc;

use callgate_gate::{Attempt, Call, Denied, Fault, Target};
use callgate_record::{NotRecorded, Status};
use callgate_wire::RpcError;

use super::Shared;
use crate::{
    events::{self, calls::IntentRefused, gateway::RecordFailed},
    finish::{Answer, Refusal, finish_unresolved, no_record, refuse, refuse_fault},
    resolve::Unresolved,
    trace::CallSpan,
};

impl Shared {
    /// Ends a request with a sealed state that is not valid for it.
    pub(super) fn refuse_round(&self, attempt: Attempt, error: RpcError) -> Answer {
        let unresolved = Unresolved {
            attempt,
            server: None,
            error,
            status: Status::Error,
        };
        finish_unresolved(&self.recorder, &self.telemetry.events, unresolved)
    }

    /// Ends an attempt whose declared intent or arguments are wrong. Policy was not asked.
    pub(super) fn faulted(
        &self,
        attempt: &Attempt,
        target: Option<&Target>,
        fault: &Fault,
    ) -> Answer {
        self.recorder.faulted(attempt, target, fault);
        self.telemetry.events.emit(IntentRefused {
            attempt,
            target,
            fault,
        });
        refuse_fault(attempt, fault)
    }

    pub(super) fn denied(&self, denied: &Denied, span: &CallSpan) -> Answer {
        // A denied call is complete with its entry, so this is its finish step.
        let _step = span.step("finish");
        self.recorder.denied(denied);
        self.report_denied(denied)
    }

    pub(super) fn report_denied(&self, denied: &Denied) -> Answer {
        let Call { attempt, target } = denied.call();
        let ruling = denied.ruling();
        self.telemetry.events.emit(events::calls::Denied {
            attempt,
            target,
            ruling,
        });
        refuse(attempt, &Refusal::Denied(ruling))
    }

    pub(super) fn not_recorded(
        &self,
        attempt: &Attempt,
        target: &Target,
        error: &NotRecorded,
    ) -> Answer {
        let events = &self.telemetry.events;
        let error = error.to_string();
        events.emit(RecordFailed { error: &error });
        // Shown by the health check until an entry is written again: a gateway that refuses all calls must not look healthy.
        self.record_trouble.store(Some(Arc::new(error)));
        // The host learns that the call was refused, not why: the error names files and is for the operator.
        let ruling = no_record();
        events.emit(events::calls::Denied {
            attempt,
            target,
            ruling: &ruling,
        });
        refuse(attempt, &Refusal::Denied(&ruling))
    }
}
