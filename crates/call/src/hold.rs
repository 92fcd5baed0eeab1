//! hold: a call that needs a person's yes. It is put on record and answered, or it waits.
//!
//! A call continues in one of these ways, whichever the host can do: it comes again, with the approval's
//! id in `_meta`, with a state that it was given, or as the very same call; or it waits here until somebody
//! decides. What only asks for a confirmation is asked of the person at the host where the host can do
//! that. A call that waited is decided again before it goes on, and the stricter counts.

mod come_again;
mod confirm;
mod elsewhere;
mod waiting;

use callgate_gate::{
    ApprovalId, BoundRequest, Consent, Denied, Hold, Permit, Target, Verdict, decide,
    pins::{Names, flags},
};
use callgate_record::{Asked, NotRecorded, Question, Recorder, Status, Whole};
use jiff::SignedDuration;

use crate::{
    ApprovalService, Events, Exchange, Providers,
    approval_service::ApprovalSettings,
    events::calls::ApprovalRequired,
    facts::{FactSources, Gathered, account_of},
    parking::Back,
};
pub(crate) use come_again::{Asks, question};
use confirm::{Confirmed, confirm};
use waiting::{Wait, Woken};

/// Keys of a request's `_meta` under which a host names an approval.
const APPROVAL_KEYS: [&str; 2] = ["dev.callgate/approval_id", "dev.agentguard/approval_id"];
/// The rule named when nobody can be asked.
pub(crate) const NOBODY_RULE: &str = "deny:gateway:no_approvals";
/// The rule named when a caller has asked too much already.
pub(crate) const TOO_MANY_RULE: &str = "deny:gateway:too_many_approvals";

/// The rule named when a call is too large for a person to be shown.
const TOO_LARGE_RULE: &str = "deny:gateway:too_large_to_approve";
/// An approver is shown the whole call, so a larger one cannot be asked about.
const MAX_SHOWN_BYTES: usize = 1024 * 1024;

/// What holding a call needs of the path.
pub(crate) struct HoldStep<'a> {
    pub(crate) providers: &'a dyn Providers,
    pub(crate) recorder: &'a Recorder,
    pub(crate) events: &'a Events,
    pub(crate) facts: &'a FactSources,
    /// Where people are asked; `None` where there is nobody to ask.
    pub(crate) approval_service: Option<&'a ApprovalService>,
    /// What a host brings that comes back to this call.
    pub(crate) back: Option<&'a Back>,
}

/// Why a held call does not go on.
#[derive(Debug)]
pub(crate) enum Unreleased {
    /// It needs approval: this one, which is given there.
    NeedsApproval {
        hold: Hold,
        id: ApprovalId,
        url: String,
    },
    /// The host has to ask its person, and come again.
    NeedsConfirmation(Hold),
    /// A person said no.
    Refused(Denied, Option<ApprovalId>),
    /// Policy says no by now, or nobody can be asked.
    Denied(Denied),
    /// The host does not want an answer any more; the approval that it waited for, where one was asked for.
    Cancelled(Hold, Option<ApprovalId>),
    /// It could not be put on record.
    NotRecorded(Hold, NotRecorded),
}

type Release = Result<Permit, Box<Unreleased>>;

impl HoldStep<'_> {
    /// Keeps a call until somebody releases it, as long as the terms say.
    pub(crate) async fn keep(
        &self,
        hold: Hold,
        gathered: &mut Gathered,
        exchange: &Exchange,
    ) -> Release {
        let guard = gathered.facts.guard.as_deref_mut();
        if let Some(there) = guard.and_then(|guarded| guarded.approval.take()) {
            return self.keep_elsewhere(hold, there, gathered, exchange).await;
        }
        let hold = match self.confirm(hold, exchange).await {
            Ok(hold) => hold,
            Err(released) => return released,
        };
        let Some(approval_service) = self.approval_service else {
            let reason = "it needs approval, and nobody can be asked here";
            return nobody(hold, NOBODY_RULE, reason);
        };
        let request = BoundRequest::of(hold.call());
        if request.len() > MAX_SHOWN_BYTES {
            return nobody(hold, TOO_LARGE_RULE, &too_large(request.len()));
        }
        self.facts.held(hold.call(), gathered).await;
        let settings = approval_service.settings();
        let mut wait = Wait::new(approval_service, &settings, exchange, &hold);
        let mut hold = hold;
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
                    let reason = "it needs approval, and approvals cannot be kept";
                    return nobody(hold, NOBODY_RULE, reason);
                }
            };
            match self.answered(hold, asked, gathered, &mut wait).await {
                Ok(again) => hold = again,
                Err(released) => return released,
            }
        }
    }

    /// Asks the person at the host, where that is enough. Gives the hold back where an approver has to be asked.
    async fn confirm(&self, hold: Hold, exchange: &Exchange) -> Result<Hold, Release> {
        Err(match confirm(hold, exchange, self.back).await {
            Confirmed::Unasked(hold) => return Ok(hold),
            Confirmed::Permit(permit) => Ok(permit),
            Confirmed::Refused(denied) => unreleased(Unreleased::Refused(denied, None)),
            Confirmed::Cancelled(hold) => unreleased(Unreleased::Cancelled(hold, None)),
            Confirmed::ComeAgain(hold) => {
                let held = self.recorder.held(&hold, None, Status::Blocked).await;
                unreleased(match held {
                    Ok(()) => Unreleased::NeedsConfirmation(hold),
                    Err(error) => Unreleased::NotRecorded(hold, error),
                })
            }
        })
    }

    /// Does what the desk answered. Gives the hold back where it has to be asked about again.
    async fn answered(
        &self,
        hold: Hold,
        asked: Asked,
        gathered: &mut Gathered,
        wait: &mut Wait<'_>,
    ) -> Result<Hold, Release> {
        match asked {
            Asked::Claimed(claim) => {
                match self.release(hold, claim.id, gathered, wait).await {
                    Released::Permit(permit) => Err(Ok(permit)),
                    Released::Denied(denied) => Err(unreleased(Unreleased::Denied(denied))),
                    // Another rule asks by now, so another approval is needed.
                    Released::Held(other) => Ok(other),
                }
            }
            Asked::Denied(approval) => {
                let denied = hold.deny("a person decided that this call may not happen");
                Err(unreleased(Unreleased::Refused(denied, Some(approval.id))))
            }
            Asked::TooMany { limit } => Err(nobody(hold, TOO_MANY_RULE, &too_many(limit))),
            // Only a yes lets a call past its rate limit.
            Asked::Pending { .. } if !self.has_room(&hold, gathered).await => {
                let policy = self.providers.policy();
                match decide(hold.into_call(), &policy, &gathered.facts) {
                    Verdict::Deny(denied) => Err(unreleased(Unreleased::Denied(denied))),
                    Verdict::Permit(permit) => Err(Ok(permit)),
                    Verdict::Hold(hold) => Ok(hold),
                }
            }
            Asked::Pending { approval, .. } => {
                let url = wait.url(&approval.id);
                self.await_decision(hold, approval.id, url, wait)
                    .await
                    .map_err(Err)
            }
        }
    }

    /// Tells of a pending approval, and waits until there may be something new about it. Gives the hold
    /// back to be looked at again, or says how waiting ended.
    async fn await_decision(
        &self,
        hold: Hold,
        id: ApprovalId,
        url: String,
        wait: &mut Wait<'_>,
    ) -> Result<Hold, Box<Unreleased>> {
        if wait.is_first(&id)
            && let Err(error) = self.tell(&hold, &id, &url, wait.is_over()).await
        {
            return Err(Box::new(Unreleased::NotRecorded(hold, error)));
        }
        match wait.on(&id, &url).await {
            Woken::Look => Ok(hold),
            Woken::Cancelled => Err(Box::new(Unreleased::Cancelled(hold, Some(id)))),
            Woken::Over => {
                if wait.has_waited() {
                    let error = waiting::undecided();
                    self.recorder.waited_in_vain(&hold, &id, error);
                }
                Err(Box::new(Unreleased::NeedsApproval { hold, id, url }))
            }
        }
    }

    /// Counts a call that is not approved against the limits that it was let past.
    async fn has_room(&self, hold: &Hold, gathered: &mut Gathered) -> bool {
        let account = account_of(&hold.call().attempt.host.who);
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
        asking.flags = self.odd_about(hold);
        Question {
            asking,
            sealed: Vec::new(),
            joins: false,
            binding: hold.binding(),
            named,
            expire_after: span(settings.expire_after),
            valid_for: span(settings.valid_for),
        }
    }

    /// What is odd about the definition of the tool, for whoever decides.
    fn odd_about(&self, hold: &Hold) -> Vec<String> {
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

    /// Puts a held call on record and tells of it.
    async fn tell(
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
        self.recorder.held(hold, Some(id), status).await?;
        self.events.emit(ApprovalRequired {
            call: hold.call(),
            ruling: hold.ruling(),
            approval: id,
            url,
        });
        Ok(())
    }

    /// Uses a claimed approval. A call that came just now was decided just now; one that waited is
    /// decided again, by the policy of now.
    async fn release(
        &self,
        hold: Hold,
        id: ApprovalId,
        gathered: &mut Gathered,
        wait: &Wait<'_>,
    ) -> Released {
        let (binding, approval_service) = (hold.binding(), wait.approval_service());
        let verdict = if wait.has_waited() {
            let policy = self.providers.policy();
            let call = hold.into_call();
            self.facts.look_again(&call, &policy, gathered).await;
            decide(call, &policy, &gathered.facts)
        } else {
            Verdict::Hold(hold)
        };
        let verdict = match verdict {
            Verdict::Hold(hold) => hold.release(Consent::approved(id.clone(), binding)),
            decided @ (Verdict::Permit(_) | Verdict::Deny(_)) => decided,
        };
        match verdict {
            Verdict::Permit(permit) => {
                if permit.approval().is_none() {
                    // Policy asks for nobody any more.
                    approval_service.give_back(&id).await;
                }
                Released::Permit(permit)
            }
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

/// What came of a release.
enum Released {
    Permit(Permit),
    Denied(Denied),
    Held(Hold),
}

/// The call as it will run, for the approver.
fn whole(hold: &Hold, request: &BoundRequest) -> Whole {
    Whole {
        tool: hold.call().target.name().to_owned(),
        arguments: request.arguments.clone(),
        others: request.others.clone(),
    }
}

/// Why a call of so many bytes is not held.
fn too_large(bytes: usize) -> String {
    format!(
        "it needs approval, and it has {bytes} bytes of arguments; an approver can be shown at most {MAX_SHOWN_BYTES}"
    )
}

/// Why a caller with so many open questions may not ask another one.
pub(crate) fn too_many(limit: usize) -> String {
    format!("{limit} approvals are asked for already; wait for those")
}

fn unreleased(why: Unreleased) -> Release {
    Err(Box::new(why))
}

fn nobody(hold: Hold, rule: &str, reason: &str) -> Release {
    unreleased(Unreleased::Denied(hold.refuse(rule, reason)))
}
