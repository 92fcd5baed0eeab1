//! The answers to `initialize` and `server/discover`. They announce only capabilities that some server provides.

use callgate_call::{Providers, SERVER_INFO};
use callgate_gate::{Grant, Offers, View};
use callgate_wire::{Era, Json, ProtocolVersion, Strictness, quote};

use crate::view::code;

/// Capabilities that the gateway announces itself. A server's own values for them are ignored.
const OWN: [&str; 2] = ["tools", "logging"];

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
    let mut members = vec![
        r#""tools":{"listChanged":true}"#.to_owned(),
        r#""logging":{}"#.to_owned(),
    ];
    let catalog = providers.catalog();
    let Some(server) = catalog.only_server() else {
        members.extend(offered(catalog.offers(grant), era));
        return format!("{{{}}}", members.join(","));
    };
    // Copied literally, so that capabilities which this gateway does not know yet still reach the host.
    let of_servers = providers.capabilities();
    if let [only] = of_servers.as_slice()
        && grant.includes(server.as_str())
        && let Ok(json) = Json::validate(only.as_bytes(), Strictness::Envelope)
    {
        let others = json
            .members()
            .filter(|(key, _)| !OWN.iter().any(|own| key.as_str().as_deref() == Some(own)));
        members.extend(others.map(|(key, value)| format!("{}:{}", key.as_text(), value.as_text())));
    }
    format!("{{{}}}", members.join(","))
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
