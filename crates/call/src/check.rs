//! check: a question of another gateway or of a program whether a call may happen. It is judged by the same
//! policy as calls, put on record and answered; what is done with the answer is not seen here.
//!
//! A yes that rests on an approval uses it up. Where a gateway asks several scopes about one call, that is
//! one use: each scope of the call is answered once by it.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use callgate_gate::{
    ApprovalId, Call, CallId, Digest, Kind, Ruling, Who,
    guard::message::{Answer, Question},
};
use callgate_record::{Asked, Decision, NotRecorded};
use jiff::SignedDuration;
use ulid::Ulid;

use crate::{
    CallPath, DeskError,
    approvals::Terms,
    events::{
        checks::{CheckNeedsApproval, CheckServed},
        gateway::RecordFailed,
    },
    facts::Counted,
    hold::{NOBODY_RULE, TOO_MANY_RULE, too_many},
};

/// How long the other scopes of a call may be asked about after an approval was used for it.
const SAME_CALL: Duration = Duration::from_secs(60);
/// So many uses are remembered; of further ones each scope needs an approval of its own.
const MAX_REMEMBERED: usize = 10_000;

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
    NoApprovals(#[source] DeskError),
}

/// Approvals that were used for calls which other scopes may still be asked about.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    used: Mutex<HashMap<(Digest, String), Use>>,
}

#[derive(Debug)]
struct Use {
    approval: ApprovalId,
    scopes: Vec<String>,
    at: Instant,
}

impl Uses {
    /// The approval that was used for this call already, where this scope has not been answered by it.
    fn again(&self, binding: Digest, question: &Question) -> Option<ApprovalId> {
        let call = question.call.clone()?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let known = used.get_mut(&(binding, call))?;
        let is_new = !known.scopes.contains(&question.scope) && known.at.elapsed() < SAME_CALL;
        is_new.then(|| {
            known.scopes.push(question.scope.clone());
            known.approval.clone()
        })
    }

    fn note(&self, binding: Digest, question: &Question, approval: &ApprovalId) {
        let Some(call) = question.call.clone() else {
            return;
        };
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, known| known.at.elapsed() < SAME_CALL);
        if used.len() < MAX_REMEMBERED {
            let first = Use {
                approval: approval.clone(),
                scopes: vec![question.scope.clone()],
                at: Instant::now(),
            };
            used.insert((binding, call), first);
        }
    }
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
        let counted = Counted::question_of(&call.attempt.host.who, question.agent.as_deref());
        let gathered = shared
            .facts
            .look_up(&call, &counted, needs, policy.protected())
            .await;
        let checks = policy.judge_scope(&call, scope, &gathered.facts);
        let (kind, ruling) = Ruling::strictest(checks);
        let asking = Asking {
            question,
            call: &call,
            ruling,
        };
        let answer = match kind {
            Kind::Allow => self.answered(&asking, Kind::Allow, None).await?,
            Kind::Deny => self.answered(&asking, Kind::Deny, None).await?,
            Kind::Confirm | Kind::RequireApproval => self.ask_person(asking).await?,
        };
        if answer.kind == Kind::Allow {
            let (facts, target) = (&shared.facts, &call.target);
            facts.allowed(|| counted, target, &policy, gathered);
        }
        Ok(answer)
    }

    async fn ask_person(&self, mut asking: Asking<'_>) -> Result<Answer, NotChecked> {
        let Some(desk) = self.desk() else {
            let reason = "it needs approval, and nobody can be asked here";
            asking.refuse(NOBODY_RULE, reason);
            return self.answered(&asking, Kind::Deny, None).await;
        };
        let (question, call) = (asking.question, asking.call);
        let binding = question.binding(&call.attempt.host.who);
        if let Some(id) = self.shared.uses.again(binding, question) {
            return self.answered(&asking, Kind::Allow, Some((id, None))).await;
        }
        let terms = desk.terms();
        let asked = desk.ask(self.put(&asking, binding, &terms), call.attempt.id);
        match asked.await.map_err(NotChecked::NoApprovals)? {
            Asked::Claimed(approval) => {
                let id = approval.id;
                let yes = Some((id.clone(), None));
                let answer = self.answered(&asking, Kind::Allow, yes).await;
                match &answer {
                    Ok(_) => {
                        desk.used(&id).await;
                        self.shared.uses.note(binding, question, &id);
                    }
                    Err(_) => desk.give_back(&id).await,
                }
                answer
            }
            Asked::Pending { approval, .. } => {
                let url = terms.url(&approval.id);
                let (call, ruling, approval) = (asking.call, &asking.ruling, approval.id);
                self.events().emit(CheckNeedsApproval {
                    call,
                    ruling,
                    approval: &approval,
                    url: &url,
                });
                let needed = Some((approval, Some(url)));
                self.answered(&asking, Kind::RequireApproval, needed).await
            }
            Asked::Denied(_) => {
                let rule = asking.ruling.rule.clone();
                asking.refuse(&rule, "a person decided that this call may not happen");
                self.answered(&asking, Kind::Deny, None).await
            }
            Asked::TooMany { limit } => {
                asking.refuse(TOO_MANY_RULE, &too_many(limit));
                self.answered(&asking, Kind::Deny, None).await
            }
        }
    }

    /// What a person is asked.
    fn put(
        &self,
        asking: &Asking<'_>,
        binding: Digest,
        terms: &Terms,
    ) -> callgate_record::Question {
        let span = |time| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        callgate_record::Question {
            asking: self.recorder().asking(asking.call, &asking.ruling),
            binding,
            named: asking.question.approval.clone(),
            expire_after: span(terms.expire_after),
            valid_for: span(terms.valid_for),
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

impl Asking<'_> {
    fn refuse(&mut self, rule: &str, reason: &str) {
        rule.clone_into(&mut self.ruling.rule);
        reason.clone_into(&mut self.ruling.reason);
    }
}
