//! Facts: what a policy must know about a call that does not stand in it. Which of them a call
//! needs is known from the compiled policy; the call path gathers those and nothing else.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use crate::{
    guard::{Guarded, Inquiry},
    policy::{Cost, Leads, RateLimit, Reach},
};

/// What was looked up for one call before deciding it. What is missing here is never taken for a
/// yes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Where paths really are, by the path that [`Needs`] asks about.
    pub real_paths: HashMap<String, RealPath>,
    /// What the arguments may lead to; looked for again where it is not said.
    pub leads: Option<Leads>,
    /// Whether paths lead to what governs the gateway, by the path that [`Needs`] asks about.
    pub reached: HashMap<String, Reach>,
    /// The conditions that are met.
    pub met: HashSet<Prior>,
    /// The limits that are used up.
    pub used_up: HashSet<RateLimit>,
    /// What the session has spent before this call.
    pub spent: f64,
    /// What another gateway said in place of rules. Boxed: most gateways have rules of their own.
    pub guard: Option<Box<Guarded>>,
}

/// Where a path really is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RealPath {
    /// There, links resolved as far as the path exists.
    At(String),
    /// That could not be found out in time, or at all.
    Unknown,
}

/// An earlier call of the same agent that a rule asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prior {
    /// A pattern of tool names; of `server:tool` when it has a colon.
    pub pattern: String,
    /// How long ago it may have been.
    pub window: Duration,
}

/// What must be looked up for a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Needs {
    /// Paths whose real place decides.
    pub paths: Vec<String>,
    /// What may lead to what governs the gateway.
    pub leads: Option<Leads>,
    /// Earlier calls that rules ask for.
    pub prior: Vec<Prior>,
    /// Limits that this call counts against.
    pub rates: Vec<RateLimit>,
    /// What the call is said to cost, where cost is limited.
    pub cost: Option<Cost>,
    /// What another gateway is asked in place of rules.
    pub inquiries: Vec<Inquiry>,
}

impl Needs {
    /// Whether nothing must be looked up.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
            && self.leads.as_ref().is_none_or(Leads::is_empty)
            && self.prior.is_empty()
            && self.rates.is_empty()
            && self.cost.is_none()
            && self.inquiries.is_empty()
    }
}

impl Prior {
    /// Whether a call of `tool` on `server` is such a one.
    pub fn is_met_by(&self, server: &str, tool: &str) -> bool {
        let pattern = crate::Pattern::new(&self.pattern);
        if self.pattern.contains(':') {
            pattern.matches(&format!("{server}:{tool}"))
        } else {
            pattern.matches(tool)
        }
    }
}
