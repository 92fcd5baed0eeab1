//! record: writes "about to forward" to the log before anything is sent. The entry also uses up the call's approval.

use callgate_gate::{Permit, Policy};
use callgate_record::{NotRecorded, Open, Recorded};

use super::{CallContext, Shared, rounds::RecordedRound};
use crate::{
    events::calls::CallStarted,
    facts::{Gathered, account_of},
    finish::Answer,
};

impl Shared {
    /// Records a permitted call, unless it was cancelled.
    pub(super) async fn record(
        &self,
        permit: Permit,
        gathered: Gathered,
        policy: &Policy,
        context: &CallContext<'_>,
    ) -> Result<(Recorded<Permit>, Box<RecordedRound>), Answer> {
        if context.exchange.cancelled.is_cancelled() {
            return Err(self.cancel_permitted(permit).await);
        }
        // Copied, because the permit goes into the provider with the call, and finish needs both.
        let call = permit.call();
        let (attempt, target) = (call.attempt.clone(), call.target.clone());
        // Kept for later rounds, which are covered by the same approval.
        let agreed = permit.agreed().cloned();
        let recording = self.about_to_forward(permit);
        let (recorded, open) = match context.span.step("record").around(recording).await {
            Ok(recorded) => recorded,
            Err(error) => return Err(self.not_recorded(&attempt, &target, &error)),
        };
        // Loaded before it is stored: the common case only reads, and does not take the cache line from other threads.
        if self.record_trouble.load().is_some() {
            self.record_trouble.store(None);
        }
        // After the record: a call that could not be recorded was not made, and must not count as an earlier call.
        let account = || account_of(&attempt.host.identity);
        self.facts.allowed(account, &target, policy, gathered).await;
        let (call, ruling) = (recorded.call(), recorded.ruling());
        self.telemetry.events.emit(CallStarted { call, ruling });
        let recorded_round = RecordedRound {
            attempt,
            target,
            open,
            started: context.started,
            agreed,
        };
        Ok((recorded, Box::new(recorded_round)))
    }

    /// Writes the entry, then updates the approval.
    pub(super) async fn about_to_forward(
        &self,
        permit: Permit,
    ) -> Result<(Recorded<Permit>, Open), NotRecorded> {
        let approval = permit.approval().cloned();
        // The log first, and the store follows: after a crash in between, the log shows that the approval was used.
        let recorded = self.recorder.forwarding(permit).await;
        if let (Some(approval), Some(approval_service)) = (&approval, self.approval_service.get()) {
            match &recorded {
                Ok(_) => approval_service.used(approval).await,
                Err(_) => approval_service.give_back(approval).await,
            }
        }
        recorded
    }
}
