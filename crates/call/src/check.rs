//! check: answers whether a call may happen that another gateway or program would make. The policy for calls judges the
//! question and the answer is recorded; this gateway does not see what happens with it.
//!
//! An approval covers the questions that joined it before it was decided: a gateway asks about one call in several scopes and
//! names the approval that the first answer gave. Each of these questions is allowed once.

use callgate_gate::{
    ApprovalId, BoundRequest, Call, CallId, CallerIdentity, Digest, Kind, Ruling,
    guard::message::{Answer, Question},
};
use callgate_record::{Account, AskOutcome, Decision, NotRecorded, UnsealedCall};
use jiff::SignedDuration;
use ulid::Ulid;

use crate::{
    ApprovalServiceError, CallPath,
    approval_service::ApprovalSettings,
    events::{
        checks::{CheckNeedsApproval, CheckServed},
        gateway::RecordFailed,
    },
    facts::{Gathered, account_of_question},
    hold::{NO_APPROVALS_RULE, TOO_MANY_RULE, too_many},
};

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error("the question does not describe a valid tool call")]
    Unclear,
    #[error("could not write the answer to the activity log")]
    NotRecorded(#[source] NotRecorded),
    #[error("could not store the approval request")]
    NoApprovals(#[source] ApprovalServiceError),
}

/// A question while it is being answered.
struct PendingCheck<'a> {
    question: &'a Question,
    call: &'a Call,
    ruling: Ruling,
}

impl CallPath {
    /// Answers whether a call may happen. Never makes a permit: nothing here leads to a provider.
    pub async fn check(
        &self,
        question: &Question,
        identity: CallerIdentity,
    ) -> Result<Answer, CheckError> {
        let shared = &self.shared;
        let call = question.call(CallId(Ulid::generate()), identity);
        let call = call.ok_or(CheckError::Unclear)?;
        let policy = shared.providers.policy();
        let name = question.name();
        let scope = (question.scope.as_str(), &*name);
        let needs = policy.needs_of_scope(&call, scope.0);
        let account = account_of_question(&call.attempt.host.identity, question.agent.as_deref());
        let mut gathered = shared
            .facts
            .look_up(&call, &account, needs, policy.protected())
            .await;
        let judged = |gathered: &Gathered| {
            Ruling::strictest(policy.judge_scope(&call, scope, &gathered.facts))
        };
        let (mut kind, mut ruling) = judged(&gathered);
        // The same order as for calls: a question that was let past its limits in case of an approval counts if it is
        // allowed without one.
        if kind == Kind::Allow && gathered.owes_rate() {
            shared.facts.charge(&account, &mut gathered).await;
            (kind, ruling) = judged(&gathered);
        }
        let mut asking = PendingCheck {
            question,
            call: &call,
            ruling,
        };
        let answer = match kind {
            Kind::Allow | Kind::Deny => self.record_answer(&asking, kind, None).await?,
            Kind::Confirm | Kind::RequireApproval => {
                match self
                    .ask_person(&mut asking, &account, &mut gathered)
                    .await?
                {
                    Some(answer) => answer,
                    // The limit is now among the facts as used up, so judging again gives its ruling.
                    None => {
                        (_, asking.ruling) = judged(&gathered);
                        self.record_answer(&asking, Kind::Deny, None).await?
                    }
                }
            }
        };
        // Only an allowed call can happen, so only that one counts as an earlier call and keeps its reserved amount.
        if answer.kind == Kind::Allow {
            let (facts, target) = (&shared.facts, &call.target);
            facts.allowed(|| account, target, &policy, gathered).await;
        }
        Ok(answer)
    }

    /// Requests approval. `None` if there is none yet and the question has no room in its rate limit.
    async fn ask_person(
        &self,
        asking: &mut PendingCheck<'_>,
        account: &Account,
        gathered: &mut Gathered,
    ) -> Result<Option<Answer>, CheckError> {
        let Some(approval_service) = self.approval_service() else {
            let reason = "it needs approval, but this gateway has no approval service";
            asking.refuse(NO_APPROVALS_RULE, reason);
            return self.record_answer(asking, Kind::Deny, None).await.map(Some);
        };
        let (question, call) = (asking.question, asking.call);
        let facts = &self.shared.facts;
        facts.held(call, gathered).await;
        let identity = &call.attempt.host.identity;
        let settings = approval_service.settings();
        let put = self.approval_question(asking, question.binding(identity), &settings);
        let asked = approval_service.ask(put, whole(asking), call.attempt.id);
        let answer = match asked.await.map_err(CheckError::NoApprovals)? {
            AskOutcome::Claimed(claim) => {
                let yes = Some((claim.approval, None));
                let answer = self.record_answer(asking, Kind::Allow, yes).await;
                // As for calls: the record first, then the approval is used up. Without a record it can be used again.
                match &answer {
                    Ok(_) => approval_service.used(&claim.id).await,
                    Err(_) => approval_service.give_back(&claim.id).await,
                }
                answer
            }
            // As in hold: only an approval lets a question past its rate limits.
            AskOutcome::Pending { .. }
                if gathered.owes_rate() && !facts.charge(account, gathered).await =>
            {
                return Ok(None);
            }
            AskOutcome::Pending { approval, .. } => {
                let url = settings.url(&approval.id);
                let (call, ruling, approval) = (asking.call, &asking.ruling, approval.id);
                self.events().emit(CheckNeedsApproval {
                    call,
                    ruling,
                    approval: &approval,
                    url: &url,
                });
                let needed = Some((approval, Some(url)));
                self.record_answer(asking, Kind::RequireApproval, needed)
                    .await
            }
            AskOutcome::Denied(_) => {
                let rule = asking.ruling.rule.clone();
                asking.refuse(&rule, "an approver denied this call");
                self.record_answer(asking, Kind::Deny, None).await
            }
            AskOutcome::TooMany { limit } => {
                asking.refuse(TOO_MANY_RULE, &too_many(limit));
                self.record_answer(asking, Kind::Deny, None).await
            }
        };
        answer.map(Some)
    }

    /// The question to the approver.
    fn approval_question(
        &self,
        asking: &PendingCheck<'_>,
        binding: Digest,
        settings: &ApprovalSettings,
    ) -> callgate_record::Question {
        let span = |time| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        let mut request = BoundRequest::of(asking.call);
        // The question as it came, with every field: the answer is bound to all of them, so the approver must see them.
        request.others = Some(asking.question.bound().to_owned());
        callgate_record::Question {
            asking: self
                .recorder()
                .asking(asking.call, &request, &asking.ruling),
            sealed: Vec::new(),
            joins: true,
            binding,
            named: asking.question.approval.clone(),
            expire_after: span(settings.expire_after),
            valid_for: span(settings.valid_for),
        }
    }

    /// Records an answer and emits its event. An answer that cannot be recorded is not given.
    async fn record_answer(
        &self,
        asking: &PendingCheck<'_>,
        kind: Kind,
        approval: Option<(ApprovalId, Option<String>)>,
    ) -> Result<Answer, CheckError> {
        let PendingCheck {
            question,
            call,
            ruling,
        } = asking;
        let decision = match kind {
            Kind::Allow => Decision::Allow,
            Kind::Confirm | Kind::RequireApproval => Decision::RequireApproval,
            Kind::Deny => Decision::Deny,
        };
        let id = approval.as_ref().map(|(id, _)| id);
        let recorded = self.recorder().checked(call, ruling, decision, id).await;
        recorded.map_err(|error| {
            let error_text = error.to_string();
            self.events().emit(RecordFailed { error: &error_text });
            CheckError::NotRecorded(error)
        })?;
        self.events().emit(CheckServed {
            call,
            scope: &question.scope,
            decision,
            ruling,
        });
        Ok(Answer {
            kind,
            rule: ruling.rule.clone(),
            reason: ruling.reason.clone(),
            approval,
        })
    }
}

/// What the approver is shown: the call, and the question with every field that the answer is bound to.
fn whole(asking: &PendingCheck<'_>) -> UnsealedCall {
    UnsealedCall {
        tool: asking.call.target.name().to_owned(),
        arguments: BoundRequest::of(asking.call).arguments,
        others: Some(asking.question.bound().to_owned()),
    }
}

impl PendingCheck<'_> {
    fn refuse(&mut self, rule: &str, reason: &str) {
        rule.clone_into(&mut self.ruling.rule);
        reason.clone_into(&mut self.ruling.reason);
    }
}
