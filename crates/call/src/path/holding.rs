//! hold: connects the hold step to the path, and answers calls that it does not release.

use callgate_gate::{Call, Hold, Permit, Ruling};
use callgate_record::Decision;

use super::Shared;
use crate::{
    Exchange,
    events::cancelled::CallCancelled,
    facts::Gathered,
    finish::{Answer, Refusal, cancelled_answer, refuse},
    hold::{HoldStep, HostQuestion, Unreleased, question},
    parking::ReturningHost,
    trace::CallSpan,
};

impl Shared {
    /// Runs the hold step. A call that it does not release ends here, with the answer for its host.
    pub(super) async fn wait_for_person(
        &self,
        held: Hold,
        gathered: &mut Gathered,
        (exchange, returning): (&Exchange, Option<&ReturningHost>),
        span: &CallSpan,
    ) -> Result<Permit, Answer> {
        if exchange.cancelled.is_cancelled() {
            // An approver must not be asked about a call that will not be made.
            return Err(self.cancelled(held.call(), held.ruling(), Decision::RequireApproval));
        }
        let step = HoldStep {
            providers: &*self.providers,
            recorder: &self.recorder,
            events: &self.telemetry.events,
            facts: &self.facts,
            approval_service: self.approval_service.get(),
            returning,
        };
        let holding = step.hold(held, gathered, exchange);
        let unreleased = match span.step("hold").around(holding).await {
            Ok(permit) => return Ok(permit),
            Err(unreleased) => *unreleased,
        };
        Err(match unreleased {
            Unreleased::NeedsApproval { hold, id, url } => {
                let (ruling, id, url) = (hold.ruling(), &id, url.as_str());
                // A host that can be asked in an answer is given a question and a sealed state; any other host gets the
                // refusal in words, with the address of the approval.
                match question(
                    &hold,
                    HostQuestion::Approval(id, url),
                    returning,
                    &self.parking,
                ) {
                    Some(question) => Answer::of(Some(question)),
                    None => {
                        let refusal = Refusal::NeedsApproval { ruling, id, url };
                        refuse(&hold.call().attempt, &refusal)
                    }
                }
            }
            Unreleased::NeedsConfirmation(hold) => Answer::of(question(
                &hold,
                HostQuestion::Confirmation,
                returning,
                &self.parking,
            )),
            Unreleased::Refused(denied, approval) => {
                // Not `denied`: the record distinguishes a person's refusal from a rule's.
                self.recorder.refused_by_person(&denied, approval.as_ref());
                self.report_denied(&denied)
            }
            Unreleased::Denied(denied) => self.denied(&denied, span),
            Unreleased::Cancelled(hold, approval) => {
                let (call, ruling, asks) = (hold.call(), hold.ruling(), Decision::RequireApproval);
                self.recorder
                    .cancelled(call, ruling, asks, approval.as_ref());
                self.report_cancelled(call);
                cancelled_answer(ruling)
            }
            Unreleased::NotRecorded(hold, error) => {
                let Call { attempt, target } = hold.call();
                self.not_recorded(attempt, target, &error)
            }
        })
    }

    /// Ends a permitted call that was cancelled before it was recorded.
    pub(super) async fn cancel_permitted(&self, permit: Permit) -> Answer {
        // The claimed approval can be used again: no "about to forward" entry names it, so the call was not sent.
        if let (Some(approval), Some(approval_service)) =
            (permit.approval(), self.approval_service.get())
        {
            approval_service.give_back(approval).await;
        }
        self.cancelled(permit.call(), permit.ruling(), Decision::Allow)
    }

    /// Ends a call that was cancelled before it was sent.
    fn cancelled(&self, call: &Call, ruling: &Ruling, decision: Decision) -> Answer {
        self.recorder.cancelled(call, ruling, decision, None);
        self.report_cancelled(call);
        cancelled_answer(ruling)
    }

    fn report_cancelled(&self, call: &Call) {
        let Call { attempt, target } = call;
        let events = &self.telemetry.events;
        events.emit(CallCancelled { attempt, target });
    }
}
