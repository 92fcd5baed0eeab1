//! Approvals of a simulation: each is used once, and what expired stays so.

use std::collections::BTreeMap;

use callgate_gate::{ApprovalId, CallId, Digest};
use callgate_record::{
    Answer, Approvals as _, Approver, AskOutcome, Claim, DecisionChannel, HeldCallExcerpt, Question,
};
use callgate_store::ApprovalStore;
use jiff::{SignedDuration, Timestamp};

use super::random::Random;
use crate::support::new_id;

const EXPIRE_AFTER: SignedDuration = SignedDuration::from_hours(1);
const VALID_FOR: SignedDuration = SignedDuration::from_secs(300);
/// How many different calls ask.
const BINDINGS: u64 = 3;

/// What was promised about each approval.
#[derive(Debug, Default)]
pub(super) struct PromisedApprovals {
    known: BTreeMap<String, Promised>,
}

#[derive(Debug)]
struct Promised {
    id: ApprovalId,
    decided: Option<Answer>,
    over_at: Timestamp,
    is_over: bool,
    is_used: bool,
}

impl PromisedApprovals {
    /// Asks about a call; returns the claim if it is approved.
    pub(super) fn ask(
        &mut self,
        store: &ApprovalStore,
        random: &mut Random,
        (call, now): (CallId, Timestamp),
    ) -> Option<Claim> {
        let binding = Digest::of(&random.below(BINDINGS).to_le_bytes());
        self.look(now);
        match store.ask(&question(binding), call, now).unwrap() {
            AskOutcome::Claimed(claim) => {
                let promised = &self.known[claim.approval.as_str()];
                assert_eq!(promised.decided, Some(Answer::Approve), "{promised:?}");
                assert!(!promised.is_over, "it was revived: {promised:?}");
                assert!(!promised.is_used, "it was used before: {promised:?}");
                Some(claim)
            }
            AskOutcome::Pending { approval, is_new } => {
                let promised = self.known.entry(approval.id.to_string());
                let promised = promised.or_insert_with(|| Promised {
                    id: approval.id.clone(),
                    decided: None,
                    over_at: approval.expires_at,
                    is_over: false,
                    is_used: false,
                });
                assert!(is_new || promised.decided.is_none(), "{promised:?}");
                assert!(!promised.is_over, "it was revived: {promised:?}");
                None
            }
            AskOutcome::Denied(approval) => {
                let promised = &self.known[approval.id.as_str()];
                assert_eq!(promised.decided, Some(Answer::Deny), "{promised:?}");
                assert!(!promised.is_over, "it was revived: {promised:?}");
                None
            }
            AskOutcome::TooMany { .. } => panic!("there are only {BINDINGS} calls"),
        }
    }

    /// Decides about one of the known approvals.
    pub(super) fn decide(&mut self, store: &ApprovalStore, random: &mut Random, now: Timestamp) {
        self.look(now);
        if self.known.is_empty() {
            return;
        }
        let at = random.index(self.known.len());
        let answer = *random.pick(&[Answer::Approve, Answer::Approve, Answer::Deny]);
        let Some(promised) = self.known.values_mut().nth(at) else {
            return;
        };
        let by = Approver {
            principal: "admin".to_owned(),
            person: None,
            tenant: None,
            way: DecisionChannel::Api,
        };
        if let Ok(resolved) = store.resolve(&promised.id, answer, &by, now)
            && resolved.is_new
        {
            assert!(!promised.is_over, "it was decided too late: {promised:?}");
            assert_eq!(
                promised.decided, None,
                "it was decided before: {promised:?}"
            );
            promised.decided = Some(answer);
            promised.over_at = now + VALID_FOR;
        }
    }

    /// The call of a claim is on record.
    pub(super) fn used(&mut self, claim: &Claim) {
        let promised = self.known.get_mut(claim.approval.as_str()).unwrap();
        promised.is_used = true;
    }

    /// The store looks at the clock: what is over by now is over for good.
    fn look(&mut self, now: Timestamp) {
        for promised in self.known.values_mut() {
            promised.is_over |= promised.over_at <= now;
        }
    }
}

fn question(binding: Digest) -> Question {
    Question {
        asking: HeldCallExcerpt {
            record_id: new_id(),
            tenant: "local".to_owned(),
            principal: "agent".to_owned(),
            agent: "tester".to_owned(),
            session_id: "s1".to_owned(),
            server: "fs".to_owned(),
            tool: "delete".to_owned(),
            arguments: "{}".to_owned(),
            arguments_bytes: 2,
            arguments_whole: true,
            others: None,
            definition: None,
            rule: "require_approval:mcp_tool:*:*".to_owned(),
            reason: "it deletes".to_owned(),
            checks: Vec::new(),
            flags: Vec::new(),
        },
        sealed: b"key-mark and the sealed call".to_vec(),
        joins: false,
        binding,
        named: None,
        expire_after: EXPIRE_AFTER,
        valid_for: VALID_FOR,
    }
}
