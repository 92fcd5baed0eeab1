//! The descriptors of the view's own tools. Their schemas use nothing but plain types, since some hosts accept
//! no more.

use callgate_call::Providers;
use callgate_gate::{Host, Operation};
use callgate_wire::{Json, Strictness, quote};

use crate::{IntentForm, ViewSettings};

/// The names of the view's tools, in the order they are listed.
pub(super) const NAMES: [&str; 6] = [
    super::RETRIEVE,
    super::DESCRIBE,
    "call_tool_read",
    "call_tool_write",
    "call_tool_destructive",
    super::READ_RESULT,
];

/// Clients whose models get nested objects wrong, by what their names contain.
const FLAT_CLIENTS: [&str; 1] = ["gemini"];
/// How long the line about what is connected may be.
const MAX_SUMMARY_CHARS: usize = 300;

const INTENT: &str = r#""intent":{"type":"object","description":"What this call will do; operation_type must match this tool","properties":{"operation_type":{"type":"string","enum":["read","write","destructive"]},"data_sensitivity":{"type":"string","enum":["public","internal","private","unknown"]},"reason":{"type":"string","description":"Why, at most 1000 characters"}},"required":["operation_type"]}"#;
const FLAT_INTENT: &str = r#""operation_type":{"type":"string","enum":["read","write","destructive"],"description":"What this call will do; must match this tool"},"data_sensitivity":{"type":"string","enum":["public","internal","private","unknown"]},"reason":{"type":"string","description":"Why, at most 1000 characters"}"#;
const NAME: &str =
    r#""name":{"type":"string","description":"The tool as server:tool, from retrieve_tools"}"#;
const ARGS: &str = r#""args":{"type":"object","description":"Its arguments"},"args_json":{"type":"string","description":"The same as a JSON text, instead of args"}"#;
const FLAT_ARGS: &str =
    r#""args_json":{"type":"string","description":"Its arguments, a JSON object as text"}"#;

/// The result of `tools/list`.
pub(super) fn list(providers: &dyn Providers, host: &Host, settings: &ViewSettings) -> String {
    let form = settings.form.unwrap_or_else(|| form_for(host));
    let required = settings.intent.required;
    let summary = summary(providers, host);
    let mut tools = vec![retrieve(&summary), describe()];
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
        r#"{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, in plain words"},"limit":{"type":"integer","description":"How many at most, 1 to 100; 15 when left out"},"detail":{"type":"string","enum":["compact","full"],"description":"One-line signatures, or whole schemas"},"read_only_only":{"type":"boolean"},"exclude_destructive":{"type":"boolean"},"exclude_open_world":{"type":"boolean"},"include_disabled":{"type":"boolean","description":"Also tools that cannot be called now, with the reason"}},"required":["query"]}"#,
        r#"{"readOnlyHint":true}"#,
    )
}

fn describe() -> String {
    tool(
        super::DESCRIBE,
        "The whole descriptors, schemas included, of 1 to 5 tools.",
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
            "Call a tool that changes something which can be changed back.",
            r#"{"readOnlyHint":false,"destructiveHint":false}"#,
        ),
        Operation::Destructive => (
            "Call a tool that deletes, or changes something for good.",
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
        "Page or search a result that was too large to show. Lines, or records where it is a JSON array.",
        r#"{"type":"object","properties":{"handle":{"type":"string","description":"As the call's answer gave it"},"offset":{"type":"integer","description":"The first line or record, from 0"},"limit":{"type":"integer","description":"How many; 100 when left out"},"search":{"type":"string","description":"Only those that match this regular expression"}},"required":["handle"]}"#,
        r#"{"readOnlyHint":true}"#,
    )
}

fn tool(name: &str, description: &str, schema: &str, annotations: &str) -> String {
    let description = quote(description);
    format!(
        r#"{{"name":"{name}","description":{description},"inputSchema":{schema},"annotations":{annotations}}}"#
    )
}

/// What is connected, in one line: models know from it when to search.
fn summary(providers: &dyn Providers, host: &Host) -> String {
    let (catalog, policy) = (providers.catalog(), providers.policy());
    let mut servers: Vec<(&str, usize)> = Vec::new();
    for tool in catalog.listed_to(&policy, &host.who) {
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
        return "Connected: nothing yet.".to_owned();
    }
    let mut line = format!("Connected: {total} tools of ");
    let all = servers.len();
    for (at, (server, count)) in servers.into_iter().enumerate() {
        if line.len() > MAX_SUMMARY_CHARS {
            line.push_str(&format!("and {} more servers, ", all - at));
            break;
        }
        line.push_str(&format!("{server} ({count}), "));
    }
    format!("{}.", line.trim_end_matches(", "))
}

/// The form for a client of that name.
fn form_for(host: &Host) -> IntentForm {
    let info = host.client_info.as_deref().unwrap_or("{}");
    let json = Json::validate(info.as_bytes(), Strictness::Envelope).ok();
    let name = json.and_then(|json| json.get("name")?.as_str());
    let name = name.unwrap_or_default().to_lowercase();
    if FLAT_CLIENTS.iter().any(|flat| name.contains(flat)) {
        IntentForm::Flat
    } else {
        IntentForm::Nested
    }
}
