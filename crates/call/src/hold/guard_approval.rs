//! A held call whose approval is given at the guard, another gateway. The call is recorded here; the approval exists only
//! there, and each check asks the guard again.

use std::time::Duration;

use callgate_gate::{ApprovalId, Hold, Verdict, decide};
use tokio::time::Instant;

use super::{HoldStep, Release, Unreleased, unreleased, waiting};
use crate::{ApprovalService, Exchange, approval_service::ApprovalSettings, facts::Gathered};

/// How often the guard is asked whether an approval is decided.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

impl HoldStep<'_> {
    /// Holds a call until the guard decides, or until the configured wait is over.
    pub(super) async fn hold_at_guard(
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
        let told = self.announce(&hold, &id, &url, wait.is_zero()).await;
        if let Err(error) = told {
            return unreleased(Unreleased::NotRecorded(hold, error));
        }
        let mut hold = hold;
        loop {
            if Instant::now() >= until {
                if !wait.is_zero() {
                    let error = waiting::undecided();
                    self.recorder.ended_undecided(&hold, &id, error);
                }
                return unreleased(Unreleased::NeedsApproval { hold, id, url });
            }
            // The host would otherwise see nothing until the answer.
            exchange.caller.keep_alive();
            tokio::select! {
                () = exchange.cancelled.cancelled() => {
                    return unreleased(Unreleased::Cancelled(hold, Some(id)));
                }
                () = tokio::time::sleep_until(until.min(Instant::now() + POLL_INTERVAL)) => {}
            }
            // Not a check, because the guard records each of those.
            if self.facts.is_pending_elsewhere(&id).await {
                continue;
            }
            let policy = self.providers.policy();
            let call = hold.into_call();
            // The verdict comes from the guard, not from the approval: the guard applies its whole policy again.
            self.facts.refresh(&call, &policy, gathered).await;
            hold = match decide(call, &policy, &gathered.facts) {
                Verdict::Permit(permit) => return Ok(permit),
                Verdict::Deny(denied) => return unreleased(Unreleased::Denied(denied)),
                Verdict::Hold(hold) => hold,
            };
        }
    }
}
