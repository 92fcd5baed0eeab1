//! The decision: the only place where a [`Permit`] is made, at once or out of a [`Hold`].
//!
//! Pure: the same call, policy and facts always give the same verdict. Facts that need a clock, a
//! file or another process are gathered before, by the call path, and handed in.

use crate::{
    Agreed, ApprovalId, Call, Check, Consent, Digest, Facts, Fault, Kind, Policy, Target, approval,
};

/// Which rule spoke, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// `<verdict>:<scope>:<pattern>`, or `deny:default`.
    pub rule: String,
    /// One sentence for a person or a model.
    pub reason: String,
    /// Everything that was asked, in its order.
    pub checks: Vec<Check>,
}

/// A call that may be forwarded, together with the very bytes that may be.
///
/// It is not `Clone`, its fields are private and only [`decide`] makes one, or [`Hold::release`] out
/// of what it held.
#[derive(Debug)]
pub struct Permit {
    decided: Box<Decided>,
    /// Boxed: most permits rest on nobody's word.
    agreed: Option<Box<Agreed>>,
}

/// A call that waits for a person.
#[derive(Debug)]
pub struct Hold {
    decided: Box<Decided>,
    /// Whether a confirmation is all that is asked for.
    confirms: bool,
}

/// A call that was refused.
#[derive(Debug)]
pub struct Denied {
    decided: Box<Decided>,
}

/// A call and what was ruled about it. Boxed wherever it goes: it is large, and each step hands it on.
#[derive(Debug)]
struct Decided {
    call: Call,
    ruling: Ruling,
}

/// What [`decide`] says.
#[derive(Debug)]
#[must_use]
pub enum Verdict {
    /// It may be forwarded, once it is on record.
    Permit(Permit),
    /// A person has to say yes first.
    Hold(Hold),
    /// It may not.
    Deny(Denied),
}

/// Decides one call: its intent must hold, and then the strictest of all checks counts.
pub fn decide(call: Call, policy: &Policy, facts: &Facts) -> Verdict {
    if let Some(fault) = intent_fault(&call) {
        let ruling = Ruling::new(&fault.rule(), &fault.to_string());
        let decided = Box::new(Decided { call, ruling });
        return Verdict::Deny(Denied { decided });
    }
    let (kind, ruling) = Ruling::strictest(policy.judge(&call, facts));
    let decided = Box::new(Decided { call, ruling });
    match kind {
        Kind::Allow => Verdict::Permit(Permit {
            decided,
            agreed: None,
        }),
        Kind::Confirm | Kind::RequireApproval => Verdict::Hold(Hold {
            decided,
            confirms: kind == Kind::Confirm,
        }),
        Kind::Deny => Verdict::Deny(Denied { decided }),
    }
}

/// What is wrong with the declared intent of a call. The path asks before it gathers facts; that no permit
/// is made for such a call does not depend on it.
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
    /// A ruling of the gateway itself, with no rule set asked.
    pub fn new(rule: &str, reason: &str) -> Self {
        Self {
            rule: rule.to_owned(),
            reason: reason.to_owned(),
            checks: Vec::new(),
        }
    }

    /// What all checks of a call come to: the strictest counts, and the earlier of two that are as strict.
    pub fn strictest(checks: Vec<Check>) -> (Kind, Self) {
        // To a guard a confirmation is an approval, too; next to one that was asked for as such it is the lesser.
        let strictness = |check: &&Check| (check.kind, !check.rule.starts_with("confirm:"));
        let strictest = checks.iter().rev().max_by_key(strictness);
        let (kind, rule, reason) = match strictest {
            Some(check) => (check.kind, check.rule.clone(), check.reason.clone()),
            // A policy without any layer allows nothing.
            None => (
                Kind::Deny,
                "deny:default".to_owned(),
                "there is no policy".to_owned(),
            ),
        };
        let ruling = Self {
            rule,
            reason,
            checks,
        };
        (kind, ruling)
    }

    /// What the rules are that ask for a person: an approval holds for these and no others.
    pub fn asked_by(&self) -> Digest {
        let asking = self.checks.iter().filter(|check| match check.kind {
            Kind::Confirm | Kind::RequireApproval => true,
            Kind::Allow | Kind::Deny => false,
        });
        let hashes: Vec<u8> = asking.flat_map(|check| *check.hash.as_bytes()).collect();
        Digest::of(&hashes)
    }
}

impl Permit {
    /// The permitted call.
    pub fn call(&self) -> &Call {
        &self.decided.call
    }

    /// The rule that permitted it.
    pub fn ruling(&self) -> &Ruling {
        &self.decided.ruling
    }

    /// The approval that it rests on; the record that it is about to be forwarded uses it up.
    pub fn approval(&self) -> Option<&ApprovalId> {
        self.agreed.as_ref()?.approval.as_ref()
    }

    /// The person's yes that it rests on, an approval or a confirmation.
    pub fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_deref()
    }

    /// Gives the permit up because the gateway itself refuses the call; `rule` says so.
    pub fn refuse(self, rule: &str, reason: &str) -> Denied {
        let mut decided = self.decided;
        decided.ruling.rule = rule.to_owned();
        decided.ruling.reason = reason.to_owned();
        Denied { decided }
    }

    /// Gives the permit up for the call in it; the permission is gone with it.
    pub fn into_call(self) -> Call {
        self.decided.call
    }
}

impl Hold {
    /// The held call.
    pub fn call(&self) -> &Call {
        &self.decided.call
    }

    /// The rule that asks for a person.
    pub fn ruling(&self) -> &Ruling {
        &self.decided.ruling
    }

    /// Whether the word of the person at the host is enough.
    pub fn asks_for_confirmation(&self) -> bool {
        self.confirms
    }

    /// What a consent must be for: this exact call, held by these rules.
    pub fn binding(&self) -> Digest {
        approval::binding(&self.decided.call, &self.decided.ruling)
    }

    /// Permits the call if the consent is for it, and enough; else it stays held.
    pub fn release(self, consent: Consent) -> Verdict {
        let is_enough = consent.approval.is_some() || self.confirms;
        if !is_enough || consent.binding != self.binding() {
            return Verdict::Hold(self);
        }
        Verdict::Permit(Permit {
            decided: self.decided,
            agreed: Some(Box::new(Agreed {
                binding: consent.binding,
                approval: consent.approval,
            })),
        })
    }

    /// Gives the hold up for the call in it, to be decided again.
    pub fn into_call(self) -> Call {
        self.decided.call
    }

    /// Ends the hold with a person's no.
    pub fn deny(self, reason: &str) -> Denied {
        let rule = self.decided.ruling.rule.clone();
        self.refuse(&rule, reason)
    }

    /// Ends the hold because nobody can be asked; `rule` says so.
    pub fn refuse(self, rule: &str, reason: &str) -> Denied {
        let mut decided = self.decided;
        decided.ruling.rule = rule.to_owned();
        decided.ruling.reason = reason.to_owned();
        Denied { decided }
    }
}

impl Denied {
    /// The refused call.
    pub fn call(&self) -> &Call {
        &self.decided.call
    }

    /// The rule that refused it.
    pub fn ruling(&self) -> &Ruling {
        &self.decided.ruling
    }
}
