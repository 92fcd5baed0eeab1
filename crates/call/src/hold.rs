//! hold: a call that needs a person's approval. It is recorded, and then waits here or is answered.
//!
//! An answered call continues when the host sends it again: with the approval's id in `_meta`, with the sealed state that it
//! was given, or as the identical call. A rule that asks only for a confirmation is satisfied by the person at the host, if
//! the host can ask. A call that waited is decided again before it goes on, and the stricter verdict counts.

mod confirm;
mod guard_approval;
mod host_question;
mod waiting;

use callgate_gate::{
    ApprovalId, BoundRequest, Consent, Denied, Hold, Permit, Target, Verdict, decide,
    pins::{Names, flags},
};
use callgate_record::{AskOutcome, NotRecorded, Question, Recorder, Status, UnsealedCall};
use jiff::SignedDuration;

use crate::{
    ApprovalService, Events, Exchange, Providers,
    approval_service::ApprovalSettings,
    events::calls::ApprovalRequired,
    facts::{FactSources, Gathered, account_of},
    parking::ReturningHost,
};
use confirm::{Confirmation, confirm};
pub(crate) use host_question::{HostQuestion, question};
use waiting::{DecisionWait, WaitEnd};

/// Keys of a request's `_meta` under which a host names an approval.
const APPROVAL_KEYS: [&str; 2] = ["dev.callgate/approval_id", "dev.agentguard/approval_id"];
/// The rule of a call that needs approval where approvals are unavailable.
pub(crate) const NO_APPROVALS_RULE: &str = "deny:gateway:no_approvals";
/// The rule of a call whose caller has too many pending approvals.
pub(crate) const TOO_MANY_RULE: &str = "deny:gateway:too_many_approvals";

/// The rule of a call that is too large to show to an approver.
const TOO_LARGE_RULE: &str = "deny:gateway:too_large_to_approve";
/// An approver must see the whole call, so larger arguments are denied instead of shown in part.
const MAX_SHOWN_BYTES: usize = 1024 * 1024;

/// What the hold step uses of the path.
pub(crate) struct HoldStep<'a> {
    pub(crate) providers: &'a dyn Providers,
    pub(crate) recorder: &'a Recorder,
    pub(crate) events: &'a Events,
    pub(crate) facts: &'a FactSources,
    /// `None` where the gateway has no approvals.
    pub(crate) approval_service: Option<&'a ApprovalService>,
    /// The host's answer to an earlier question, if this request returns with a sealed state.
    pub(crate) returning: Option<&'a ReturningHost>,
}

/// Why a held call was not released.
#[derive(Debug)]
pub(crate) enum Unreleased {
    /// The approval `id` is pending; a person decides it at `url`.
    NeedsApproval {
        hold: Hold,
        id: ApprovalId,
        url: String,
    },
    /// The host has to ask its user and return.
    NeedsConfirmation(Hold),
    /// A person denied it.
    Refused(Denied, Option<ApprovalId>),
    /// Policy denies it now, or no approval can be requested.
    Denied(Denied),
    /// The host cancelled the call; the approval that it waited for, if one was requested.
    Cancelled(Hold, Option<ApprovalId>),
    NotRecorded(Hold, NotRecorded),
}

type Release = Result<Permit, Box<Unreleased>>;

impl HoldStep<'_> {
    /// Holds a call until it is approved or denied, or until the configured wait is over.
    pub(crate) async fn hold(
        &self,
        hold: Hold,
        gathered: &mut Gathered,
        exchange: &Exchange,
    ) -> Release {
        // The guard decided, so its approvers decide too; an approval of ours would have no meaning there.
        let guard = gathered.facts.guard.as_deref_mut();
        if let Some(there) = guard.and_then(|guarded| guarded.approval.take()) {
            return self.hold_at_guard(hold, there, gathered, exchange).await;
        }
        // Before an approver is asked: the person at the host is quicker, and enough for this kind of rule.
        let hold = match self.confirm(hold, exchange).await {
            Ok(hold) => hold,
            Err(released) => return released,
        };
        let Some(approval_service) = self.approval_service else {
            let reason = "it needs approval, but this gateway has no approval service";
            return refuse_to_hold(hold, NO_APPROVALS_RULE, reason);
        };
        let request = BoundRequest::of(hold.call());
        if request.len() > MAX_SHOWN_BYTES {
            return refuse_to_hold(hold, TOO_LARGE_RULE, &too_large(request.len()));
        }
        // Noted before the question: the call was counted against its rate limits, and must not be counted again when it
        // comes back approved.
        self.facts.held(hold.call(), gathered).await;
        let settings = approval_service.settings();
        let mut wait = DecisionWait::new(approval_service, &settings, exchange, &hold);
        let mut hold = hold;
        // `ask` finds a decision or requests one in a single step: two calls cannot claim the same approval, and a decision
        // between the two is not missed.
        loop {
            let question = self.question(&hold, &request, &settings);
            let whole = whole(&hold, &request);
            let asked = match approval_service
                .ask(question, whole, hold.call().attempt.id)
                .await
            {
                Ok(asked) => asked,
                Err(error) => {
                    crate::log::approval_not_kept(&error);
                    let reason = "it needs approval, but the approval request could not be stored";
                    return refuse_to_hold(hold, NO_APPROVALS_RULE, reason);
                }
            };
            match self.apply_decision(hold, asked, gathered, &mut wait).await {
                Ok(again) => hold = again,
                Err(released) => return released,
            }
        }
    }

    /// Asks the person at the host, if that is enough. Returns the hold if an approver has to be asked.
    async fn confirm(&self, hold: Hold, exchange: &Exchange) -> Result<Hold, Release> {
        Err(match confirm(hold, exchange, self.returning).await {
            Confirmation::NotAsked(hold) => return Ok(hold),
            Confirmation::Confirmed(permit) => Ok(permit),
            Confirmation::Declined(denied) => unreleased(Unreleased::Refused(denied, None)),
            Confirmation::Cancelled(hold) => unreleased(Unreleased::Cancelled(hold, None)),
            Confirmation::AskInAnswer(hold) => {
                let held = self.recorder.held(&hold, None, Status::Blocked).await;
                unreleased(match held {
                    Ok(()) => Unreleased::NeedsConfirmation(hold),
                    Err(error) => Unreleased::NotRecorded(hold, error),
                })
            }
        })
    }

    /// Acts on the answer of the approval service. Returns the hold if the service has to be asked again.
    async fn apply_decision(
        &self,
        hold: Hold,
        asked: AskOutcome,
        gathered: &mut Gathered,
        wait: &mut DecisionWait<'_>,
    ) -> Result<Hold, Release> {
        match asked {
            AskOutcome::Claimed(claim) => {
                match self.release(hold, claim.id, gathered, wait).await {
                    Released::Permit(permit) => Err(Ok(permit)),
                    Released::Denied(denied) => Err(unreleased(Unreleased::Denied(denied))),
                    // Another rule requires approval now, so the claimed approval does not fit.
                    Released::Held(other) => Ok(other),
                }
            }
            AskOutcome::Denied(approval) => {
                let denied = hold.deny("an approver denied this call");
                Err(unreleased(Unreleased::Refused(denied, Some(approval.id))))
            }
            AskOutcome::TooMany { limit } => {
                Err(refuse_to_hold(hold, TOO_MANY_RULE, &too_many(limit)))
            }
            // A call that was counted when it was first held is let past its limits in case it was approved. It was not, so
            // it counts now; otherwise repeating a held call would be a way around the limit.
            AskOutcome::Pending { .. } if !self.has_room(&hold, gathered).await => {
                let policy = self.providers.policy();
                match decide(hold.into_call(), &policy, &gathered.facts) {
                    Verdict::Deny(denied) => Err(unreleased(Unreleased::Denied(denied))),
                    Verdict::Permit(permit) => Err(Ok(permit)),
                    Verdict::Hold(hold) => Ok(hold),
                }
            }
            AskOutcome::Pending { approval, .. } => {
                let url = wait.url(&approval.id);
                self.await_decision(hold, approval.id, url, wait)
                    .await
                    .map_err(Err)
            }
        }
    }

    /// Announces a pending approval and waits for a change. Returns the hold to be checked again, or why waiting ended.
    async fn await_decision(
        &self,
        hold: Hold,
        id: ApprovalId,
        url: String,
        wait: &mut DecisionWait<'_>,
    ) -> Result<Hold, Box<Unreleased>> {
        // Once per approval: the loop comes here again with every change of any approval.
        if wait.is_first(&id)
            && let Err(error) = self.announce(&hold, &id, &url, wait.is_over()).await
        {
            return Err(Box::new(Unreleased::NotRecorded(hold, error)));
        }
        match wait.on(&id, &url).await {
            WaitEnd::Recheck => Ok(hold),
            WaitEnd::Cancelled => Err(Box::new(Unreleased::Cancelled(hold, Some(id)))),
            WaitEnd::TimedOut => {
                // Without a wait the call was recorded as blocked at once, and is complete.
                if wait.has_waited() {
                    let error = waiting::undecided();
                    self.recorder.ended_undecided(&hold, &id, error);
                }
                Err(Box::new(Unreleased::NeedsApproval { hold, id, url }))
            }
        }
    }

    /// Counts a call without approval against the limits that it was let past. `false` if one has no room.
    async fn has_room(&self, hold: &Hold, gathered: &mut Gathered) -> bool {
        let account = account_of(&hold.call().attempt.host.identity);
        !gathered.owes_rate() || self.facts.charge(&account, gathered).await
    }

    fn question(
        &self,
        hold: &Hold,
        request: &BoundRequest,
        settings: &ApprovalSettings,
    ) -> Question {
        let frame = &hold.call().attempt.frame;
        let named = APPROVAL_KEYS.iter().find_map(|key| frame.meta(key));
        let named = named.and_then(|named| named.as_str()?.parse().ok());
        let span = |time| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        let mut asking = self.recorder.asking(hold.call(), request, hold.ruling());
        asking.flags = self.definition_flags(hold);
        Question {
            asking,
            sealed: Vec::new(),
            // Only checks share an approval; each call has its own.
            joins: false,
            binding: hold.binding(),
            named,
            expire_after: span(settings.expire_after),
            valid_for: span(settings.valid_for),
        }
    }

    /// Suspicious traits of the tool's definition, for the approver.
    fn definition_flags(&self, hold: &Hold) -> Vec<String> {
        match &hold.call().target {
            Target::Tool(tool) => {
                let catalog = self.providers.catalog();
                let all = catalog.all().map(|(tool, _)| &**tool);
                let names = Names::of(all, catalog.naming());
                let flags = flags(tool, &names);
                flags.iter().map(ToString::to_string).collect()
            }
            Target::Prompt(_)
            | Target::Resource(_)
            | Target::Completion(_)
            | Target::Method { .. } => Vec::new(),
        }
    }

    /// Records a held call and emits its event.
    async fn announce(
        &self,
        hold: &Hold,
        id: &ApprovalId,
        url: &str,
        is_over: bool,
    ) -> Result<(), NotRecorded> {
        let status = if is_over {
            Status::Blocked
        } else {
            Status::Pending
        };
        // The record first: an approver must not be asked about a call that could not be recorded.
        self.recorder.held(hold, Some(id), status).await?;
        self.events.emit(ApprovalRequired {
            call: hold.call(),
            ruling: hold.ruling(),
            approval: id,
            url,
        });
        Ok(())
    }

    /// Uses a claimed approval.
    async fn release(
        &self,
        hold: Hold,
        id: ApprovalId,
        gathered: &mut Gathered,
        wait: &DecisionWait<'_>,
    ) -> Released {
        let (binding, approval_service) = (hold.binding(), wait.approval_service());
        // A call that waited is decided again: policy, paths and history may have changed since. One that did not wait was
        // decided just now.
        let verdict = if wait.has_waited() {
            let policy = self.providers.policy();
            let call = hold.into_call();
            self.facts.refresh(&call, &policy, gathered).await;
            decide(call, &policy, &gathered.facts)
        } else {
            Verdict::Hold(hold)
        };
        let verdict = match verdict {
            // `release` compares the binding with the call, so an approval cannot release a call that has changed.
            Verdict::Hold(hold) => hold.release(Consent::approved(id.clone(), binding)),
            decided @ (Verdict::Permit(_) | Verdict::Deny(_)) => decided,
        };
        match verdict {
            Verdict::Permit(permit) => {
                if permit.approval().is_none() {
                    // Policy now allows the call without approval, so the approval is not used up.
                    approval_service.give_back(&id).await;
                }
                Released::Permit(permit)
            }
            // Given back here and below: the person approved the call, and this attempt did not use that up.
            Verdict::Hold(hold) => {
                approval_service.give_back(&id).await;
                Released::Held(hold)
            }
            Verdict::Deny(denied) => {
                approval_service.give_back(&id).await;
                Released::Denied(denied)
            }
        }
    }
}

enum Released {
    Permit(Permit),
    Denied(Denied),
    Held(Hold),
}

/// The call as it will run, for the approver.
fn whole(hold: &Hold, request: &BoundRequest) -> UnsealedCall {
    UnsealedCall {
        tool: hold.call().target.name().to_owned(),
        arguments: request.arguments.clone(),
        others: request.others.clone(),
    }
}

fn too_large(bytes: usize) -> String {
    format!(
        "it needs approval, but its arguments have {bytes} bytes; an approver can be shown at most {MAX_SHOWN_BYTES}"
    )
}

pub(crate) fn too_many(limit: usize) -> String {
    format!(
        "{limit} approvals are already pending, which is the limit; wait until some are decided"
    )
}

fn unreleased(why: Unreleased) -> Release {
    Err(Box::new(why))
}

fn refuse_to_hold(hold: Hold, rule: &str, reason: &str) -> Release {
    unreleased(Unreleased::Denied(hold.refuse(rule, reason)))
}
