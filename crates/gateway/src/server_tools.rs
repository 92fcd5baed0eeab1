//! Tools of the configured servers that an agent step offers: which servers it starts, and the check that it gets exactly
//! these tools before its agent starts.

use std::collections::{BTreeMap, HashMap};

use callgate_config::Settings;
use callgate_gate::{Launch, Listing, Naming, Pattern, ServerName};
use callgate_upstream::{Fleet, ServerReport, ServerStatus};

use crate::{plan::StepTools, steps::NoTools};

/// The tools that a step offers of each server, as patterns.
#[derive(Debug, Clone, Default)]
pub struct ServerTools {
    of: HashMap<ServerName, Vec<Pattern>>,
}

impl ServerTools {
    /// Reads patterns of the form `SERVER:TOOL`. Their servers must be configured and enabled.
    pub fn read(settings: &Settings, texts: &[String]) -> Result<Self, NoTools> {
        let mut of: HashMap<ServerName, Vec<Pattern>> = HashMap::new();
        for text in texts {
            let unknown = |why: &str| NoTools::UnknownServer(format!("`{text}`: {why}"));
            let (server, tool) = text
                .split_once(':')
                .filter(|(_, tool)| !tool.is_empty())
                .ok_or_else(|| unknown("write it as `SERVER:TOOL`, such as `files:*`"))?;
            let mut known = settings.servers.iter();
            let known = known.find(|known| known.name.as_str() == server);
            let spec = known.ok_or_else(|| unknown("no such server is configured"))?;
            match &spec.launch {
                Launch::Stdio { .. } | Launch::Http(_) => {}
                Launch::SwitchedOff => return Err(unknown("the server is disabled")),
                Launch::Off { reason } => return Err(unknown(reason)),
            }
            let patterns = of.entry(spec.name.clone()).or_default();
            patterns.push(Pattern::new(tool));
        }
        Ok(Self { of })
    }

    /// The part of a step's tools that these are.
    pub fn to_start(&self, settings: &Settings) -> StepTools {
        let servers = settings.servers.iter();
        let servers = servers.filter(|server| self.of.contains_key(&server.name));
        StepTools {
            plugins: Vec::new(),
            servers: servers.cloned().collect(),
            offered: self.of.clone(),
        }
    }

    /// Waits for the servers, and fails unless each has every tool that is offered, under a name of its own.
    pub async fn check(&self, fleet: &Fleet) -> Result<(), NoTools> {
        if self.of.is_empty() {
            return Ok(());
        }
        fleet.settled().await;
        let catalog = callgate_call::Providers::catalog(fleet);
        let reports = fleet.reports();
        for (server, patterns) in &self.of {
            connected(server, &reports)?;
            let listing = catalog.listings().iter().find(|of| of.server == *server);
            let names = listing.map(names).unwrap_or_default();
            let missing = patterns
                .iter()
                .find(|pattern| !names.iter().any(|name| pattern.matches(name)));
            if let Some(pattern) = missing {
                return Err(NoTools::UnknownServer(format!(
                    "server `{server}` lists no tool that matches `{}`, or it is quarantined (`callgate tools list`)",
                    pattern.as_str()
                )));
            }
        }
        self.collision(catalog.listings(), catalog.naming())
    }

    /// Fails if two tools of the step have the same shown name. The catalog would leave one out silently.
    fn collision(&self, listings: &[Listing], naming: &Naming) -> Result<(), NoTools> {
        let mut shown: BTreeMap<String, String> = BTreeMap::new();
        for listing in listings {
            let server = &listing.server;
            let is_offered = |name: &&str| match self.of.get(server) {
                Some(patterns) => patterns.iter().any(|pattern| pattern.matches(name)),
                // Built-in tools and operations of plugins, which are offered by name.
                None => true,
            };
            for name in names(listing).into_iter().filter(is_offered) {
                let (short, second) = (naming.shown(server, name), format!("{server}:{name}"));
                if let Some(first) = shown.insert(short.clone(), second.clone()) {
                    return Err(NoTools::NameCollision {
                        shown: short,
                        first,
                        second,
                    });
                }
            }
        }
        Ok(())
    }
}

fn names(listing: &Listing) -> Vec<&str> {
    let tools = listing.tools.iter().flatten();
    tools.map(|tool| tool.name.as_str()).collect()
}

fn connected(server: &ServerName, reports: &[ServerReport]) -> Result<(), NoTools> {
    let report = reports.iter().find(|report| report.name == *server);
    let why = match report {
        Some(report) if matches!(report.status, ServerStatus::Ok | ServerStatus::Degraded) => {
            return Ok(());
        }
        Some(report) => report
            .reason
            .clone()
            .unwrap_or_else(|| report.status.to_string()),
        None => "it is not configured".to_owned(),
    };
    Err(NoTools::UnknownServer(format!(
        "server `{server}` is not connected: {why}"
    )))
}
