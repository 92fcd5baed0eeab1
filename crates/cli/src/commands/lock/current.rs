//! The tool definitions of servers: current ones, or the last known ones.

use std::time::Duration;

use callgate_call::Providers;
use callgate_gate::ServerSpec;
use callgate_gate::{
    ServerName, Tool,
    pins::{Lock, Names, PinMode, Pins, flags},
};
use callgate_gateway::plan;
use callgate_upstream::{Profile, ServerStatus, saved_tools};

use callgate_gateway::Running;

use callgate_config::Settings;

use crate::{exit::Failed, setup};

/// The tools of each server, in configuration order.
pub(super) struct Current {
    servers: Vec<(ServerName, Vec<Tool>)>,
    names: Names,
}

impl Current {
    /// The definitions that a gateway on this data folder last saw. A server that was never reached has none.
    pub(super) fn from_saved(settings: &Settings) -> Self {
        let known = |spec: &ServerSpec| {
            saved_tools(&plan::options(settings), &spec.name).unwrap_or_default()
        };
        let servers = settings.servers.iter();
        Self::of(
            settings,
            servers
                .map(|spec| (spec.name.clone(), known(spec)))
                .collect(),
        )
    }

    /// The last known definitions; if a server was never reached, all servers are started and asked.
    pub(super) fn seen(settings: &Settings) -> Result<Self, Failed> {
        let is_known =
            |spec: &ServerSpec| saved_tools(&plan::options(settings), &spec.name).is_some();
        if settings.servers.iter().all(is_known) {
            return Ok(Self::from_saved(settings));
        }
        Self::ask(settings)
    }

    /// Starts the servers and asks them.
    pub(super) fn ask(settings: &Settings) -> Result<Self, Failed> {
        let mut plan = plan::fleet(settings)?;
        // Pins are off: comparing must neither accept definitions nor withhold tools.
        plan.options.pin_store = None;
        plan.pins = Pins {
            mode: PinMode::Off,
            ..Pins::default()
        };
        plan.local_providers.clear();
        setup::runtime()?.block_on(async {
            let running = Running::start_with(settings, plan, Profile::gateway())?;
            running.fleet.settled().await;
            let (catalog, reports) = (running.fleet.catalog(), running.fleet.reports());
            running.stop(Duration::ZERO).await;
            let unreached = reports
                .iter()
                .filter(|report| report.enabled && report.status != ServerStatus::Ok);
            let unreached: Vec<String> = unreached.map(|one| one.name.to_string()).collect();
            if !unreached.is_empty() {
                let names = unreached.join(", ");
                let failed = Failed::execution(format!("cannot list the tools of: {names}"));
                return Err(failed.help("run `callgate doctor` for the reasons"));
            }
            let servers = catalog.listings().iter().map(|listing| {
                let withheld = catalog.quarantined().iter().map(|one| &one.tool);
                let withheld = withheld.filter(|tool| tool.server == listing.server);
                let tools = listing.tools.iter().flatten().chain(withheld).cloned();
                (listing.server.clone(), tools.collect())
            });
            Ok(Self::of(settings, servers.collect()))
        })
    }

    fn of(settings: &Settings, servers: Vec<(ServerName, Vec<Tool>)>) -> Self {
        let all = servers.iter().flat_map(|(_, tools)| tools);
        let names = Names::of(all, &settings.naming());
        Self { servers, names }
    }

    /// What is suspicious about a tool, in words.
    pub(super) fn suspicions(&self, tool: &Tool) -> Vec<String> {
        let found = flags(tool, &self.names);
        found.iter().map(ToString::to_string).collect()
    }

    /// The tools by server.
    pub(super) fn servers(&self) -> Vec<Vec<Tool>> {
        self.servers
            .iter()
            .map(|(_, tools)| tools.clone())
            .collect()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.servers.iter().map(|(_, tools)| tools.len()).sum()
    }

    /// The tool of a canonical name.
    pub(super) fn tool(&self, canonical: &str) -> Option<&Tool> {
        let mut all = self.servers.iter().flat_map(|(_, tools)| tools);
        all.find(|tool| tool.canonical() == canonical)
    }

    /// The tools in the lock that no server has.
    pub(super) fn missing_from(&self, lock: &Lock) -> Vec<String> {
        let gone = |(server, tools): &(ServerName, Vec<Tool>)| {
            let missing = lock.missing(server, tools).into_iter();
            missing
                .map(|tool| format!("{server}:{tool}"))
                .collect::<Vec<_>>()
        };
        self.servers.iter().flat_map(gone).collect()
    }
}
