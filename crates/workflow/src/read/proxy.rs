//! Parses `mcp_proxy`: where an agent's tools come from. It is checked on every state, also where it is disabled.

use callgate_agent::relay::PluginTools;
use callgate_gate::{Naming, ServerName};

use super::field::Field;
use crate::{Code, Proxy, model::ToolPlaces};

pub(super) const KEYS: [&str; 4] = ["enable", "intercept_builtins", "plugin_tools", "tools"];
pub(super) const TOOL_KEYS: [&str; 2] = ["plugin", "expose"];

/// The proxy of a state. `tools` may also stand beside `mcp_proxy`.
pub(super) fn of_state(state: &Field<'_>, is_agent: bool) -> Option<Proxy> {
    let beside = state.get("tools");
    let Some(field) = state.get("mcp_proxy") else {
        if let Some(tools) = beside {
            let what =
                "`tools` needs `mcp_proxy: {enable: true}`: an agent without a proxy gets no tools"
                    .to_owned();
            tools.finding(Code::EmptyProxy, what);
        }
        return None;
    };
    Some(read(&field, beside.as_ref(), is_agent))
}

fn read(field: &Field<'_>, beside: Option<&Field<'_>>, is_agent: bool) -> Proxy {
    if !is_agent {
        let what = "`mcp_proxy` only affects agent states".to_owned();
        field.finding(Code::ProxyWithoutAgent, what);
    }
    field.only(&KEYS, Code::UnknownProxyKey);
    let flag = |key: &str, default: bool| {
        let written = field.get(key).and_then(|field| field.yes_or_no());
        written.unwrap_or(default)
    };
    let mut proxy = Proxy {
        enable: flag("enable", false),
        intercept_builtins: flag("intercept_builtins", true),
        plugin_tools: Vec::new(),
        tools: Vec::new(),
        places: Vec::new(),
        tool_places: Vec::new(),
        place: field.node.place,
    };
    for list in field.get("tools").iter().chain(beside) {
        server_tools(list, &mut proxy);
    }
    let list = field.get("plugin_tools");
    let items = list.as_ref().and_then(Field::items).unwrap_or_default();
    for (index, item) in items.iter().enumerate() {
        if let Some((tools, places)) = tools(item, index, proxy.enable) {
            let mut known = proxy.plugin_tools.iter();
            if proxy.enable && known.any(|known| known.plugin == tools.plugin) {
                let what = format!("`{}` has two entries", tools.plugin);
                item.finding(Code::NameCollision, what);
            }
            proxy.plugin_tools.push(tools);
            proxy.places.push(places);
        }
    }
    check_empty(field, list.as_ref(), &proxy);
    check_names(field, &proxy);
    proxy
}

fn tools(field: &Field<'_>, index: usize, is_on: bool) -> Option<(PluginTools, ToolPlaces)> {
    field.only(&TOOL_KEYS, Code::UnknownProxyKey);
    let plugin = field.must("plugin");
    let expose = field.get("expose");
    let items = expose.as_ref().and_then(Field::items).unwrap_or_default();
    if items.is_empty() && is_on {
        // An empty `expose` never means all operations: each must be named.
        let what = "no operation of the plugin is offered: `expose` names none".to_owned();
        expose
            .as_ref()
            .unwrap_or(field)
            .warning(Code::EmptyProxy, what);
    }
    let plugin = plugin?;
    let name = plugin.text()?;
    let mut places = ToolPlaces {
        index,
        plugin: plugin.node.place,
        expose: Vec::new(),
    };
    let mut operations = Vec::new();
    for item in &items {
        if let Some(operation) = item.text() {
            operations.push(operation);
            places.expose.push(item.node.place);
        }
    }
    let tools = PluginTools {
        plugin: name,
        expose: operations,
    };
    Some((tools, places))
}

/// Tools of servers, as `SERVER:TOOL` with wildcards in the tool.
fn server_tools(list: &Field<'_>, proxy: &mut Proxy) {
    for item in &list.items().unwrap_or_default() {
        let Some(text) = item.text() else { continue };
        match text.split_once(':') {
            Some((server, tool)) if ServerName::new(server).is_ok() && !tool.is_empty() => {
                proxy.tools.push(text);
                proxy.tool_places.push((item.path.clone(), item.node.place));
            }
            Some(_) | None => {
                let what = format!(
                    "`{text}` is not of the form `SERVER:TOOL`, such as `files:*` or `github:search_*`"
                );
                item.finding(Code::UnknownServer, what);
            }
        }
    }
}

/// Refuses an enabled proxy without tools: the agent would keep its native tools while the file suggests that the gate
/// controls them.
fn check_empty(field: &Field<'_>, list: Option<&Field<'_>>, proxy: &Proxy) {
    let offers = proxy
        .plugin_tools
        .iter()
        .any(|tools| !tools.expose.is_empty());
    if proxy.enable && !proxy.intercept_builtins && !offers && proxy.tools.is_empty() {
        let what = "the proxy is enabled but offers no tools".to_owned();
        list.unwrap_or(field).finding(Code::EmptyProxy, what);
    }
}

/// Finds tools with the same shown name. The names alone decide, so no plugin has to be started.
fn check_names(field: &Field<'_>, proxy: &Proxy) {
    let naming = Naming::step();
    let mut shown: Vec<(String, String)> = Vec::new();
    // What a wildcard stands for is known once the servers have listed their tools.
    let named = proxy
        .tools
        .iter()
        .filter(|text| !text.contains(['*', '?', '[', '{']));
    for text in named {
        if let Some((Ok(server), tool)) = text
            .split_once(':')
            .map(|(server, tool)| (ServerName::new(server), tool))
        {
            shown.push((naming.shown(&server, tool), text.clone()));
        }
    }
    for (tools, places) in proxy.plugin_tools.iter().zip(&proxy.places) {
        let Ok(server) = ServerName::new(&tools.plugin) else {
            continue;
        };
        for (at, operation) in tools.expose.iter().enumerate() {
            let name = naming.shown(&server, operation);
            let tool = format!("{}:{operation}", tools.plugin);
            if let Some((_, first)) = shown.iter().find(|(known, _)| *known == name) {
                let what = format!("tools `{first}` and `{tool}` are both shown as `{name}`");
                let path = format!("plugin_tools[{}].expose[{at}]", places.index);
                let place = places.expose.get(at).copied().unwrap_or_default();
                field.at(&path, place).finding(Code::NameCollision, what);
            }
            shown.push((name, tool));
        }
    }
}
