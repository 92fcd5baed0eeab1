//! Collects what each token has used of its limits.

use std::collections::BTreeMap;

use callgate_gate::Owner;
use callgate_record::Usage;

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
