//! check: a question of another gateway or of a program whether a call may happen. It is judged by the same
//! policy as calls, put on record and answered; what is done with the answer is not seen here.
//!
//! An approval covers the questions that were asked under it before it was decided: a gateway asks about one
//! call in several scopes, and names the approval that the first answer gave. Each of them is answered with yes once.

use callgate_gate::{
    ApprovalId, BoundRequest, Call, CallId, Digest, Kind, Ruling, Who,
    guard::message::{Answer, Question},
};
use callgate_record::{Account, Asked, Decision, NotRecorded, Whole};
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
    hold::{NOBODY_RULE, TOO_MANY_RULE, too_many},
};

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum NotChecked {
    /// It names nothing that could be called.
    #[error("the question names nothing that could be called")]
    Unclear,
    /// The answer could not be put on record.
    #[error("the answer cannot be put on record")]
    NotRecorded(#[source] NotRecorded),
    /// Approvals cannot be kept.
    #[error("approvals cannot be kept")]
    NoApprovals(#[source] ApprovalServiceError),
}

/// What is known about a question while it is answered.
struct Asking<'a> {
    question: &'a Question,
    call: &'a Call,
    ruling: Ruling,
}

impl CallPath {
    /// Answers whether what is asked about may happen.
    pub async fn check(&self, question: &Question, who: Who) -> Result<Answer, NotChecked> {
        let shared = &self.shared;
        let call = question.call(CallId(Ulid::generate()), who);
        let call = call.ok_or(NotChecked::Unclear)?;
        let policy = shared.providers.policy();
        let name = question.name();
        let scope = (question.scope.as_str(), &*name);
        let needs = policy.needs_of_scope(&call, scope.0);
        let account = account_of_question(&call.attempt.host.who, question.agent.as_deref());
        let mut gathered = shared
            .facts
            .look_up(&call, &account, needs, policy.protected())
            .await;
        let judged = |gathered: &Gathered| {
            Ruling::strictest(policy.judge_scope(&call, scope, &gathered.facts))
        };
        let (mut kind, mut ruling) = judged(&gathered);
        if kind == Kind::Allow && gathered.owes_rate() {
            shared.facts.charge(&account, &mut gathered).await;
            (kind, ruling) = judged(&gathered);
        }
        let mut asking = Asking {
            question,
            call: &call,
            ruling,
        };
        let answer = match kind {
            Kind::Allow | Kind::Deny => self.answered(&asking, kind, None).await?,
            Kind::Confirm | Kind::RequireApproval => {
                match self
                    .ask_person(&mut asking, &account, &mut gathered)
                    .await?
                {
                    Some(answer) => answer,
                    None => {
                        (_, asking.ruling) = judged(&gathered);
                        self.answered(&asking, Kind::Deny, None).await?
                    }
                }
            }
        };
        if answer.kind == Kind::Allow {
            let (facts, target) = (&shared.facts, &call.target);
            facts.allowed(|| account, target, &policy, gathered).await;
        }
        Ok(answer)
    }

    /// Asks a person; `None` where no person has said yes and the question has no room in its rate limit.
    async fn ask_person(
        &self,
        asking: &mut Asking<'_>,
        account: &Account,
        gathered: &mut Gathered,
    ) -> Result<Option<Answer>, NotChecked> {
        let Some(approval_service) = self.approval_service() else {
            let reason = "it needs approval, and nobody can be asked here";
            asking.refuse(NOBODY_RULE, reason);
            return self.answered(asking, Kind::Deny, None).await.map(Some);
        };
        let (question, call) = (asking.question, asking.call);
        let facts = &self.shared.facts;
        facts.held(call, gathered).await;
        let who = &call.attempt.host.who;
        let settings = approval_service.settings();
        let put = self.put(asking, question.binding(who), &settings);
        let asked = approval_service.ask(put, whole(asking), call.attempt.id);
        let answer = match asked.await.map_err(NotChecked::NoApprovals)? {
            Asked::Claimed(claim) => {
                let yes = Some((claim.approval, None));
                let answer = self.answered(asking, Kind::Allow, yes).await;
                match &answer {
                    Ok(_) => approval_service.used(&claim.id).await,
                    Err(_) => approval_service.give_back(&claim.id).await,
                }
                answer
            }
            Asked::Pending { .. }
                if gathered.owes_rate() && !facts.charge(account, gathered).await =>
            {
                return Ok(None);
            }
            Asked::Pending { approval, .. } => {
                let url = settings.url(&approval.id);
                let (call, ruling, approval) = (asking.call, &asking.ruling, approval.id);
                self.events().emit(CheckNeedsApproval {
                    call,
                    ruling,
                    approval: &approval,
                    url: &url,
                });
                let needed = Some((approval, Some(url)));
                self.answered(asking, Kind::RequireApproval, needed).await
            }
            Asked::Denied(_) => {
                let rule = asking.ruling.rule.clone();
                asking.refuse(&rule, "a person decided that this call may not happen");
                self.answered(asking, Kind::Deny, None).await
            }
            Asked::TooMany { limit } => {
                asking.refuse(TOO_MANY_RULE, &too_many(limit));
                self.answered(asking, Kind::Deny, None).await
            }
        };
        answer.map(Some)
    }

    /// What a person is asked.
    fn put(
        &self,
        asking: &Asking<'_>,
        binding: Digest,
        settings: &ApprovalSettings,
    ) -> callgate_record::Question {
        let span = |time| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        let mut request = BoundRequest::of(asking.call);
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

    /// Puts an answer on record and tells of it. Without a record there is none.
    async fn answered(
        &self,
        asking: &Asking<'_>,
        kind: Kind,
        approval: Option<(ApprovalId, Option<String>)>,
    ) -> Result<Answer, NotChecked> {
        let Asking {
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
            let told = error.to_string();
            self.events().emit(RecordFailed { error: &told });
            NotChecked::NotRecorded(error)
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

/// What an approver is shown: what is judged, and the question with every field that the answer is bound to.
fn whole(asking: &Asking<'_>) -> Whole {
    Whole {
        tool: asking.call.target.name().to_owned(),
        arguments: BoundRequest::of(asking.call).arguments,
        others: Some(asking.question.bound().to_owned()),
    }
}

impl Asking<'_> {
    fn refuse(&mut self, rule: &str, reason: &str) {
        rule.clone_into(&mut self.ruling.rule);
        reason.clone_into(&mut self.ruling.reason);
    }
}
