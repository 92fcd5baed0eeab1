//! An MCP server with the tools, resources and prompts whose names and answers the MCP conformance suite
//! fixes, over stdio or HTTP, for hosts of the handshake versions, of 2026-07-28, or of both.

use std::collections::HashMap;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use callgate_testkit::conformance::asked::{Asked, ask};
use callgate_testkit::conformance::asking::{asking, conclusion};
use callgate_testkit::conformance::reading::{complete, progress, prompt, read};
use callgate_testkit::conformance::{content, prompts, resources, templates, tools};
use callgate_testkit::serve::{Fixture, Incoming, Peer, Way, serve, version_for};
use clap::Parser;
use serde_json::{Map, Value, json};

/// The levels of log messages, the least severe first.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// The pause between the messages of a tool that reports while it works.
const PAUSE: Duration = Duration::from_millis(50);

/// The refusal of what belongs to the other form of the protocol.
const NOT_FOUND: &str = r#"{"code":-32601,"message":"method not found"}"#;

/// A server of the conformance suite.
#[derive(Parser)]
struct Arguments {
    /// Which forms of the protocol it speaks.
    #[arg(long, value_enum, default_value_t)]
    era: Speaks,
    #[command(flatten)]
    way: Way,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Speaks {
    /// Versions that begin with `initialize`.
    #[default]
    Handshake,
    /// 2026-07-28.
    Stateless,
    /// Both.
    Dual,
}

struct Conformance {
    speaks: Speaks,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What each session settled: the client's capabilities, and the level of its log messages.
    sessions: HashMap<usize, (Value, usize)>,
    subscriptions: Vec<String>,
    /// Tools and prompts that came by request.
    added: (usize, usize),
    listeners: Vec<Sender<&'static str>>,
    /// The states of tasks, by number.
    tasks: Vec<&'static str>,
}

impl State {
    fn session(&mut self, peer: &Peer) -> &mut (Value, usize) {
        self.sessions.entry(peer.session()).or_default()
    }
}

fn main() -> std::io::Result<()> {
    let Arguments { era, way } = Arguments::parse();
    let fixture = Conformance {
        speaks: era,
        state: Mutex::default(),
    };
    serve(fixture, way)
}

impl Fixture for Conformance {
    fn is_stateless(&self) -> bool {
        self.speaks != Speaks::Handshake
    }

    fn request(&self, peer: &Peer, incoming: &Incoming) {
        let frame = &incoming.frame;
        let is_stateless = frame.is_stateless() && self.speaks != Speaks::Handshake;
        let meta = |name: &str| {
            let raw = frame.meta(&format!("io.modelcontextprotocol/{name}"));
            raw.and_then(|raw| serde_json::from_str(raw).ok())
        };
        let asked = Asked {
            peer,
            frame,
            is_stateless,
            capabilities: if is_stateless {
                meta("clientCapabilities").unwrap_or_default()
            } else {
                self.state().session(peer).0.clone()
            },
        };
        match (is_stateless, self.speaks) {
            (true, _) => self.stateless(&asked, incoming),
            (false, Speaks::Stateless) => {
                let data = r#"{"supported":["2026-07-28"],"requested":null}"#;
                let error = format!(r#"{{"code":-32022,"message":"no handshake","data":{data}}}"#);
                peer.fail(frame, &error);
            }
            (false, _) => self.handshake(&asked),
        }
    }
}

impl Conformance {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handshake(&self, asked: &Asked<'_>) {
        match asked.frame.method.as_deref().unwrap_or_default() {
            "initialize" => self.initialize(asked),
            "ping" => asked.reply(json!({})),
            "logging/setLevel" => self.set_level(asked),
            "resources/subscribe" => self.subscribe(asked, true),
            "resources/unsubscribe" => self.subscribe(asked, false),
            _ => self.either(asked),
        }
    }

    fn stateless(&self, asked: &Asked<'_>, incoming: &Incoming) {
        match asked.frame.method.as_deref().unwrap_or_default() {
            "server/discover" => asked.reply_cacheable(json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": with_tasks(),
                "_meta": {"io.modelcontextprotocol/serverInfo": info()},
            })),
            "subscriptions/listen" => self.listen(asked, incoming),
            "tools/call" if asked.frame.argument("as_task").is_some() => self.begin(asked),
            "tasks/get" | "tasks/update" | "tasks/cancel" => self.task(asked),
            _ => self.either(asked),
        }
    }

    /// What both forms of the protocol have.
    fn either(&self, asked: &Asked<'_>) {
        match asked.frame.method.as_deref().unwrap_or_default() {
            "tools/list" => asked.reply_cacheable(json!({"tools": self.tools()})),
            "tools/call" => self.call(asked),
            "resources/list" => asked.reply_cacheable(json!({"resources": resources()})),
            "resources/templates/list" => {
                asked.reply_cacheable(json!({"resourceTemplates": templates()}));
            }
            "resources/read" => read(asked),
            "prompts/list" => asked.reply_cacheable(json!({"prompts": self.prompts()})),
            "prompts/get" => prompt(asked),
            "completion/complete" => complete(asked),
            _ => asked.peer.fail(asked.frame, NOT_FOUND),
        }
    }

    fn tools(&self) -> Vec<Value> {
        let added = self.state().added.0;
        let schema = json!({"type": "object", "properties": {}});
        let more = (0..added)
            .map(|number| json!({"name": format!("added_{number}"), "description": "Came later", "inputSchema": schema}));
        tools().into_iter().chain(more).collect()
    }

    fn prompts(&self) -> Value {
        let added = self.state().added.1;
        let mut all = prompts();
        if let Some(all) = all.as_array_mut() {
            all.extend((0..added).map(
                |number| json!({"name": format!("added_{number}"), "description": "Came later"}),
            ));
        }
        all
    }

    fn initialize(&self, asked: &Asked<'_>) {
        self.state().session(asked.peer).0 = asked.value("capabilities");
        let version: Value = serde_json::from_str(&version_for(asked.frame)).unwrap_or_default();
        asked.reply(json!({
            "protocolVersion": version,
            "capabilities": offered(),
            "serverInfo": info(),
        }));
    }

    fn set_level(&self, asked: &Asked<'_>) {
        let wanted = asked.text("level");
        match LEVELS.iter().position(|level| *level == wanted) {
            Some(level) => {
                self.state().session(asked.peer).1 = level;
                asked.reply(json!({}));
            }
            None => asked.fail(-32602, "unknown level", Value::Null),
        }
    }

    fn subscribe(&self, asked: &Asked<'_>, wanted: bool) {
        let uri = asked.text("uri");
        let mut state = self.state();
        state.subscriptions.retain(|known| *known != uri);
        if wanted {
            state.subscriptions.push(uri);
        }
        drop(state);
        asked.reply(json!({}));
    }

    /// Tells of changes until the client does not listen any more.
    fn listen(&self, asked: &Asked<'_>, incoming: &Incoming) {
        let wanted = asked.value("notifications");
        let id: Value =
            serde_json::from_str(asked.frame.id.as_deref().unwrap_or("null")).unwrap_or_default();
        let tag = json!({"io.modelcontextprotocol/subscriptionId": id});
        let (sender, changes) = mpsc::channel();
        self.state().listeners.push(sender);
        let ack = json!({"notifications": wanted, "_meta": tag});
        let method = "notifications/subscriptions/acknowledged";
        asked.peer.notify(method, &ack.to_string());
        while incoming.cancelled.try_recv().is_err() {
            let Ok(kind) = changes.recv_timeout(PAUSE) else {
                continue;
            };
            if wanted[format!("{kind}ListChanged")] == json!(true) {
                let method = format!("notifications/{kind}/list_changed");
                asked
                    .peer
                    .notify(&method, &json!({"_meta": tag}).to_string());
            }
        }
    }

    fn change(&self, asked: &Asked<'_>, kind: &'static str) {
        let mut state = self.state();
        match kind {
            "tools" => state.added.0 += 1,
            _ => state.added.1 += 1,
        }
        state
            .listeners
            .retain(|listener| listener.send(kind).is_ok());
        drop(state);
        if !asked.is_stateless {
            let method = format!("notifications/{kind}/list_changed");
            asked.peer.announce(&method, "{}");
        }
        asked.reply_text("changed");
    }

    fn call(&self, asked: &Asked<'_>) {
        let name = asked.text("name");
        if let Some(wanted) = asking(&name, &asked.value("arguments"), &asked.capabilities) {
            let concluded = |answers: &Map<String, Value>| json!({"content": [{"type": "text", "text": conclusion(&name, answers)}]});
            return ask(asked, &wanted, &name, concluded);
        }
        match name.as_str() {
            "test_tool_with_logging" | "test_logging_tool" => self.log(asked),
            "test_tool_with_progress" => progress(asked),
            "test_error_handling" => {
                asked.reply_failure("This tool intentionally returns an error for testing");
            }
            "test_trigger_tool_change" => self.change(asked, "tools"),
            "test_trigger_prompt_change" => self.change(asked, "prompts"),
            "test_reconnection" => {
                thread::sleep(2 * PAUSE);
                asked.reply_text("Reconnection test completed");
            }
            name => match content(name) {
                Some(content) => asked.reply(json!({"content": content})),
                None => asked.fail(-32602, &format!("unknown tool `{name}`"), Value::Null),
            },
        }
    }

    /// Makes a task of a call; every server counts its tasks in the same way.
    fn begin(&self, asked: &Asked<'_>) {
        let mut state = self.state();
        let id = format!("t{}", state.tasks.len());
        state.tasks.push("input_required");
        drop(state);
        let mut task = task(&id, "input_required");
        task["resultType"] = json!("task");
        asked.peer.reply(asked.frame, &task.to_string());
    }

    /// Answers a request about a task, which completes once it has got input.
    fn task(&self, asked: &Asked<'_>) {
        let id = asked.frame.param("taskId").unwrap_or_default();
        let id: String = serde_json::from_str(id).unwrap_or_default();
        let mut state = self.state();
        let number = id.strip_prefix('t').and_then(|number| number.parse().ok());
        let status = number.and_then(|number: usize| state.tasks.get_mut(number));
        let Some(status) = status else {
            drop(state);
            return asked.fail(-32602, "no such task", Value::Null);
        };
        match asked.frame.method.as_deref() {
            Some("tasks/update") => *status = "completed",
            Some("tasks/cancel") => *status = "cancelled",
            _ => {
                let mut task = task(&id, status);
                let link = format!("memo://{id}");
                match *status {
                    "completed" => {
                        let link = json!({"type": "resource_link", "uri": link, "name": "log"});
                        task["result"] = json!({"content": [link]});
                    }
                    "input_required" => {
                        let schema = json!({"type": "object", "properties": {}});
                        let params =
                            json!({"mode": "form", "message": id, "requestedSchema": schema});
                        let question = json!({"method": "elicitation/create", "params": params});
                        task["inputRequests"] = json!({"q": question});
                    }
                    _ => {}
                }
                drop(state);
                return asked.reply(task);
            }
        }
        drop(state);
        asked.reply(json!({}));
    }

    fn log(&self, asked: &Asked<'_>) {
        let wanted = asked.frame.meta("io.modelcontextprotocol/logLevel");
        let wanted = wanted.and_then(|raw| serde_json::from_str::<String>(raw).ok());
        let wanted = wanted.and_then(|text| LEVELS.iter().position(|level| *level == text));
        let logs = if asked.is_stateless {
            wanted.is_some_and(|level| level <= 1)
        } else {
            self.state().session(asked.peer).1 <= 1
        };
        let steps = [
            "Tool execution started",
            "Tool processing data",
            "Tool execution completed",
        ];
        for (index, step) in steps.iter().enumerate() {
            if index > 0 {
                thread::sleep(PAUSE);
            }
            if logs {
                let params = json!({"level": "info", "data": step});
                asked
                    .peer
                    .notify("notifications/message", &params.to_string());
            }
        }
        asked.reply_text("Tool with logging executed successfully");
    }
}

fn task(id: &str, status: &str) -> Value {
    json!({
        "taskId": id, "status": status, "ttlMs": 60000, "pollIntervalMs": 10,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
    })
}

fn offered() -> Value {
    json!({
        "tools": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "prompts": {"listChanged": true},
        "logging": {},
        "completions": {},
    })
}

/// The same with the extension for tasks.
fn with_tasks() -> Value {
    let mut offered = offered();
    offered["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    offered
}

fn info() -> Value {
    json!({"name": "conformance-upstream", "version": "1.0.0"})
}
