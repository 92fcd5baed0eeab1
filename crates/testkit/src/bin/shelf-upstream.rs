//! An MCP server with everything but effects: resources, templates, prompts, completions, log levels
//! and questions of every kind. Every answer carries the server's tag, so that a test sees whose it is.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callgate_testkit::frame::{Frame, member, quoted};
use callgate_testkit::serve::{Fixture, Incoming, Peer, Way, serve, version_for};
use clap::Parser;
use serde_json::{Value, json};

/// An MCP server with resources, prompts and questions.
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    way: Way,
    /// What every answer carries.
    #[arg(long, default_value = "shelf")]
    tag: String,
    /// How many resources there are beside the shared one.
    #[arg(long, default_value_t = 3)]
    resources: usize,
    /// How many prompts there are.
    #[arg(long, default_value_t = 2)]
    prompts: usize,
    /// How many pages each list is cut into.
    #[arg(long, default_value_t = 1)]
    pages: usize,
    /// Every page names the first one as its next, without end.
    #[arg(long)]
    loop_cursor: bool,
    /// Tools that ask are listed only to hosts that declare what they ask for.
    #[arg(long)]
    by_capability: bool,
    /// A capability that is not declared; may be given more than once.
    #[arg(long)]
    without: Vec<String>,
}

struct Shelf {
    options: Options,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    capabilities: Value,
    level: Option<String>,
    followed: BTreeSet<String>,
    tasks: Vec<Task>,
    added_prompts: usize,
    added_resources: usize,
}

/// A task that was made of a call of `echo`.
struct Task {
    id: String,
    status: &'static str,
    key: String,
}

impl Task {
    fn shown(&self) -> Value {
        json!({"taskId": self.id, "status": self.status, "ttl": 60000, "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"})
    }
}

fn main() -> std::io::Result<()> {
    let options = Options::parse();
    let way = options.way.clone();
    let state = Mutex::default();
    serve(Shelf { options, state }, way)
}

impl Fixture for Shelf {
    fn request(&self, peer: &Peer, incoming: &Incoming) {
        let request = &incoming.frame;
        match request.method.as_deref().unwrap_or_default() {
            "initialize" => self.initialize(peer, request),
            "ping" => reply(peer, request, &json!({})),
            "logging/setLevel" => {
                self.state().level = Some(text_param(request, "level"));
                reply(peer, request, &json!({}));
            }
            "tools/list" => reply(peer, request, &json!({"tools": self.tools()})),
            "tools/call" => self.call(peer, incoming),
            "resources/list" => self.list(peer, request, "resources", self.resources()),
            "resources/templates/list" => {
                let own = format!("{}://item/{{id}}", self.options.tag);
                let templates = vec![
                    json!({"uriTemplate": own, "name": "own"}),
                    json!({"uriTemplate": "shared://{+path}", "name": "shared"}),
                ];
                self.list(peer, request, "resourceTemplates", templates);
            }
            "resources/read" => self.read(peer, incoming),
            "resources/subscribe" => self.follow(peer, request, true),
            "resources/unsubscribe" => self.follow(peer, request, false),
            "prompts/list" => self.list(peer, request, "prompts", self.prompts()),
            "prompts/get" => self.prompt(peer, request),
            "completion/complete" => self.complete(peer, request),
            "tasks/list" => {
                let tasks = self.state().tasks.iter().map(Task::shown).collect();
                self.list(peer, request, "tasks", tasks);
            }
            "tasks/get" | "tasks/cancel" | "tasks/result" => self.task(peer, request),
            _ => peer.fail(request, r#"{"code":-32601,"message":"method not found"}"#),
        }
    }
}

impl Shelf {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn initialize(&self, peer: &Peer, request: &Frame) {
        let declared = request.param("capabilities").unwrap_or("null");
        self.state().capabilities = serde_json::from_str(declared).unwrap_or_default();
        let version: Value = serde_json::from_str(&version_for(request)).unwrap_or_default();
        let mut capabilities = json!({
            "tools": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "prompts": {"listChanged": true},
            "logging": {},
            "completions": {},
            "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
        });
        if let Some(capabilities) = capabilities.as_object_mut() {
            capabilities.retain(|name, _| !self.options.without.contains(name));
        }
        let tag = &self.options.tag;
        let result = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": {"name": "shelf-upstream", "version": "1"},
            "instructions": format!("ask {tag}"),
        });
        reply(peer, request, &result);
    }

    fn tools(&self) -> Vec<Value> {
        let declared = self.state().capabilities.clone();
        let mut tools = tools();
        if self.options.by_capability {
            let needed = |tool: &Value| match tool["name"].as_str() {
                Some("ask_roots") => Some("roots"),
                Some("ask_form" | "ask_url" | "need_url") => Some("elicitation"),
                Some("ask_model") => Some("sampling"),
                Some(_) | None => None,
            };
            tools.retain(|tool| needed(tool).is_none_or(|key| declared.get(key).is_some()));
        }
        tools
    }

    fn resources(&self) -> Vec<Value> {
        let count = self.options.resources + self.state().added_resources;
        let tag = &self.options.tag;
        let own = (0..count)
            .map(|index| json!({"uri": format!("{tag}://{index}"), "name": format!("r{index}")}));
        let shared = json!({"uri": "shared://doc", "name": "shared"});
        own.chain([shared]).collect()
    }

    fn prompts(&self) -> Vec<Value> {
        let count = self.options.prompts + self.state().added_prompts;
        let argument = json!([{"name": "who"}]);
        (0..count)
            .map(|index| json!({"name": format!("p{index}"), "arguments": argument}))
            .collect()
    }

    /// One page of a list, as the request's cursor says.
    fn list(&self, peer: &Peer, request: &Frame, key: &str, all: Vec<Value>) {
        let pages = self.options.pages.max(1);
        let size = all.len().div_ceil(pages).max(1);
        let page: usize = text_param(request, "cursor")
            .strip_prefix("page-")
            .and_then(|page| page.parse().ok())
            .unwrap_or(0);
        let listed: Vec<Value> = all.into_iter().skip(page * size).take(size).collect();
        let mut result = json!({key: listed});
        if self.options.loop_cursor {
            result["nextCursor"] = json!("page-0");
        } else if page + 1 < pages {
            result["nextCursor"] = json!(format!("page-{}", page + 1));
        }
        reply(peer, request, &result);
    }

    fn read(&self, peer: &Peer, incoming: &Incoming) {
        let request = &incoming.frame;
        let uri = text_param(request, "uri");
        progress(peer, request);
        if uri.ends_with("/slow") && incoming.cancelled.recv_timeout(SLOW).is_ok() {
            return;
        }
        if uri.ends_with("/missing") {
            let data = json!({"uri": uri});
            let error = format!(r#"{{"code":-32002,"message":"not here","data":{data}}}"#);
            return peer.fail(request, &error);
        }
        let text = format!("{} reads {uri}", self.options.tag);
        reply(
            peer,
            request,
            &json!({"contents": [{"uri": uri, "text": text}]}),
        );
    }

    fn follow(&self, peer: &Peer, request: &Frame, follows: bool) {
        let uri = text_param(request, "uri");
        if uri.ends_with("/missing") {
            return peer.fail(request, r#"{"code":-32002,"message":"not here"}"#);
        }
        let mut state = self.state();
        match follows {
            true => state.followed.insert(uri),
            false => state.followed.remove(&uri),
        };
        drop(state);
        reply(peer, request, &json!({}));
    }

    fn prompt(&self, peer: &Peer, request: &Frame) {
        let (name, identity) = (
            text_param(request, "name"),
            request.argument("who").unwrap_or_default(),
        );
        progress(peer, request);
        let text = format!("{} greets {identity} by {name}", self.options.tag);
        let message = json!({"role": "user", "content": {"type": "text", "text": text}});
        reply(peer, request, &json!({"messages": [message]}));
    }

    fn complete(&self, peer: &Peer, request: &Frame) {
        let reference = request.param("ref").unwrap_or("{}");
        let own = member(reference, "name").or_else(|| member(reference, "uri"));
        let own: String = own
            .and_then(|raw| serde_json::from_str(raw).ok())
            .unwrap_or_default();
        let value = format!("{} completes {own}", self.options.tag);
        let result = json!({"completion": {"values": [value], "total": 1, "hasMore": false}});
        reply(peer, request, &result);
    }

    fn call(&self, peer: &Peer, incoming: &Incoming) {
        let request = &incoming.frame;
        let tag = &self.options.tag;
        let key = request.argument("key").unwrap_or_default();
        match text_param(request, "name").as_str() {
            "echo" if request.param("task").is_some() => self.begin(peer, request, key),
            "echo" if key.starts_with("link ") => self.link(peer, request, &key["link ".len()..]),
            "echo" => {
                progress(peer, request);
                peer.reply_text(request, &format!("{tag} echoes {key}"));
            }
            "declared" => peer.reply_text(request, &self.state().capabilities.to_string()),
            "level" => {
                let level = self.state().level.clone();
                peer.reply_text(request, level.as_deref().unwrap_or("none"));
            }
            "followed" => {
                let followed: Vec<String> = self.state().followed.iter().cloned().collect();
                peer.reply_text(request, &followed.join(" "));
            }
            "touch" => {
                let params = json!({"uri": key}).to_string();
                peer.announce("notifications/resources/updated", &params);
                peer.reply_text(request, "touched");
            }
            "say" => {
                let params =
                    json!({"level": "error", "data": format!("{}: {key}", self.options.tag)});
                // While the call is under way it would belong to it.
                peer.reply_text(request, "said");
                peer.announce("notifications/message", &params.to_string());
            }
            "add_prompt" => {
                self.state().added_prompts += 1;
                peer.announce("notifications/prompts/list_changed", "{}");
                peer.reply_text(request, "added");
            }
            "add_resource" => {
                self.state().added_resources += 1;
                peer.announce("notifications/resources/list_changed", "{}");
                peer.reply_text(request, "added");
            }
            "die" => std::process::exit(1),
            asking => self.asking(peer, request, asking),
        }
    }

    /// Names a resource as a link, inside an embedded resource, and in text.
    fn link(&self, peer: &Peer, request: &Frame, uri: &str) {
        let text = format!("{} links {uri}", self.options.tag);
        let content = json!([
            {"type": "resource_link", "uri": uri, "name": "linked"},
            {"type": "resource", "resource": {"uri": uri, "text": text}},
            {"type": "text", "text": text},
        ]);
        reply(peer, request, &json!({"content": content}));
    }

    /// Makes a task of a call; every server counts its tasks in the same way.
    fn begin(&self, peer: &Peer, request: &Frame, key: String) {
        let mut state = self.state();
        let id = format!("t{}", state.tasks.len());
        let status = "working";
        let task = Task { id, status, key };
        let shown = task.shown();
        state.tasks.push(task);
        drop(state);
        reply(peer, request, &json!({"task": shown}));
        peer.announce("notifications/tasks/status", &shown.to_string());
    }

    fn task(&self, peer: &Peer, request: &Frame) {
        let id = text_param(request, "taskId");
        let mut state = self.state();
        let Some(task) = state.tasks.iter_mut().find(|task| task.id == id) else {
            drop(state);
            return peer.fail(request, r#"{"code":-32602,"message":"no such task"}"#);
        };
        let result = match request.method.as_deref() {
            Some("tasks/cancel") => {
                task.status = "cancelled";
                task.shown()
            }
            Some("tasks/result") => {
                task.status = "completed";
                let text = format!("{} echoes {}", self.options.tag, task.key);
                json!({
                    "content": [{"type": "text", "text": text}],
                    "_meta": {"io.modelcontextprotocol/related-task": {"taskId": id}},
                })
            }
            _ => task.shown(),
        };
        drop(state);
        reply(peer, request, &result);
    }

    fn asking(&self, peer: &Peer, request: &Frame, tool: &str) {
        let tag = &self.options.tag;
        let url = json!({
            "mode": "url", "message": tag, "url": "https://example.com/", "elicitationId": format!("{tag}-1"),
        });
        match tool {
            "ask_roots" => ask(peer, request, "roots/list", &json!({})),
            "ask_form" => {
                let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
                let params = json!({"message": tag, "requestedSchema": schema});
                ask(peer, request, "elicitation/create", &params);
            }
            "ask_url" => {
                ask(peer, request, "elicitation/create", &url);
                let done = json!({"elicitationId": url["elicitationId"]}).to_string();
                peer.announce("notifications/elicitation/complete", &done);
            }
            "need_url" => {
                let data = json!({"elicitations": [url]});
                let error =
                    format!(r#"{{"code":-32042,"message":"go there first","data":{data}}}"#);
                peer.fail(request, &error);
            }
            "ask_model" => {
                let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
                let message = json!({"role": "user", "content": {"type": "text", "text": tag}});
                let params = json!({
                    "messages": [message], "maxTokens": 9, "tools": [tool], "toolChoice": {"mode": "auto"},
                });
                ask(peer, request, "sampling/createMessage", &params);
            }
            unknown => {
                let message = quoted(&format!("unknown tool `{unknown}`"));
                peer.fail(
                    request,
                    &format!(r#"{{"code":-32602,"message":{message}}}"#),
                );
            }
        }
    }
}

/// How long a slow resource takes.
const SLOW: Duration = Duration::from_secs(20);

fn tools() -> Vec<Value> {
    let names = [
        "echo",
        "declared",
        "level",
        "followed",
        "touch",
        "say",
        "add_prompt",
        "add_resource",
        "die",
        "ask_roots",
        "ask_form",
        "ask_url",
        "need_url",
        "ask_model",
    ];
    let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    names.into_iter().map(tool).collect()
}

/// Asks the host, and answers with what it said.
fn ask(peer: &Peer, request: &Frame, method: &str, params: &Value) {
    match peer.ask(method, &params.to_string()) {
        Some(answer) => {
            let said = answer.result.or(answer.error).unwrap_or_default();
            peer.reply_text(request, &said);
        }
        None => peer.reply_failure(request, "no answer"),
    }
}

/// Two steps of progress, where a token came with the request.
fn progress(peer: &Peer, request: &Frame) {
    if let Some(token) = request.progress_token() {
        for step in 1..=2 {
            let params = format!(r#"{{"progressToken":{token},"progress":{step}}}"#);
            peer.notify("notifications/progress", &params);
        }
    }
}

fn reply(peer: &Peer, request: &Frame, result: &Value) {
    peer.reply(request, &result.to_string());
}

fn text_param(request: &Frame, name: &str) -> String {
    request
        .param(name)
        .and_then(|raw| serde_json::from_str(raw).ok())
        .unwrap_or_default()
}
