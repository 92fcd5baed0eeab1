//! Hypothetical calls, to evaluate a policy on.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use callgate_call::{reach, real_path};
use callgate_gate::{
    Attempt, Call, CallId, CallerIdentity, Door, FIRST_TENANT, Facts, Host, Kind, Needs, Policy,
    ProtectedCandidates, RealPath, Ruling, ServerName, Source, Target, Tool, Transport,
};
use callgate_wire::{Era, Frame, Strictness, quote};
use ulid::Ulid;

use crate::exit::Failed;

/// The description of a hypothetical call.
#[derive(Debug)]
pub(super) struct Described<'a> {
    /// `server:tool`.
    pub(super) tool: &'a str,
    /// A JSON object.
    pub(super) arguments: &'a str,
    /// The raw JSON of the tool's annotations.
    pub(super) annotations: &'a str,
    pub(super) identity: Caller<'a>,
    pub(super) cost: Option<f64>,
}

/// Who makes the call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) tenant: &'a str,
    /// The principal that authenticated it; empty if unknown.
    pub(super) principal: &'a str,
    pub(super) agent: &'a str,
}

impl<'a> Caller<'a> {
    /// An agent of the first tenant. With `vouched_for` its name comes from its token.
    pub(super) fn named(agent: &'a str, vouched_for: bool) -> Self {
        Self {
            tenant: FIRST_TENANT,
            principal: if vouched_for { agent } else { "" },
            agent,
        }
    }
}

/// Builds the call that is described.
pub(super) fn made(described: &Described<'_>) -> Result<Call, Failed> {
    let name = described.tool;
    let Some((server, tool)) = name.split_once(':') else {
        return Err(Failed::user(format!("`{name}` is not a tool name"))
            .help("write it like `server:tool`"));
    };
    let server = ServerName::new(server).map_err(|error| Failed::user(error.to_string()))?;
    let descriptor = format!(
        r#"{{"name":{},"annotations":{}}}"#,
        quote(tool),
        described.annotations
    );
    let tool = Tool::from_descriptor(&server, Bytes::from(descriptor))
        .map_err(|error| Failed::user(format!("`{name}`: {error}")))?;
    let meta = match described.cost {
        Some(cost) => format!(r#","_meta":{{"dev.callgate/est_cost":{cost}}}"#),
        None => String::new(),
    };
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":{},"arguments":{}{meta}}}}}"#,
        quote(name),
        described.arguments
    );
    let frame = Frame::parse(line.into(), Strictness::Full)
        .map_err(|error| Failed::user(format!("the arguments are not valid JSON: {error}")))?;
    let identity = CallerIdentity {
        tenant: described.identity.tenant.to_owned(),
        principal: described.identity.principal.to_owned(),
        agent: described.identity.agent.to_owned(),
        session: "none".to_owned(),
        grant: callgate_gate::Grant::default(),
    };
    let host = Host {
        identity,
        client_info: None,
        capabilities: "{}".to_owned(),
        era: Era::Handshake,
    };
    Ok(Call {
        attempt: Attempt {
            id: CallId(Ulid::nil()),
            parent: None,
            via: None,
            host: Arc::new(host),
            door: Door {
                source: Source::Cli,
                transport: Transport::Local,
            },
            frame,
            declared: None,
        },
        target: Target::Tool(Arc::new(tool)),
    })
}

/// The facts that can be gathered now: where paths lead. There are no earlier calls and no used limits.
pub(super) fn facts_now(policy: &Policy, call: &Call) -> (Facts, Needs) {
    let needs = policy.needs(call);
    let real_paths = needs
        .paths
        .iter()
        .map(|path| (path.clone(), real_path(path)))
        .collect();
    let protected = policy.protected();
    let asked = needs
        .leads
        .as_ref()
        .map(ProtectedCandidates::paths)
        .unwrap_or_default();
    let reached = asked.into_iter().map(|path| {
        let reach = reach(&path, protected);
        (path, reach)
    });
    let facts = Facts {
        real_paths,
        leads: needs.leads.clone(),
        reached: reached.collect(),
        ..Facts::default()
    };
    (facts, needs)
}

/// The same facts with links given by the case, and every other path resolved to itself.
pub(super) fn told_paths(
    needs: &Needs,
    links: &HashMap<String, String>,
) -> HashMap<String, RealPath> {
    let real = |path: &String| {
        let lead = links.iter().find_map(|(from, to)| {
            let rest = path.strip_prefix(from.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
        });
        (
            path.clone(),
            RealPath::At(lead.unwrap_or_else(|| path.clone())),
        )
    };
    needs.paths.iter().map(real).collect()
}

/// The verdict of a policy on a call, and the rule behind it.
pub(super) fn verdict(policy: &Policy, call: &Call, facts: &Facts) -> (Kind, String) {
    let (kind, ruling) = Ruling::strictest(policy.judge(call, facts));
    (kind, ruling.rule)
}
