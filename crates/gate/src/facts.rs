//! Facts: what a policy must know beyond the call itself. The compiled policy says which facts a call
//! needs; the call path gathers exactly those.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use crate::{
    guard::{GuardAnswers, Inquiry},
    policy::{Cost, ProtectedCandidates, RateLimit, Reach},
};

/// What was looked up for one call before deciding it. A missing fact never allows a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The real locations of paths, keyed by the path in [`Needs`].
    pub real_paths: HashMap<String, RealPath>,
    /// The protected-path candidates in the arguments; computed again when `None`.
    pub leads: Option<ProtectedCandidates>,
    /// Whether paths lead to protected places, keyed by the path in [`Needs`].
    pub reached: HashMap<String, Reach>,
    /// The conditions that are met.
    pub met: HashSet<Prior>,
    /// The rate limits that are exhausted.
    pub used_up: HashSet<RateLimit>,
    /// What the token has spent in the last 24 hours, before this call.
    pub spent: f64,
    /// A guard's answer. Boxed: most gateways have no guard.
    pub guard: Option<Box<GuardAnswers>>,
}

/// The real location of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RealPath {
    /// The path with symbolic links resolved as far as it exists.
    At(String),
    /// The lookup failed or timed out.
    Unknown,
}

/// An earlier call of the same token that a rule depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prior {
    /// A pattern of tool names; of `server:tool` when it has a colon.
    pub pattern: String,
    /// How far back the call may be.
    pub window: Duration,
}

/// The facts that a call needs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Needs {
    /// Paths whose real location the call path resolves.
    pub paths: Vec<String>,
    /// Paths in the arguments that may lead to protected places.
    pub leads: Option<ProtectedCandidates>,
    /// Earlier calls that rules depend on.
    pub prior: Vec<Prior>,
    /// Rate limits that this call counts against.
    pub rates: Vec<RateLimit>,
    /// The declared cost of the call, where cost is limited.
    pub cost: Option<Cost>,
    /// Questions to the guard.
    pub inquiries: Vec<Inquiry>,
}

impl Needs {
    /// Whether nothing must be looked up.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
            && self
                .leads
                .as_ref()
                .is_none_or(ProtectedCandidates::is_empty)
            && self.prior.is_empty()
            && self.rates.is_empty()
            && self.cost.is_none()
            && self.inquiries.is_empty()
    }
}

impl Prior {
    /// Whether a call of `tool` on `server` matches.
    pub fn is_met_by(&self, server: &str, tool: &str) -> bool {
        // Byte for byte, as in `allow`: an earlier call widens what is possible now, so a look-alike must not count.
        let pattern = crate::Pattern::new(&self.pattern);
        if self.pattern.contains(':') {
            pattern.matches(&format!("{server}:{tool}"))
        } else {
            pattern.matches(tool)
        }
    }
}
