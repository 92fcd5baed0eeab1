//! The functions by which scripts look up servers and tools: `proxy.list_servers()`, `proxy.list_tools(server)`,
//! `tools.search(query)` and `tools.describe(name)`. They are not calls, and show only what the policy shows.

use callgate_code::{HostCall, Outcome};
use callgate_gate::Host;
use callgate_wire::{Json, Strictness, quote};
use serde_json::Value;

use super::{
    local,
    packs::{Packs, pack_name, snake},
    value::{raised, value},
};
use crate::{
    Detail, Gateway,
    view::search::{self, Filters, Query},
};

/// The default number of search results.
const DEFAULT_LIMIT: usize = 10;

/// Answers a function of the built-in packs.
pub(super) async fn answer(
    gateway: &Gateway,
    host: &Host,
    packs: &Packs,
    call: &HostCall,
) -> Outcome {
    let arguments = Arguments::read(call);
    let given = match (call.pack.as_str(), call.tool.as_str()) {
        ("proxy", "list_servers") => Ok(servers(gateway, host, packs)),
        ("proxy", "list_tools") => match arguments.text(0, "server") {
            Some(server) => list_tools(packs, &server),
            None => Err("`server` is required: proxy.list_tools(server=\"name\")".to_owned()),
        },
        ("tools", "search") => match arguments.text(0, "query") {
            Some(query) => {
                let limit = arguments.number(1, "limit").unwrap_or(DEFAULT_LIMIT);
                Ok(found(gateway, host, query, limit.clamp(1, 100)).await)
            }
            None => Err("`query` is required: tools.search(\"what you want\")".to_owned()),
        },
        ("tools", "describe") => match arguments.text(0, "name") {
            Some(name) => described(packs, &name),
            None => Err("`name` is required: tools.describe(\"pack.tool\")".to_owned()),
        },
        (pack, other) => {
            let known = match pack {
                "proxy" => "list_servers, list_tools",
                _ => "search, describe",
            };
            Err(format!(
                "the pack `{pack}` has no `{other}`; it has: {known}"
            ))
        }
    };
    match given {
        Ok(json) => value(json),
        Err(text) => raised("AttributeError", &text),
    }
}

/// The arguments of a built-in function.
struct Arguments {
    args: Vec<Value>,
    kwargs: Value,
}

impl Arguments {
    fn read(call: &HostCall) -> Self {
        Self {
            args: serde_json::from_str(call.args.get()).unwrap_or_default(),
            kwargs: serde_json::from_str(call.kwargs.get()).unwrap_or_default(),
        }
    }

    fn get(&self, place: usize, name: &str) -> Option<&Value> {
        self.kwargs.get(name).or_else(|| self.args.get(place))
    }

    fn text(&self, place: usize, name: &str) -> Option<String> {
        self.get(place, name)?.as_str().map(str::to_owned)
    }

    fn number(&self, place: usize, name: &str) -> Option<usize> {
        usize::try_from(self.get(place, name)?.as_u64()?).ok()
    }
}

fn servers(gateway: &Gateway, host: &Host, packs: &Packs) -> String {
    let mut rows = Vec::new();
    for row in gateway.status.rows() {
        // Failed and disabled servers are listed with their reason, but not those that the token may not use.
        if !host.identity.grant.includes(&row.name) {
            continue;
        }
        let reason = row.reason.as_deref().map_or("null".to_owned(), quote);
        let shadowed = if packs.is_shadowed(&row.name) {
            r#","shadowed_by":"a local pack""#
        } else {
            ""
        };
        rows.push(format!(
            r#"{{"name":{},"pack":{},"type":{},"enabled":{},"status":{},"reason":{reason}{shadowed}}}"#,
            quote(&row.name),
            quote(&pack_name(&row.name)),
            quote(&row.r#type),
            row.enabled,
            quote(&row.status),
        ));
    }
    for pack in packs.local() {
        let name = quote(&pack.name);
        rows.push(format!(
            r#"{{"name":{name},"pack":{name},"type":"local","enabled":true,"status":"ok","reason":null}}"#
        ));
    }
    format!("[{}]", rows.join(","))
}

fn list_tools(packs: &Packs, server: &str) -> Result<String, String> {
    if let Some(pack) = packs.local().iter().find(|pack| pack.name == server) {
        let functions = local::functions(pack).into_iter();
        let rows: Vec<String> = functions
            .map(|(name, signature, about)| row(&name, &about, &signature))
            .collect();
        return Ok(format!("[{}]", rows.join(",")));
    }
    let tools = packs.tools(server)?;
    let rows: Vec<String> = tools
        .iter()
        .map(|tool| {
            let descriptor = Json::validate(&tool.descriptor, Strictness::Envelope).ok();
            let member = |key| descriptor.and_then(|json| json.get(key));
            let about = member("description").and_then(|text| text.as_str());
            let about = search::shortened(&about.unwrap_or_default());
            let signature = search::signature(member("inputSchema"));
            row(&snake(&tool.name), &about, &signature)
        })
        .collect();
    Ok(format!("[{}]", rows.join(",")))
}

fn row(name: &str, about: &str, signature: &str) -> String {
    let (name, about, signature) = (quote(name), quote(about), quote(signature));
    format!(r#"{{"name":{name},"description":{about},"signature":{signature}}}"#)
}

async fn found(gateway: &Gateway, host: &Host, question: String, limit: usize) -> String {
    let query = Query {
        question,
        limit: Some(limit),
        detail: Detail::Compact,
        filters: Filters::default(),
    };
    // The same search as in the `search` view, with the tools under the names that scripts use.
    let json = search::retrieve(gateway, &host.identity, &query).await;
    let found: Value = serde_json::from_str(&json).unwrap_or_default();
    let tools = found["tools"].as_array().cloned().unwrap_or_default();
    let rows: Vec<String> = tools
        .iter()
        .map(|tool| {
            let text = |key: &str| tool[key].as_str().unwrap_or_default();
            let name = text("name")
                .split_once(':')
                .map_or(text("name"), |(_, name)| name);
            let name = format!("{}.{}", pack_name(text("server")), snake(name));
            row(&name, text("description"), text("signature"))
        })
        .collect();
    format!("[{}]", rows.join(","))
}

fn described(packs: &Packs, name: &str) -> Result<String, String> {
    let parts = name.split_once(['.', ':']);
    let (pack, tool) = parts.ok_or("write the name as \"pack.tool\"")?;
    let tool = packs.tool(pack, tool)?.tool.clone();
    let descriptor = Json::validate(&tool.descriptor, Strictness::Envelope).ok();
    let member = |key| descriptor.and_then(|json| json.get(key));
    let json = |key| member(key).map_or("null".to_owned(), |value| value.as_text().to_owned());
    let callable = format!("{}.{}", pack_name(tool.server.as_str()), snake(&tool.name));
    Ok(format!(
        r#"{{"name":{},"description":{},"signature":{},"input_schema":{},"output_schema":{}}}"#,
        quote(&callable),
        json("description"),
        quote(&search::signature(member("inputSchema"))),
        json("inputSchema"),
        json("outputSchema"),
    ))
}
