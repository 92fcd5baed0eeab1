//! The decision: the only place where a [`Permit`] is made.
//!
//! Pure: the same call, policy and facts always give the same verdict. Facts that need a clock, a
//! file or another process are gathered before, by the call path, and handed in.

use crate::{Call, Policy, Target, policy::Filtered};

/// What was looked up for this call before deciding it. The built-in policies need nothing.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Facts {}

/// Which rule spoke, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// `<verdict>:<scope>:<pattern>`, or `deny:default`.
    pub rule: String,
    /// One sentence for a person or a model.
    pub reason: String,
}

/// A call that may be forwarded, together with the very bytes that may be.
///
/// It is not `Clone`, its fields are private and only [`decide`] makes one.
#[derive(Debug)]
pub struct Permit {
    call: Call,
    ruling: Ruling,
}

/// A call that waits for a person.
#[derive(Debug)]
pub struct Hold {
    call: Call,
    ruling: Ruling,
}

/// A call that was refused.
#[derive(Debug)]
pub struct Denied {
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

/// Decides one call.
pub fn decide(call: Call, policy: &Policy, _facts: &Facts) -> Verdict {
    let ruling = |rule: &str, reason: &str| Ruling {
        rule: rule.to_owned(),
        reason: reason.to_owned(),
    };
    let Target::Tool(tool) = &call.target else {
        let ruling = ruling("allow:mcp_method:*", "requests of the only server pass");
        return Verdict::Permit(Permit { call, ruling });
    };
    match policy.filtered(tool) {
        Some(Filtered::Denied(pattern)) => {
            let rule = format!("deny:mcp_tool:{}:{}", tool.server, pattern.as_str());
            let ruling = ruling(&rule, "the configuration switches this tool off");
            return Verdict::Deny(Denied { call, ruling });
        }
        Some(Filtered::NotAllowed) => {
            let ruling = ruling(
                "deny:default",
                "the configuration does not list this tool as allowed",
            );
            return Verdict::Deny(Denied { call, ruling });
        }
        None => {}
    }
    match policy.needs_approval(tool) {
        Some(reason) => {
            let ruling = ruling("require_approval:mcp_tool:*:*", &reason);
            Verdict::Hold(Hold { call, ruling })
        }
        None => {
            let ruling = ruling("allow:mcp_tool:*:*", "nothing speaks against it");
            Verdict::Permit(Permit { call, ruling })
        }
    }
}

impl Permit {
    /// The permitted call.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The rule that permitted it.
    pub fn ruling(&self) -> &Ruling {
        &self.ruling
    }

    /// Gives the permit up for the call in it; the permission is gone with it.
    pub fn into_call(self) -> Call {
        self.call
    }
}

impl Hold {
    /// The held call.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The rule that asks for a person.
    pub fn ruling(&self) -> &Ruling {
        &self.ruling
    }
}

impl Denied {
    /// The refused call.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The rule that refused it.
    pub fn ruling(&self) -> &Ruling {
        &self.ruling
    }
}
