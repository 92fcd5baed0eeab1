//! hold: what becomes of calls that need a person.

use callgate_gate::{Call, Hold, Permit, Ruling};
use callgate_record::Decision;

use super::Shared;
use crate::{
    Exchange,
    events::cancelled::CallCancelled,
    facts::Gathered,
    finish::{Answer, Refusal, given_up, refuse},
    hold::{Asks, HoldStep, Unreleased, question},
    parking::Back,
    trace::CallSpan,
};

impl Shared {
    /// Keeps a held call until it is released, or says what the host is told.
    pub(super) async fn held(
        &self,
        held: Hold,
        gathered: &mut Gathered,
        (exchange, back): (&Exchange, Option<&Back>),
        span: &CallSpan,
    ) -> Result<Permit, Answer> {
        if exchange.cancelled.is_cancelled() {
            // No person is asked about a call that will not be made.
            return Err(self.cancelled(held.call(), held.ruling(), Decision::RequireApproval));
        }
        let keeper = HoldStep {
            providers: &*self.providers,
            recorder: &self.recorder,
            events: &self.telemetry.events,
            facts: &self.facts,
            approval_service: self.approval_service.get(),
            back,
        };
        let keeping = keeper.keep(held, gathered, exchange);
        let unreleased = match span.step("hold").over(keeping).await {
            Ok(permit) => return Ok(permit),
            Err(unreleased) => *unreleased,
        };
        Err(match unreleased {
            Unreleased::NeedsApproval { hold, id, url } => {
                let (ruling, id, url) = (hold.ruling(), &id, url.as_str());
                match question(&hold, Asks::Approval(id, url), back, &self.parking) {
                    Some(question) => Answer::of(Some(question)),
                    None => {
                        let refusal = Refusal::NeedsApproval { ruling, id, url };
                        refuse(&hold.call().attempt, &refusal)
                    }
                }
            }
            Unreleased::NeedsConfirmation(hold) => {
                Answer::of(question(&hold, Asks::Confirmation, back, &self.parking))
            }
            Unreleased::Refused(denied, approval) => {
                self.recorder.refused_by_person(&denied, approval.as_ref());
                self.tell_denied(&denied)
            }
            Unreleased::Denied(denied) => self.denied(&denied, span),
            Unreleased::Cancelled(hold, approval) => {
                let (call, ruling, asks) = (hold.call(), hold.ruling(), Decision::RequireApproval);
                self.recorder
                    .cancelled(call, ruling, asks, approval.as_ref());
                self.tell_cancelled(call);
                given_up(ruling)
            }
            Unreleased::NotRecorded(hold, error) => {
                let Call { attempt, target } = hold.call();
                self.not_recorded(attempt, target, &error)
            }
        })
    }

    /// Ends a permitted call that was cancelled before it was put on record. An approval that it has claimed is free
    /// again: no "about to forward" names it, so it has sent nothing.
    pub(super) async fn withdrawn(&self, permit: Permit) -> Answer {
        if let (Some(approval), Some(approval_service)) =
            (permit.approval(), self.approval_service.get())
        {
            approval_service.give_back(approval).await;
        }
        self.cancelled(permit.call(), permit.ruling(), Decision::Allow)
    }

    /// Puts a call that was cancelled before it was sent on record, and tells of it.
    fn cancelled(&self, call: &Call, ruling: &Ruling, decision: Decision) -> Answer {
        self.recorder.cancelled(call, ruling, decision, None);
        self.tell_cancelled(call);
        given_up(ruling)
    }

    fn tell_cancelled(&self, call: &Call) {
        let Call { attempt, target } = call;
        let events = &self.telemetry.events;
        events.emit(CallCancelled { attempt, target });
    }
}
