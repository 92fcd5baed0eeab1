//! A held call whose approval is given at another gateway: it is put on record here, and decided again by
//! asking there. Nothing about the approval is kept here.

use std::time::Duration;

use callgate_gate::{ApprovalId, Hold, Verdict, decide};
use tokio::time::Instant;

use super::{HoldStep, Release, Unreleased, unreleased, waiting};
use crate::{ApprovalService, Exchange, approval_service::ApprovalSettings, facts::Gathered};

/// How often it is asked how an approval stands.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl HoldStep<'_> {
    /// Keeps a call until the guard lets it go, as long as the terms say.
    pub(super) async fn keep_elsewhere(
        &self,
        hold: Hold,
        (id, url): (ApprovalId, String),
        gathered: &mut Gathered,
        exchange: &Exchange,
    ) -> Release {
        let wait = self.approval_service.map(ApprovalService::settings).map_or(
            Duration::ZERO,
            |settings| {
                let ApprovalSettings { wait, .. } = *settings;
                wait
            },
        );
        let until = Instant::now() + wait;
        let told = self.tell(&hold, &id, &url, wait.is_zero()).await;
        if let Err(error) = told {
            return unreleased(Unreleased::NotRecorded(hold, error));
        }
        let mut hold = hold;
        loop {
            if Instant::now() >= until {
                if !wait.is_zero() {
                    let error = waiting::undecided();
                    self.recorder.waited_in_vain(&hold, &id, error);
                }
                return unreleased(Unreleased::NeedsApproval { hold, id, url });
            }
            exchange.caller.keep_alive();
            tokio::select! {
                () = exchange.cancelled.cancelled() => {
                    return unreleased(Unreleased::Cancelled(hold, Some(id)));
                }
                () = tokio::time::sleep_until(until.min(Instant::now() + LOOK_EVERY)) => {}
            }
            if self.facts.is_pending_elsewhere(&id).await {
                continue;
            }
            let policy = self.providers.policy();
            let call = hold.into_call();
            self.facts.look_again(&call, &policy, gathered).await;
            hold = match decide(call, &policy, &gathered.facts) {
                Verdict::Permit(permit) => return Ok(permit),
                Verdict::Deny(denied) => return unreleased(Unreleased::Denied(denied)),
                Verdict::Hold(hold) => hold,
            };
        }
    }
}
