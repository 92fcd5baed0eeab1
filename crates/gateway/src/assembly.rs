//! The only place where a fleet, a record and a call path become a gate.

use std::sync::Arc;

use callgate_call::{ApprovalService, CallPath, SealKey, Telemetry};
use callgate_record::{Ledger, Recorder};
use callgate_upstream::{Fleet, FleetPlan, Profile};

/// The parts of a gate.
pub(crate) struct Parts<'a> {
    pub(crate) recorder: Recorder,
    pub(crate) telemetry: Telemetry,
    /// Seals what hosts carry between the rounds of a call.
    pub(crate) key: &'a SealKey,
    /// Holds calls that need approval.
    pub(crate) approval_service: ApprovalService,
    pub(crate) ledger: Arc<dyn Ledger>,
}

impl Parts<'_> {
    /// Starts the servers in the name of `profile` and puts the path in front of them.
    pub(crate) fn assemble(self, plan: FleetPlan, profile: Profile) -> (Arc<Fleet>, CallPath) {
        let events = self.telemetry.events.clone();
        let fleet = Fleet::start(plan, self.recorder.clone(), events, profile);
        let path = CallPath::with_seal_key(self.key, fleet.clone(), self.recorder, self.telemetry)
            .with_approvals(self.approval_service)
            .with_ledger(self.ledger);
        (fleet, path)
    }
}
