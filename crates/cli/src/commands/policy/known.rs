//! What a gateway on this data folder knows of a tool: what its server listed last, and what the lock says of it.

use callgate_gate::{Tool, pins::Quarantine};
use callgate_upstream::saved_tools;

use callgate_config::{Failed, Settings};
use callgate_gateway::plan;

/// The tools of all servers as a gateway would take them.
#[derive(Debug)]
pub(super) struct Known {
    accepted: Vec<Tool>,
    quarantined: Vec<(Tool, Quarantine)>,
}

impl Known {
    /// A running gateway writes down what servers list whenever they list anew, so this is what it knows, too.
    pub(super) fn of(settings: &Settings) -> Result<Self, Failed> {
        let plan = plan::fleet(settings)?;
        let listed = settings.servers.iter();
        let listed = listed.map(|spec| saved_tools(&plan.options, &spec.name));
        let local_providers = plan.local_providers.iter();
        let local_providers = local_providers.map(|one| one.listing().tools);
        let servers: Vec<Vec<Tool>> = listed
            .chain(local_providers)
            .map(Option::unwrap_or_default)
            .collect();
        let sorted = settings.pins.sort(&servers, &settings.naming());
        let quarantined = sorted.quarantined.into_iter();
        Ok(Self {
            accepted: sorted.accepted.into_iter().flatten().collect(),
            quarantined: quarantined.map(|one| (one.tool, one.reason)).collect(),
        })
    }

    /// The tool of this name, with what the operator says it does.
    pub(super) fn tool(&self, canonical: &str) -> Option<&Tool> {
        self.accepted
            .iter()
            .find(|tool| tool.canonical() == canonical)
    }

    /// Why hosts do not get the tool of this name.
    pub(super) fn quarantined(&self, canonical: &str) -> Option<(&Tool, &Quarantine)> {
        let mut all = self.quarantined.iter();
        let found = all.find(|(tool, _)| tool.canonical() == canonical)?;
        Some((&found.0, &found.1))
    }
}
