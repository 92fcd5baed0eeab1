//! record: nothing is sent before "about to forward" is in the log. That also uses up the approval that a call rests on.

use callgate_gate::{Permit, Policy};
use callgate_record::{NotRecorded, Open, Recorded};

use super::{Shared, Walk, rounds::OnRecord};
use crate::{
    events::calls::CallStarted,
    facts::{Gathered, account_of},
    finish::Answer,
};

impl Shared {
    /// Puts a permitted call on record, unless it was cancelled.
    pub(super) async fn record(
        &self,
        permit: Permit,
        gathered: Gathered,
        policy: &Policy,
        walk: &Walk<'_>,
    ) -> Result<(Recorded<Permit>, Box<OnRecord>), Answer> {
        if walk.exchange.cancelled.is_cancelled() {
            return Err(self.withdrawn(permit).await);
        }
        let call = permit.call();
        let (attempt, target) = (call.attempt.clone(), call.target.clone());
        let agreed = permit.agreed().cloned();
        let recording = self.about_to_forward(permit);
        let (recorded, open) = match walk.span.step("record").over(recording).await {
            Ok(recorded) => recorded,
            Err(error) => return Err(self.not_recorded(&attempt, &target, &error)),
        };
        // The record can be written again.
        if self.record_trouble.load().is_some() {
            self.record_trouble.store(None);
        }
        let account = || account_of(&attempt.host.who);
        self.facts.allowed(account, &target, policy, gathered).await;
        let (call, ruling) = (recorded.call(), recorded.ruling());
        self.telemetry.events.emit(CallStarted { call, ruling });
        let on_record = OnRecord {
            attempt,
            target,
            open,
            started: walk.started,
            agreed,
        };
        Ok((recorded, Box::new(on_record)))
    }

    /// The store of approvals only follows what is in the log.
    pub(super) async fn about_to_forward(
        &self,
        permit: Permit,
    ) -> Result<(Recorded<Permit>, Open), NotRecorded> {
        let approval = permit.approval().cloned();
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
