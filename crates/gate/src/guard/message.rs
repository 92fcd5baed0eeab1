//! The messages of `/v1/check`: built by the asking gateway, parsed by the guard.
//!
//! The arguments travel value by value, unchanged (`arg_<key>`), so that the guard judges what the server will
//! see. Parsed questions are untrusted input.

mod answer;

use std::{borrow::Cow, sync::Arc};

use callgate_wire::{Era, Frame, Json, JsonKind, Strictness, quote};
use sha2::{Digest as _, Sha256};

pub use answer::Answer;

use super::Inquiry;
use crate::{
    ApprovalId, Attempt, Call, CallId, CallerIdentity, DeclaredIntent, Digest, Door, Host,
    IntentRules, Operation, ServerName, Source, Target, Tool, Transport, policy,
};

/// The version of these messages.
pub const SCHEMA_VERSION: &str = "v1";
/// Longer questions are neither sent nor answered.
pub const MAX_QUESTION_BYTES: usize = 1024 * 1024;
/// The prefix of arguments in `meta`.
const ARGUMENT: &str = "arg_";
/// The member that names the arguments whose value is JSON text: all values of `meta` are strings.
const JSON_ARGUMENTS: &str = "json_args";
/// Members of a question, and of its `meta`, that an approval is not bound to.
const UNBOUND: [&str; 2] = ["approval_id", "session_id"];
const UNBOUND_META: &str = "call_id";
/// The depth to which arguments are searched for a named value; deeper values are added beside them.
const MAX_DEPTH: usize = 64;
/// The server of a question without one.
pub(crate) const NO_SERVER: &str = "check";

/// Why a question is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadQuestion {
    /// It is not a JSON object.
    #[error("the body is not a JSON object: {0}")]
    NoObject(String),
    /// It is of another version.
    #[error("`schema_version` must be \"v1\"")]
    Version,
    /// The scope is missing.
    #[error("`scope` is missing")]
    NoScope,
    /// A member has the wrong type.
    #[error("`{0}` must be a string")]
    NoText(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The scope to evaluate.
    pub scope: String,
    /// The subject: `server:tool`, or a command in scope `shell`.
    pub command: Option<String>,
    /// The agent's name at the asking gateway.
    pub agent: Option<String>,
    /// The session at the asking gateway.
    pub session: Option<String>,
    /// The approval that the caller names.
    pub approval: Option<ApprovalId>,
    /// The call at the asking gateway; several questions can share it.
    pub call: Option<String>,
    action: Option<String>,
    path: Option<String>,
    domain: Option<String>,
    url: Option<String>,
    cost: Option<String>,
    server: Option<String>,
    tool: Option<String>,
    annotations: Option<String>,
    intent: Option<(Operation, String)>,
    /// The arguments, as JSON text.
    arguments: Option<String>,
    /// The question as JSON text, without members that may change when it is asked again.
    bound: String,
}

/// The question about a call, as JSON text. `named` is the approval that its host names.
pub fn question(call: &Call, inquiry: &Inquiry, named: Option<&str>) -> String {
    let identity = &call.attempt.host.identity;
    let arguments = policy::arguments(call);
    let raw = arguments.map_or("{}", Json::as_text);
    let mut meta = vec![
        member("transport", "mcp_gateway"),
        member("namespace", call.target.server().as_str()),
        member("tool_name", call.target.name()),
        // Lets the guard's record prove which bytes it judged, even where values arrive as text.
        member("args_sha256", &sha256(raw.as_bytes())),
        member("call_id", &call.attempt.id.to_string()),
    ];
    if let Target::Tool(tool) = &call.target {
        let descriptor = Json::validate(&tool.descriptor, Strictness::Full).ok();
        let annotations = descriptor.and_then(|json| json.get("annotations"));
        meta.extend(annotations.map(|json| member("annotations", json.as_text())));
    }
    meta.extend(call.attempt.declared.as_deref().map(intent));
    meta.extend(argument_members(arguments));
    let mut members = vec![
        member("schema_version", SCHEMA_VERSION),
        member("scope", &inquiry.scope),
        member("command", &inquiry.command),
        member("agent_id", &identity.agent),
        member("session_id", &identity.session),
    ];
    let optional = [
        ("action", inquiry.action.as_deref()),
        ("path", inquiry.path.as_deref()),
        ("domain", inquiry.domain.as_deref()),
        ("approval_id", named),
    ];
    let given = optional
        .iter()
        .filter_map(|(key, text)| Some((*key, (*text)?)));
    members.extend(given.map(|(key, text)| member(key, text)));
    let cost = policy::COST_KEYS
        .iter()
        .find_map(|key| call.attempt.frame.meta(key));
    let cost = cost.filter(|_| inquiry.with_cost);
    members.extend(cost.map(|cost| format!(r#""est_cost":{}"#, cost.as_text())));
    members.push(format!(r#""meta":{{{}}}"#, meta.join(",")));
    format!("{{{}}}", members.join(","))
}

fn member(key: &str, text: &str) -> String {
    format!("{}:{}", quote(key), quote(text))
}

/// The arguments as members of `meta`: strings unchanged, other values as JSON text, and a list of the latter.
fn argument_members(arguments: Option<Json<'_>>) -> Vec<String> {
    let mut members = Vec::new();
    let mut as_json = Vec::new();
    for (key, value) in arguments.into_iter().flat_map(Json::members) {
        let key = key.as_str().unwrap_or_default();
        let name = format!("{ARGUMENT}{key}");
        match value.as_str() {
            Some(text) => members.push(member(&name, &text)),
            None => {
                members.push(member(&name, value.as_text()));
                as_json.push(quote(&key));
            }
        }
    }
    if !as_json.is_empty() {
        members.push(member(JSON_ARGUMENTS, &format!("[{}]", as_json.join(","))));
    }
    members
}

fn intent(declared: &DeclaredIntent) -> String {
    let given = [
        ("operation_type", &declared.operation_type),
        ("data_sensitivity", &declared.data_sensitivity),
        ("reason", &declared.reason),
    ];
    let given = given
        .iter()
        .filter_map(|(key, text)| Some(member(key, text.as_deref()?)));
    let given: Vec<String> = given.collect();
    let variant = declared.variant.as_str();
    let given = format!("{{{}}}", given.join(","));
    [member("tool_variant", variant), member("intent", &given)].join(",")
}

impl Question {
    pub fn read(body: &[u8]) -> Result<Self, BadQuestion> {
        let no_object = |why: String| BadQuestion::NoObject(why);
        let json =
            Json::validate(body, Strictness::Full).map_err(|error| no_object(error.to_string()))?;
        if !json.is_object() {
            return Err(no_object("it is a value of another type".to_owned()));
        }
        let version = json.get("schema_version").map(Json::as_str);
        if version.is_some_and(|version| version.as_deref() != Some(SCHEMA_VERSION)) {
            return Err(BadQuestion::Version);
        }
        let text = |key: &'static str| text_of(json, key);
        let scope = text("scope")?.filter(|scope| !scope.is_empty());
        let meta = json.get("meta").filter(|meta| meta.is_object());
        let known = |key: &str| meta?.get(key)?.as_str().map(Cow::into_owned);
        let variant = known("tool_variant").and_then(|word| Operation::of(&word));
        Ok(Self {
            scope: scope.ok_or(BadQuestion::NoScope)?,
            command: text("command")?,
            agent: text("agent_id")?,
            session: text("session_id")?,
            // A malformed id names no approval, so the question is judged as a new one.
            approval: text("approval_id")?.and_then(|id| id.parse().ok()),
            call: known("call_id"),
            action: text("action")?,
            path: text("path")?,
            domain: text("domain")?,
            url: text("url")?,
            cost: json.get("est_cost").filter(|cost| !cost.is_null()).map(raw),
            server: known("namespace"),
            tool: known("tool_name"),
            annotations: meta.and_then(|meta| object_of(meta, "annotations")),
            intent: variant.zip(meta.and_then(|meta| object_of(meta, "intent"))),
            arguments: meta.and_then(arguments_of),
            bound: bound_text(json),
        })
    }

    /// The part that an approval is bound to, as JSON text; approvers see all of it.
    pub fn bound(&self) -> &str {
        &self.bound
    }

    /// The binding of an approval: the asker and the question.
    pub fn binding(&self, identity: &CallerIdentity) -> Digest {
        let mut hash = Sha256::new();
        let (tenant, principal) = (&identity.tenant, &identity.principal);
        for part in [
            // A domain separator, with the version of the bound form.
            "callgate check 2",
            tenant,
            principal,
            &identity.agent,
            &self.bound,
        ] {
            // The length in front keeps `ab`+`c` and `a`+`bc` apart.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Digest::from_bytes(hash.finalize().into())
    }

    /// The name that rules match: the tool of the call, or the subject.
    pub fn name(&self) -> Cow<'_, str> {
        let is_name = self.scope.starts_with("mcp_");
        match (&self.server, &self.tool) {
            (Some(server), Some(tool)) if !is_name => format!("{server}:{tool}").into(),
            _ => self.command.as_deref().unwrap_or_default().into(),
        }
    }

    /// Rebuilds the call in question, only to be judged; it is never forwarded.
    pub fn call(&self, id: CallId, identity: CallerIdentity) -> Option<Call> {
        let named = self
            .command
            .as_deref()
            .and_then(|command| command.split_once(':'));
        let server = self.server.as_deref().or(named.map(|(server, _)| server));
        let server = server.and_then(|server| ServerName::new(server).ok());
        let server = match server {
            Some(server) => server,
            None => ServerName::new(NO_SERVER).ok()?,
        };
        let tool = self.tool.as_deref().or(named.map(|(_, tool)| tool));
        // Actions are derived from the tool's name, so a question without a tool takes its action as name.
        let tool = tool.or(self.action.as_deref()).unwrap_or(&self.scope);
        let annotations = self.annotations.as_deref().unwrap_or("{}");
        let name = quote(tool);
        let descriptor = format!(r#"{{"name":{name},"annotations":{annotations}}}"#);
        let tool = Tool::from_descriptor(&server, descriptor.into()).ok()?;
        let cost = self.cost.as_deref();
        let meta = cost.map(|cost| format!(r#","_meta":{{"dev.callgate/est_cost":{cost}}}"#));
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":"check","method":"tools/call","params":{{"name":{name},"arguments":{}{}}}}}"#,
            self.judged(),
            meta.unwrap_or_default()
        );
        // Parsed from text, so that a question passes the same checks as a request.
        let frame = Frame::parse(request.into(), Strictness::Full).ok()?;
        let attempt = Attempt {
            id,
            parent: None,
            via: None,
            host: Arc::new(Host {
                identity,
                client_info: None,
                capabilities: "{}".to_owned(),
                era: Era::Handshake,
            }),
            door: Door {
                source: Source::Api,
                transport: Transport::Http,
            },
            frame,
            declared: self.intent.as_ref().and_then(|(variant, given)| {
                let given = format!(r#"{{"intent":{given}}}"#);
                let given = Json::validate(given.as_bytes(), Strictness::Full).ok()?;
                let read = DeclaredIntent::read(*variant, Some(given), IntentRules::default());
                Some(Arc::new(read))
            }),
        };
        let target = Target::Tool(Arc::new(tool));
        Some(Call { attempt, target })
    }

    /// The arguments to judge: the call's, and values that the question names beside them.
    fn judged(&self) -> String {
        // In other scopes `command` is a name.
        let command = self.command.as_ref().filter(|_| self.scope == "shell");
        let named = [
            ("path", self.path.as_ref()),
            ("command", command),
            ("domain", self.domain.as_ref()),
            ("url", self.url.as_ref()),
        ];
        // Gateways name values that are already in the arguments. Values that are not must be judged too:
        // otherwise `path` could name one file while the arguments name another.
        let known = self.arguments.as_deref().unwrap_or("{}");
        let known = Json::validate(known.as_bytes(), Strictness::Full).ok();
        let is_new = |text: &str| !known.is_some_and(|known| holds(known, text, 0));
        let named = named.iter().filter_map(|(key, text)| {
            let text = text.filter(|text| is_new(text))?;
            Some(member(key, text))
        });
        let named = named.collect::<Vec<_>>().join(",");
        match self.arguments.as_deref().and_then(inside) {
            None => format!("{{{named}}}"),
            Some(own) if named.is_empty() => format!("{{{own}}}"),
            Some("") => format!(r#"{{"callgate:named":{{{named}}}}}"#),
            // Under a key of their own, so that named values cannot repeat a key of the arguments.
            Some(own) => format!(r#"{{{own},"callgate:named":{{{named}}}}}"#),
        }
    }
}

fn text_of(json: Json<'_>, key: &'static str) -> Result<Option<String>, BadQuestion> {
    match json.get(key).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text.into_owned())),
            None => Err(BadQuestion::NoText(key)),
        },
    }
}

/// The members of an object's text, without the braces. Only for text that this module wrote.
fn inside(object: &str) -> Option<&str> {
    object.strip_prefix('{')?.strip_suffix('}')
}

/// Whether a text is one of the string values, at any depth.
fn holds(json: Json<'_>, text: &str, depth: usize) -> bool {
    match json.kind() {
        JsonKind::String => json.as_str().as_deref() == Some(text),
        JsonKind::Object if depth < MAX_DEPTH => {
            let mut values = json.members().map(|(_, value)| value);
            values.any(|value| holds(value, text, depth + 1))
        }
        JsonKind::Array if depth < MAX_DEPTH => {
            json.elements().any(|value| holds(value, text, depth + 1))
        }
        JsonKind::Object | JsonKind::Array | JsonKind::Number | JsonKind::Bool | JsonKind::Null => {
            false
        }
    }
}

fn raw(json: Json<'_>) -> String {
    json.as_text().to_owned()
}

/// The question without members that may change when it is asked again, sorted by name.
fn bound_text(question: Json<'_>) -> String {
    let meta =
        |meta: Json<'_>| sorted(meta, |key, value| (key != UNBOUND_META).then(|| raw(value)));
    sorted(question, |key, value| match key {
        "meta" if value.is_object() => Some(meta(value)),
        key => (!UNBOUND.contains(&key)).then(|| raw(value)),
    })
}

/// An object's text with sorted members; `write` returns `None` for members to leave out.
fn sorted(object: Json<'_>, write: impl Fn(&str, Json<'_>) -> Option<String>) -> String {
    let mut members: Vec<(String, String)> = object
        .members()
        .filter_map(|(key, value)| {
            let key = key.as_str().unwrap_or_default();
            let text = write(&key, value)?;
            Some((key.into_owned(), text))
        })
        .collect();
    members.sort_unstable();
    let written: Vec<String> = members
        .iter()
        .map(|(key, value)| format!("{}:{value}", quote(key)))
        .collect();
    format!("{{{}}}", written.join(","))
}

/// A member of `meta` that is an object or the JSON text of one.
fn object_of(meta: Json<'_>, key: &str) -> Option<String> {
    let value = meta.get(key)?;
    match value.as_str() {
        None => Some(raw(value)),
        Some(text) => {
            let json = Json::validate(text.as_bytes(), Strictness::Full).ok()?;
            json.is_object().then(|| text.into_owned())
        }
    }
}

/// The arguments of the call; `None` without any.
fn arguments_of(meta: Json<'_>) -> Option<String> {
    let as_json = meta.get(JSON_ARGUMENTS).and_then(Json::as_str);
    let as_json = as_json.unwrap_or_default();
    let as_json = Json::validate(as_json.as_bytes(), Strictness::Full).ok();
    let is_json = |key: &str| {
        let names = as_json.filter(|names| names.kind() == JsonKind::Array);
        let mut names = names.into_iter().flat_map(Json::elements);
        names.any(|name| name.as_str().as_deref() == Some(key))
    };
    let value_of = |key: &str, value: Json<'_>| match value.as_str().filter(|_| is_json(key)) {
        Some(text) if Json::validate(text.as_bytes(), Strictness::Full).is_ok() => {
            text.into_owned()
        }
        Some(_) | None => raw(value),
    };
    let values: Vec<String> = meta
        .members()
        .filter_map(|(key, value)| {
            let key = key.as_str()?;
            let key = key.strip_prefix(ARGUMENT)?;
            Some(format!("{}:{}", quote(key), value_of(key, value)))
        })
        .collect();
    let is_whole = meta.get("args_sha256").is_some() || !values.is_empty();
    is_whole.then(|| format!("{{{}}}", values.join(",")))
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Question {
        Question::read(body.as_bytes()).expect("it is a question")
    }

    fn identity() -> CallerIdentity {
        CallerIdentity {
            tenant: "local".into(),
            principal: "gw".into(),
            agent: "a".into(),
            session: "s".into(),
            grant: crate::Grant::default(),
        }
    }

    #[test]
    fn a_guard_question_carries_the_calls_exact_bytes() {
        let server = ServerName::new("fs").unwrap();
        let descriptor = r#"{"name":"put","annotations":{"destructiveHint":true}}"#;
        let tool = Tool::from_descriptor(&server, descriptor.into()).unwrap();
        let arguments = r#"{"n":1e2,"text":"a\u0041","number":"1","deep":{"path":["/x"]}}"#;
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"put","arguments":{arguments}}}}}"#
        );
        let asked = read(r#"{"schema_version":"v1","scope":"mcp_tool","command":"fs:put"}"#);
        let mut call = asked.call(CallId(ulid::Ulid::nil()), identity()).unwrap();
        call.attempt.frame = Frame::parse(request.into(), Strictness::Full).unwrap();
        call.target = Target::Tool(Arc::new(tool));
        let inquiry = Inquiry {
            scope: "filesystem".to_owned(),
            command: "fs:put".to_owned(),
            path: Some("/x".to_owned()),
            ..Inquiry::default()
        };
        let asked = question(&call, &inquiry, None);
        let meta = Json::validate(asked.as_bytes(), Strictness::Full).unwrap();
        let meta = meta.get("meta").unwrap();
        assert!(
            meta.members().all(|(_, value)| value.as_str().is_some()),
            "{asked}"
        );
        let there = read(&asked);
        assert_eq!(there.name(), "fs:put");
        let seen = there.call(CallId(ulid::Ulid::nil()), identity()).unwrap();
        let seen_arguments = seen.attempt.frame.param("arguments").map(Json::as_text);
        let same = arguments.replace(r"\u0041", "A");
        assert_eq!(seen_arguments, Some(same.as_str()));
        let Target::Tool(tool) = &seen.target else {
            panic!("a tool is asked about");
        };
        assert_eq!(tool.hints.destructive, Some(true));
    }

    #[test]
    fn named_fields_beside_the_arguments_are_judged_too() {
        let of = |body: &str| read(body).judged();
        let head = r#""schema_version":"v1","scope":"filesystem""#;
        assert_eq!(
            of(&format!(r#"{{{head},"path":"/a"}}"#)),
            r#"{"path":"/a"}"#
        );
        let same = format!(r#"{{{head},"path":"/a","meta":{{"arg_x":{{"y":"/a"}}}}}}"#);
        assert_eq!(of(&same), r#"{"x":{"y":"/a"}}"#);
        let other = format!(r#"{{{head},"path":"/b","meta":{{"arg_x":"/a/b"}}}}"#);
        assert_eq!(of(&other), r#"{"x":"/a/b","callgate:named":{"path":"/b"}}"#);
        let none = format!(r#"{{{head},"path":"/b","meta":{{"args_sha256":"0"}}}}"#);
        assert_eq!(of(&none), r#"{"callgate:named":{"path":"/b"}}"#);
    }

    #[test]
    fn an_approval_is_bound_to_every_field_of_its_question() {
        let of = |fields: &str, meta: &str, identity: &CallerIdentity| {
            let text = format!(r#"{{"scope":"shell",{fields},"meta":{{{meta}}}}}"#);
            read(&text).binding(identity)
        };
        let fields = r#""command":"ls","session_id":"s","approval_id":"x""#;
        let meta = r#""args_sha256":"1","arg_a":"1","call_id":"x""#;
        let first = of(fields, meta, &identity());
        let again = r#""approval_id":"y","command":"ls","session_id":"t""#;
        let same = r#""call_id":"y","arg_a":"1","args_sha256":"1""#;
        assert_eq!(first, of(again, same, &identity()));
        let mut other = identity();
        other.agent = "b".into();
        for different in [
            of(&fields.replace("ls", "rm"), meta, &identity()),
            of(&format!(r#"{fields},"path":"/x""#), meta, &identity()),
            of(&format!(r#"{fields},"est_cost":1"#), meta, &identity()),
            of(
                fields,
                &meta.replace("sha256\":\"1", "sha256\":\"2"),
                &identity(),
            ),
            of(
                fields,
                &meta.replace("arg_a\":\"1", "arg_a\":\"2"),
                &identity(),
            ),
            of(fields, &format!(r#"{meta},"note":"x""#), &identity()),
            of(fields, meta, &other),
        ] {
            assert_ne!(first, different);
        }
    }
}
