//! Checks that need running plugins: whether they start, and which operations they have.

use std::collections::BTreeMap;

use callgate_gate::Place;
use futures_util::future::{BoxFuture, join_all};

use crate::{Code, Finding, Kind, Proxy, State, Workflow};

/// A plugin's operations. A value says why the operation cannot be offered to a model.
pub type PluginOffer = BTreeMap<String, Option<String>>;

/// The port that starts plugins and lists their operations.
pub trait Plugins: Send + Sync {
    /// A plugin's operations, or why it is unavailable.
    fn offer<'a>(&'a self, plugin: &'a str) -> BoxFuture<'a, Result<PluginOffer, String>>;
}

/// A reference to a plugin's operation, with the paths and positions for findings.
struct NamedTool<'a> {
    plugin: &'a str,
    operation: &'a str,
    plugin_at: (String, Place),
    operation_at: (String, Place),
    /// Whether the operation is offered to a model.
    is_shown: bool,
    /// Whether a missing plugin only matters once the state runs.
    is_late: bool,
}

impl Proxy {
    /// The servers that `tools` names, with the path and position of each.
    pub fn servers(&self) -> impl Iterator<Item = (&str, &str, Place)> {
        let named = self.tools.iter().zip(&self.tool_places);
        named.filter_map(|(text, (path, place))| {
            let (server, _) = text.split_once(':')?;
            Some((server, path.as_str(), *place))
        })
    }
}

/// Checks every plugin that the workflow refers to; each is started once.
pub async fn check_plugins(workflow: &Workflow, plugins: &dyn Plugins) -> Vec<Finding> {
    let named: Vec<NamedTool<'_>> = workflow.states.iter().flat_map(named).collect();
    let mut names: Vec<&str> = named.iter().map(|one| one.plugin).collect();
    names.sort_unstable();
    names.dedup();
    let asking = names.iter().map(|name| plugins.offer(name));
    let offers: BTreeMap<&str, Result<PluginOffer, String>> =
        names.iter().copied().zip(join_all(asking).await).collect();
    let mut findings = Vec::new();
    for one in &named {
        let found = |code, (path, place): &(String, Place), message| {
            Finding::new(code, path.clone(), *place, message)
        };
        match &offers[one.plugin] {
            Err(why) => {
                let what = format!("plugin `{}`: {why}", one.plugin);
                let mut finding = found(Code::UnknownPlugin, &one.plugin_at, what);
                // A state of an operation fails alone. An agent would work with other tools than the file says.
                if one.is_late {
                    finding = finding.warning();
                }
                if !findings.contains(&finding) {
                    findings.push(finding);
                }
            }
            Ok(offer) => match offer.get(one.operation) {
                None => {
                    let what = format!(
                        "plugin `{}` has no operation `{}`",
                        one.plugin, one.operation
                    );
                    findings.push(found(Code::UnknownOperation, &one.operation_at, what));
                }
                Some(Some(why)) if one.is_shown => {
                    let finding = found(Code::UnsupportedSchema, &one.operation_at, why.clone());
                    findings.push(finding);
                }
                Some(_) => {}
            },
        }
    }
    findings
}

fn named(state: &State) -> Vec<NamedTool<'_>> {
    let mut all = Vec::new();
    // Of a proxy that is switched off nothing is needed.
    if let Some(proxy) = state.proxy.as_ref().filter(|proxy| proxy.enable) {
        let base = format!("states.{}.mcp_proxy.plugin_tools", state.name);
        for (tools, places) in proxy.plugin_tools.iter().zip(&proxy.places) {
            let entry = format!("{base}[{}]", places.index);
            let plugin_at = (format!("{entry}.plugin"), places.plugin);
            for (at, operation) in tools.expose.iter().enumerate() {
                let place = places.expose.get(at).copied().unwrap_or_default();
                all.push(NamedTool {
                    plugin: &tools.plugin,
                    operation,
                    plugin_at: plugin_at.clone(),
                    operation_at: (format!("{entry}.expose[{at}]"), place),
                    is_shown: true,
                    is_late: false,
                });
            }
        }
    }
    if let Kind::Operation(operation) = &state.kind
        && !operation.plugin.is_empty()
    {
        let at = (format!("states.{}.operation", state.name), operation.place);
        all.push(NamedTool {
            plugin: &operation.plugin,
            operation: &operation.operation,
            plugin_at: at.clone(),
            operation_at: at,
            is_shown: true,
            is_late: true,
        });
    }
    all
}
