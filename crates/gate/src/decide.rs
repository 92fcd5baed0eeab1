//! The decision: the only place where a [`Permit`] is made, at once or out of a [`Hold`].
//!
//! Pure: the same call, policy and facts always give the same verdict. The call path gathers facts that need a
//! clock, a file or another process beforehand.

use crate::{
    ApprovalId, Call, Check, Consent, Digest, Facts, Fault, GivenConsent, Kind, Policy, Target,
    approval,
};

/// The deciding rule and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// `<verdict>:<scope>:<pattern>`, or `deny:default`.
    pub rule: String,
    /// One sentence for a person or a model.
    pub reason: String,
    /// Every check, in evaluation order.
    pub checks: Vec<Check>,
}

/// A call that may be forwarded, together with the exact bytes.
///
/// It is not `Clone`, its fields are private, and only [`decide`] and [`Hold::release`] make one.
#[derive(Debug)]
pub struct Permit {
    decided: Box<DecidedCall>,
    /// Boxed to keep the common path small: most permits need no consent.
    agreed: Option<Box<GivenConsent>>,
}

/// A call that waits for a person.
#[derive(Debug)]
pub struct Hold {
    decided: Box<DecidedCall>,
    /// Whether a confirmation at the host is enough; otherwise an approver must decide.
    confirms: bool,
}

/// A call that was refused.
#[derive(Debug)]
pub struct Denied {
    decided: Box<DecidedCall>,
}

/// A call and its ruling. Boxed everywhere: it is large, and each step moves it.
#[derive(Debug)]
struct DecidedCall {
    call: Call,
    ruling: Ruling,
}

#[derive(Debug)]
#[must_use]
pub enum Verdict {
    /// It may be forwarded, once it is on record.
    Permit(Permit),
    /// A person must agree first.
    Hold(Hold),
    Deny(Denied),
}

/// Decides one call: a faulty intent denies it, then the strictest check counts.
pub fn decide(call: Call, policy: &Policy, facts: &Facts) -> Verdict {
    if let Some(fault) = intent_fault(&call) {
        // Before policy: a call whose declaration is wrong must not reach rules that trust `intent`.
        let ruling = Ruling::new(&fault.rule(), &fault.to_string());
        let decided = Box::new(DecidedCall { call, ruling });
        return Verdict::Deny(Denied { decided });
    }
    let (kind, ruling) = Ruling::strictest(policy.judge(&call, facts));
    let decided = Box::new(DecidedCall { call, ruling });
    match kind {
        Kind::Allow => Verdict::Permit(Permit {
            decided,
            agreed: None,
        }),
        Kind::Confirm | Kind::RequireApproval => Verdict::Hold(Hold {
            decided,
            // A confirmation comes from the host's own user, who is not enough for `require_approval`.
            confirms: kind == Kind::Confirm,
        }),
        Kind::Deny => Verdict::Deny(Denied { decided }),
    }
}

/// The fault in the declared intent of a call, if any. The path also checks before it gathers facts, but a
/// missing check there must not lead to a permit.
fn intent_fault(call: &Call) -> Option<Fault> {
    let declared = call.attempt.declared.as_ref()?;
    match &call.target {
        Target::Tool(tool) => declared.against(tool).err(),
        Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) | Target::Method { .. } => {
            declared.fault.clone()
        }
    }
}

impl Ruling {
    /// A ruling of the gateway itself, without checks.
    pub fn new(rule: &str, reason: &str) -> Self {
        Self {
            rule: rule.to_owned(),
            reason: reason.to_owned(),
            checks: Vec::new(),
        }
    }

    /// Combines the checks of a call: the strictest counts, and the earliest of equally strict ones.
    pub fn strictest(checks: Vec<Check>) -> (Kind, Self) {
        // A guard reports confirmations as REQUIRE_APPROVAL. Ranking a real approval higher makes a gateway with
        // a guard report the same rule as a gateway that evaluates the rules itself.
        let strictness = |check: &&Check| (check.kind, !check.rule.starts_with("confirm:"));
        // `max_by_key` returns the last maximum, so the order is reversed to report the earliest check.
        let strictest = checks.iter().rev().max_by_key(strictness);
        let (kind, rule, reason) = match strictest {
            Some(check) => (check.kind, check.rule.clone(), check.reason.clone()),
            // Fail closed: a policy without layers was never meant to allow anything.
            None => (
                Kind::Deny,
                "deny:default".to_owned(),
                "no policy is configured".to_owned(),
            ),
        };
        let ruling = Self {
            rule,
            reason,
            checks,
        };
        (kind, ruling)
    }

    /// A digest of the rules that ask for a person: an approval is valid for exactly these rules.
    pub fn asked_by(&self) -> Digest {
        let asking = self.checks.iter().filter(|check| match check.kind {
            Kind::Confirm | Kind::RequireApproval => true,
            Kind::Allow | Kind::Deny => false,
        });
        // Rule hashes and not ids: two rules can share an id, and an edited rule must be asked about again.
        let hashes: Vec<u8> = asking.flat_map(|check| *check.hash.as_bytes()).collect();
        Digest::of(&hashes)
    }
}

impl Permit {
    pub fn call(&self) -> &Call {
        &self.decided.call
    }

    /// The rule that permitted it.
    pub fn ruling(&self) -> &Ruling {
        &self.decided.ruling
    }

    /// The approval that it relies on; writing "about to forward" to the log uses the approval up.
    pub fn approval(&self) -> Option<&ApprovalId> {
        self.agreed.as_ref()?.approval.as_ref()
    }

    /// The consent that it relies on, an approval or a confirmation.
    pub fn agreed(&self) -> Option<&GivenConsent> {
        self.agreed.as_deref()
    }

    /// Turns the permit into a denial by the gateway itself, under `rule`.
    pub fn refuse(self, rule: &str, reason: &str) -> Denied {
        let mut decided = self.decided;
        decided.ruling.rule = rule.to_owned();
        decided.ruling.reason = reason.to_owned();
        Denied { decided }
    }

    /// Takes the call out; the permission is lost.
    pub fn into_call(self) -> Call {
        self.decided.call
    }
}

impl Hold {
    pub fn call(&self) -> &Call {
        &self.decided.call
    }

    /// The ruling that held the call.
    pub fn ruling(&self) -> &Ruling {
        &self.decided.ruling
    }

    /// Whether a confirmation by the person at the host is enough.
    pub fn asks_for_confirmation(&self) -> bool {
        self.confirms
    }

    /// The digest that a consent must match: this exact call, held by these rules.
    pub fn binding(&self) -> Digest {
        approval::binding(&self.decided.call, &self.decided.ruling)
    }

    /// Permits the call if the consent is for this call and strong enough; otherwise the call stays held.
    pub fn release(self, consent: Consent) -> Verdict {
        let is_enough = consent.approval.is_some() || self.confirms;
        // The binding is computed again from the held call: a policy reload or another definition of the tool
        // between asking and answering invalidates the consent.
        if !is_enough || consent.binding != self.binding() {
            return Verdict::Hold(self);
        }
        Verdict::Permit(Permit {
            decided: self.decided,
            agreed: Some(Box::new(GivenConsent {
                binding: consent.binding,
                approval: consent.approval,
            })),
        })
    }

    /// Takes the call out, to be decided again.
    pub fn into_call(self) -> Call {
        self.decided.call
    }

    /// Ends the hold because a person refused.
    pub fn deny(self, reason: &str) -> Denied {
        // The record names the rule that held the call, so a refusal can be traced to what asked for it.
        let rule = self.decided.ruling.rule.clone();
        self.refuse(&rule, reason)
    }

    /// Ends the hold under `rule`, because no person can be asked.
    pub fn refuse(self, rule: &str, reason: &str) -> Denied {
        let mut decided = self.decided;
        decided.ruling.rule = rule.to_owned();
        decided.ruling.reason = reason.to_owned();
        Denied { decided }
    }
}

impl Denied {
    pub fn call(&self) -> &Call {
        &self.decided.call
    }

    /// The rule that refused it.
    pub fn ruling(&self) -> &Ruling {
        &self.decided.ruling
    }
}
