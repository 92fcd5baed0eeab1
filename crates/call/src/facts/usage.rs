//! What each token has used of its limits, for operators.

use std::collections::BTreeMap;

use callgate_gate::Owner;
use serde::{Deserialize, Serialize};

/// What one token has used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The token's tenant.
    pub tenant: String,
    /// The token's name, or the local user.
    pub token: String,
    /// Its rates, one for each limit that it has used.
    pub rates: Vec<RateUsage>,
    /// How many of its allowed calls are remembered for rules that ask for earlier calls.
    pub history: usize,
    /// What its calls were said to cost in the last 24 hours.
    pub spent: f64,
}

/// How much of a rate limit is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateUsage {
    /// The scope that the limit stands in.
    pub scope: String,
    /// The calls that count now.
    pub used: usize,
    /// How many there may be.
    pub max_requests: u64,
    /// In how many seconds.
    pub window_seconds: u64,
    /// The agents that questions named, with their parts of `used`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, usize>,
}

/// The figures as they are collected.
#[derive(Debug, Default)]
pub(super) struct Usages(BTreeMap<Owner, Usage>);

impl Usages {
    /// The figures of one token.
    pub(super) fn of(&mut self, owner: &Owner) -> &mut Usage {
        self.0.entry(owner.clone()).or_insert_with(|| Usage {
            tenant: owner.tenant.clone(),
            token: owner.principal.clone(),
            rates: Vec::new(),
            history: 0,
            spent: 0.0,
        })
    }

    /// All of them, by tenant and token.
    pub(super) fn sorted(self) -> Vec<Usage> {
        let mut all: Vec<Usage> = self.0.into_values().collect();
        for usage in &mut all {
            usage.rates.sort_by(|a, b| a.scope.cmp(&b.scope));
        }
        all
    }
}
