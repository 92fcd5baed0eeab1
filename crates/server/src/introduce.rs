//! The answers to `initialize` and `server/discover`. They announce only capabilities that some server provides.

use callgate_call::{Providers, SERVER_INFO};
use callgate_gate::{Grant, Offers, View};
use callgate_wire::{
    Era, Json, ProtocolVersion, Strictness, quote,
    stateless::{EXTENSIONS, TASKS_EXTENSION},
};

use crate::view::code;

/// Capabilities that the gateway always announces, because it has them itself.
const OWN: [&str; 2] = ["tools", "logging"];

/// The member of a capability that is always true here: servers may restart with other lists.
const LIST_CHANGED: &str = "listChanged";

/// The capability for tasks of 2025-11-25.
const TASKS: &str = "tasks";

pub(crate) fn introduction(
    providers: &dyn Providers,
    version: ProtocolVersion,
    grant: &Grant,
    view: View,
) -> String {
    let mut members = vec![
        format!(r#""protocolVersion":{}"#, quote(version.as_str())),
        format!(
            r#""capabilities":{}"#,
            capabilities(providers, grant, Era::Handshake)
        ),
        format!(r#""serverInfo":{SERVER_INFO}"#),
    ];
    if let Some(text) = instructions(providers, grant, view) {
        members.push(format!(r#""instructions":{text}"#));
    }
    format!("{{{}}}", members.join(","))
}

pub(crate) fn discovery(providers: &dyn Providers, grant: &Grant, view: View) -> String {
    let version = quote(ProtocolVersion::V2026_07_28.as_str());
    let mut members = vec![
        format!(r#""supportedVersions":[{version}]"#),
        format!(
            r#""capabilities":{}"#,
            capabilities(providers, grant, Era::Stateless)
        ),
    ];
    if let Some(text) = instructions(providers, grant, view) {
        members.push(format!(r#""instructions":{text}"#));
    }
    format!("{{{}}}", members.join(","))
}

/// The capabilities for a host: always tools and logging, plus those of the servers it may use. A single server's are
/// copied literally; those of several are merged. Each era has its own form of task capability.
pub(crate) fn capabilities(providers: &dyn Providers, grant: &Grant, era: Era) -> String {
    let catalog = providers.catalog();
    let mut of_servers = providers.capabilities();
    of_servers.retain(|(server, _)| grant.includes(server.as_str()));
    let of_servers: Vec<Json<'_>> = of_servers
        .iter()
        .filter_map(|(_, raw)| Json::validate(raw.as_bytes(), Strictness::Envelope).ok())
        .collect();
    let only = match (catalog.only_server(), of_servers.as_slice()) {
        (Some(_), [only]) => Some(*only),
        (Some(_), _) | (None, _) => None,
    };
    let mut members = own(only);
    match (only, catalog.only_server()) {
        // Copied literally, so that capabilities which this gateway does not know yet still reach the host.
        (Some(only), _) => {
            let is_ours = |key: &str| {
                OWN.contains(&key) || key == EXTENSIONS || (key == TASKS && era == Era::Stateless)
            };
            let others = only.members();
            let others = others.filter(|(key, _)| !key.as_str().is_some_and(|key| is_ours(&key)));
            let others =
                others.map(|(key, value)| format!("{}:{}", key.as_text(), value.as_text()));
            members.extend(others);
        }
        (None, Some(_)) => {}
        (None, None) => members.extend(offered(catalog.offers(grant), era)),
    }
    members.extend(extensions(&of_servers, era));
    format!("{{{}}}", members.join(","))
}

/// The capabilities that the gateway always has, with what a single server declares beside them.
fn own(only: Option<Json<'_>>) -> Vec<String> {
    let member = |key: &str, always: &str| {
        let declared = only.and_then(|only| only.get(key)).into_iter();
        let others = declared.flat_map(Json::members);
        let others = others.filter(|(name, _)| name.as_str().as_deref() != Some(LIST_CHANGED));
        let others = others.map(|(name, value)| format!("{}:{}", name.as_text(), value.as_text()));
        let all: Vec<String> = [always.to_owned()]
            .into_iter()
            .filter(|own| !own.is_empty())
            .chain(others)
            .collect();
        format!(r#""{key}":{{{}}}"#, all.join(","))
    };
    let lists_change = format!(r#""{LIST_CHANGED}":true"#);
    vec![member("tools", &lists_change), member("logging", "")]
}

/// The union of the servers' extensions. Servers that differ in the settings of one leave it without settings.
fn extensions(of_servers: &[Json<'_>], era: Era) -> Option<String> {
    let declared = of_servers.iter().filter_map(|one| one.get(EXTENSIONS));
    let mut all: Vec<(&str, &str)> = Vec::new();
    for (key, settings) in declared.flat_map(Json::members) {
        // Tasks of 2026-07-28 have no form in the handshake versions.
        if era == Era::Handshake && key.as_str().as_deref() == Some(TASKS_EXTENSION) {
            continue;
        }
        let (key, settings) = (key.as_text(), settings.as_text());
        match all.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) if *known != settings => *known = "{}",
            Some(_) => {}
            None => all.push((key, settings)),
        }
    }
    let members: Vec<String> = all
        .iter()
        .map(|(key, settings)| format!("{key}:{settings}"))
        .collect();
    (!members.is_empty()).then(|| format!(r#""{EXTENSIONS}":{{{}}}"#, members.join(",")))
}

/// The capabilities merged from several servers.
fn offered(offers: Offers, era: Era) -> Vec<String> {
    let subscribe = if offers.subscribe {
        r#""subscribe":true,"#
    } else {
        ""
    };
    let all = [
        (
            offers.resources,
            format!(r#""resources":{{{subscribe}"listChanged":true}}"#),
        ),
        (
            offers.prompts,
            r#""prompts":{"listChanged":true}"#.to_owned(),
        ),
        (offers.completions, r#""completions":{}"#.to_owned()),
        (offers.task_calls && era == Era::Handshake, tasks(offers)),
    ];
    let all = all.into_iter();
    all.filter_map(|(offered, text)| offered.then_some(text))
        .collect()
}

fn tasks(offers: Offers) -> String {
    let list = if offers.task_list {
        r#""list":{},"#
    } else {
        ""
    };
    let cancel = if offers.task_cancel {
        r#""cancel":{},"#
    } else {
        ""
    };
    format!(r#""tasks":{{{list}{cancel}"requests":{{"tools":{{"call":{{}}}}}}}}"#)
}

/// The servers' instructions: one server's literally, those of several under headings. Servers that the host may not use
/// are left out.
fn instructions(providers: &dyn Providers, grant: &Grant, view: View) -> Option<String> {
    match view {
        // A script may use every server, so the model needs to know how to call them. The servers' own
        // instructions name tools that this view does not list.
        View::Code => return Some(quote(code::INSTRUCTIONS)),
        View::Direct | View::Search => {}
    }
    let mut all = providers.instructions();
    all.retain(|(server, _)| grant.includes(server.as_str()));
    match all.as_slice() {
        [] => None,
        [(_, only)] => Some(only.clone()),
        several => {
            let text = |raw: &String| {
                let json = Json::validate(raw.as_bytes(), Strictness::Envelope).ok()?;
                json.as_str().map(|text| text.into_owned())
            };
            let part = |(server, raw)| Some(format!("## {server}\n{}", text(raw)?));
            let parts: Vec<String> = several
                .iter()
                .map(|(server, raw)| (server, raw))
                .filter_map(part)
                .collect();
            Some(quote(&parts.join("\n\n")))
        }
    }
}
