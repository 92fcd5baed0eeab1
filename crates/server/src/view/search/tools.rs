//! The descriptors of the view's own tools. Their schemas use only plain types, because some hosts accept nothing else.

use callgate_call::Providers;
use callgate_gate::{Host, Operation};
use callgate_wire::{Json, Strictness, quote};

use crate::{IntentForm, ViewSettings};

/// The view's tools, in list order.
pub(super) const NAMES: [&str; 6] = [
    super::RETRIEVE,
    super::DESCRIBE,
    "call_tool_read",
    "call_tool_write",
    "call_tool_destructive",
    super::READ_RESULT,
];

/// Parts of the names of clients whose models get nested objects wrong.
const FLAT_CLIENTS: [&str; 1] = ["gemini"];
/// The length at which the summary of servers is cut.
const MAX_SUMMARY_CHARS: usize = 300;

const INTENT: &str = r#""intent":{"type":"object","description":"What this call will do; operation_type must match this tool","properties":{"operation_type":{"type":"string","enum":["read","write","destructive"]},"data_sensitivity":{"type":"string","enum":["public","internal","private","unknown"]},"reason":{"type":"string","description":"Why, at most 1000 characters"}},"required":["operation_type"]}"#;
const FLAT_INTENT: &str = r#""operation_type":{"type":"string","enum":["read","write","destructive"],"description":"What this call will do; must match this tool"},"data_sensitivity":{"type":"string","enum":["public","internal","private","unknown"]},"reason":{"type":"string","description":"Why, at most 1000 characters"}"#;
const NAME: &str =
    r#""name":{"type":"string","description":"The tool as server:tool, from retrieve_tools"}"#;
const ARGS: &str = r#""args":{"type":"object","description":"The tool's arguments"},"args_json":{"type":"string","description":"The arguments as a JSON string, instead of args"}"#;
const FLAT_ARGS: &str = r#""args_json":{"type":"string","description":"The tool's arguments, a JSON object as a string"}"#;

pub(super) fn list(providers: &dyn Providers, host: &Host, settings: &ViewSettings) -> String {
    let form = settings.form.unwrap_or_else(|| form_for(host));
    let required = settings.intent.required;
    let summary = summary(providers, host);
    let mut tools = vec![retrieve(&summary), describe()];
    // One tool per kind of operation, each with its own annotations: a host's permission prompts then work, and a user
    // can always allow reads and confirm each delete.
    tools.extend(Operation::ALL.map(|operation| call_tool(operation, form, required)));
    tools.push(read_result());
    format!(r#"{{"tools":[{}]}}"#, tools.join(","))
}

fn retrieve(summary: &str) -> String {
    let description = format!(
        "Find tools by what you want to do. Search here first: most tools are not listed. Each result says which call_tool_* to use (call_with). {summary}"
    );
    tool(
        super::RETRIEVE,
        &description,
        r#"{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, in plain words"},"limit":{"type":"integer","description":"Maximum number of results, 1 to 100; default 15"},"detail":{"type":"string","enum":["compact","full"],"description":"One-line signatures or full schemas"},"read_only_only":{"type":"boolean"},"exclude_destructive":{"type":"boolean"},"exclude_open_world":{"type":"boolean"},"include_disabled":{"type":"boolean","description":"Include tools that cannot be called now, with the reason"}},"required":["query"]}"#,
        r#"{"readOnlyHint":true}"#,
    )
}

fn describe() -> String {
    tool(
        super::DESCRIBE,
        "Get the full descriptors, including schemas, of 1 to 5 tools.",
        r#"{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"description":"1 to 5 names as server:tool"}},"required":["names"]}"#,
        r#"{"readOnlyHint":true}"#,
    )
}

fn call_tool(operation: Operation, form: IntentForm, required: bool) -> String {
    let (description, annotations) = match operation {
        Operation::Read => (
            "Call a tool that only reads.",
            r#"{"readOnlyHint":true,"destructiveHint":false}"#,
        ),
        Operation::Write => (
            "Call a tool that makes a reversible change.",
            r#"{"readOnlyHint":false,"destructiveHint":false}"#,
        ),
        Operation::Destructive => (
            "Call a tool that deletes data or makes an irreversible change.",
            r#"{"readOnlyHint":false,"destructiveHint":true}"#,
        ),
    };
    let (properties, intent) = match form {
        IntentForm::Nested => (format!("{NAME},{ARGS},{INTENT}"), "intent"),
        IntentForm::Flat => (
            format!("{NAME},{FLAT_ARGS},{FLAT_INTENT}"),
            "operation_type",
        ),
    };
    let needed = if required {
        format!(r#"["name","{intent}"]"#)
    } else {
        r#"["name"]"#.to_owned()
    };
    let word = operation.as_str();
    tool(
        operation.call_tool(),
        &format!("{description} operation_type must be {word}."),
        &format!(r#"{{"type":"object","properties":{{{properties}}},"required":{needed}}}"#),
        annotations,
    )
}

fn read_result() -> String {
    tool(
        super::READ_RESULT,
        "Page through or search a result that was too large to show, by line, or by record if it is a JSON array.",
        r#"{"type":"object","properties":{"handle":{"type":"string","description":"The handle from the call's answer"},"offset":{"type":"integer","description":"The first line or record, from 0"},"limit":{"type":"integer","description":"How many; default 100"},"search":{"type":"string","description":"Return only matches of this regular expression"}},"required":["handle"]}"#,
        r#"{"readOnlyHint":true}"#,
    )
}

fn tool(name: &str, description: &str, schema: &str, annotations: &str) -> String {
    let description = quote(description);
    format!(
        r#"{{"name":"{name}","description":{description},"inputSchema":{schema},"annotations":{annotations}}}"#
    )
}

/// The connected servers, in one line. Models decide from it whether to search.
fn summary(providers: &dyn Providers, host: &Host) -> String {
    let (catalog, policy) = (providers.catalog(), providers.policy());
    let mut servers: Vec<(&str, usize)> = Vec::new();
    for tool in catalog.listed_to(&policy, &host.identity) {
        match servers
            .last_mut()
            .filter(|(server, _)| *server == tool.server.as_str())
        {
            Some((_, count)) => *count += 1,
            None => servers.push((tool.server.as_str(), 1)),
        }
    }
    let total: usize = servers.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return "No servers are connected yet.".to_owned();
    }
    let mut line = format!("Connected: {total} tools of ");
    let all = servers.len();
    for (at, (server, count)) in servers.into_iter().enumerate() {
        // Models read this with every request, so a gateway with many servers does not list them all.
        if line.len() > MAX_SUMMARY_CHARS {
            line.push_str(&format!("and {} more servers, ", all - at));
            break;
        }
        line.push_str(&format!("{server} ({count}), "));
    }
    format!("{}.", line.trim_end_matches(", "))
}

/// The form for a client, by its name.
fn form_for(host: &Host) -> IntentForm {
    let info = host.client_info.as_deref().unwrap_or("{}");
    let json = Json::validate(info.as_bytes(), Strictness::Envelope).ok();
    let name = json.and_then(|json| json.get("name")?.as_str());
    // Only a choice of presentation, so a name that the client makes up is good enough.
    let name = name.unwrap_or_default().to_lowercase();
    if FLAT_CLIENTS.iter().any(|flat| name.contains(flat)) {
        IntentForm::Flat
    } else {
        IntentForm::Nested
    }
}
