//! Held calls on the path: what becomes of them, and how an approval is used up.

use callgate_gate::{Call, Hold, Permit};
use callgate_record::{NotRecorded, Open, Recorded};

use super::Shared;
use crate::{
    Exchange,
    facts::Gathered,
    finish::{Answer, Refusal, given_up, refuse},
    hold::{Asks, Keeper, Unreleased, question},
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
        let keeper = Keeper {
            providers: &*self.providers,
            recorder: &self.recorder,
            events: &self.telemetry.events,
            facts: &self.facts,
            desk: self.desk.get(),
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
            Unreleased::Cancelled(ruling) => given_up(&ruling),
            Unreleased::NotRecorded(hold, error) => {
                let Call { attempt, target } = hold.call();
                self.not_recorded(attempt, target, &error)
            }
        })
    }

    /// Puts "about to forward" on record, which also uses up the approval that a call rests on: the
    /// store of approvals only follows.
    pub(super) async fn about_to_forward(
        &self,
        permit: Permit,
    ) -> Result<(Recorded<Permit>, Open), NotRecorded> {
        let approval = permit.approval().cloned();
        let recorded = self.recorder.forwarding(permit).await;
        if let (Some(approval), Some(desk)) = (&approval, self.desk.get()) {
            match &recorded {
                Ok(_) => desk.used(approval).await,
                Err(_) => desk.give_back(approval).await,
            }
        }
        recorded
    }
}
