//! A stdio MCP server with the tools, resources and prompts whose names and answers the MCP
//! conformance suite fixes. It speaks the handshake versions only.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use callgate_testkit::conformance::{
    PNG, content, defaults, elicitation, enums, prompts, resources, templates, tools,
};
use callgate_testkit::frame::{Frame, member, quoted};
use callgate_testkit::serve::{Fixture, Incoming, Peer, Way, serve, version_for};
use serde_json::{Value, json};

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

#[derive(Default)]
struct Conformance {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    can_sample: bool,
    can_elicit: bool,
    level: usize,
    subscriptions: Vec<String>,
}

fn main() -> std::io::Result<()> {
    serve(Conformance::default(), Way::default())
}

impl Fixture for Conformance {
    fn request(&self, peer: &Peer, incoming: &Incoming) {
        let request = &incoming.frame;
        match request.method.as_deref().unwrap_or_default() {
            "initialize" => self.initialize(peer, request),
            "ping" => reply(peer, request, &json!({})),
            "logging/setLevel" => self.set_level(peer, request),
            "tools/list" => reply(peer, request, &json!({"tools": tools()})),
            "tools/call" => self.call(peer, request),
            "resources/list" => reply(peer, request, &json!({"resources": resources()})),
            "resources/templates/list" => {
                reply(peer, request, &json!({"resourceTemplates": templates()}))
            }
            "resources/read" => read(peer, request),
            "resources/subscribe" => self.subscribe(peer, request, true),
            "resources/unsubscribe" => self.subscribe(peer, request, false),
            "prompts/list" => reply(peer, request, &json!({"prompts": prompts()})),
            "prompts/get" => prompt(peer, request),
            "completion/complete" => complete(peer, request),
            _ => peer.fail(request, r#"{"code":-32601,"message":"method not found"}"#),
        }
    }
}

impl Conformance {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn initialize(&self, peer: &Peer, request: &Frame) {
        let capabilities = request.param("capabilities").unwrap_or("{}");
        let mut state = self.state();
        state.can_sample = member(capabilities, "sampling").is_some();
        state.can_elicit = member(capabilities, "elicitation").is_some();
        drop(state);
        let version: Value = serde_json::from_str(&version_for(request)).unwrap_or_default();
        let result = json!({
            "protocolVersion": version,
            "capabilities": {
                "tools": {"listChanged": true},
                "resources": {"subscribe": true, "listChanged": true},
                "prompts": {"listChanged": true},
                "logging": {},
                "completions": {},
            },
            "serverInfo": {"name": "conformance-upstream", "version": "1.0.0"},
        });
        reply(peer, request, &result);
    }

    fn set_level(&self, peer: &Peer, request: &Frame) {
        let wanted = text_param(request, "level");
        match LEVELS.iter().position(|level| *level == wanted) {
            Some(level) => {
                self.state().level = level;
                reply(peer, request, &json!({}));
            }
            None => peer.fail(request, r#"{"code":-32602,"message":"unknown level"}"#),
        }
    }

    fn subscribe(&self, peer: &Peer, request: &Frame, wanted: bool) {
        let uri = text_param(request, "uri");
        let mut state = self.state();
        state.subscriptions.retain(|known| *known != uri);
        if wanted {
            state.subscriptions.push(uri);
        }
        drop(state);
        reply(peer, request, &json!({}));
    }

    fn call(&self, peer: &Peer, request: &Frame) {
        match text_param(request, "name").as_str() {
            "test_tool_with_logging" => self.log(peer, request),
            "test_tool_with_progress" => progress(peer, request),
            "test_error_handling" => {
                peer.reply_failure(
                    request,
                    "This tool intentionally returns an error for testing",
                );
            }
            "test_sampling" => self.sample(peer, request),
            "test_elicitation" => {
                let question = elicitation(&request.argument("message").unwrap_or_default());
                self.elicit(peer, request, question, "User response");
            }
            "test_elicitation_sep1034_defaults" => {
                self.elicit(peer, request, defaults(), "Elicitation completed");
            }
            "test_elicitation_sep1330_enums" => {
                self.elicit(peer, request, enums(), "Elicitation completed");
            }
            "test_reconnection" => {
                thread::sleep(2 * PAUSE);
                peer.reply_text(request, "Reconnection test completed");
            }
            name => match content(name) {
                Some(content) => reply(peer, request, &json!({"content": content})),
                None => {
                    let message = quoted(&format!("unknown tool `{name}`"));
                    peer.fail(
                        request,
                        &format!(r#"{{"code":-32602,"message":{message}}}"#),
                    );
                }
            },
        }
    }

    fn log(&self, peer: &Peer, request: &Frame) {
        let level = self.state().level;
        let steps = [
            "Tool execution started",
            "Tool processing data",
            "Tool execution completed",
        ];
        for (index, step) in steps.iter().enumerate() {
            if index > 0 {
                thread::sleep(PAUSE);
            }
            if level <= 1 {
                peer.notify(
                    "notifications/message",
                    &json!({"level": "info", "data": step}).to_string(),
                );
            }
        }
        peer.reply_text(request, "Tool with logging executed successfully");
    }

    fn sample(&self, peer: &Peer, request: &Frame) {
        if !self.state().can_sample {
            peer.reply_failure(request, "the client does not support sampling");
            return;
        }
        let prompt = request.argument("prompt").unwrap_or_default();
        let params = json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
            "maxTokens": 100,
        });
        let answer = peer.ask("sampling/createMessage", &params.to_string());
        match answer.and_then(|answer| answer.result) {
            Some(result) => {
                let result: Value = serde_json::from_str(&result).unwrap_or_default();
                let said = result["content"]["text"]
                    .as_str()
                    .unwrap_or("no text")
                    .to_owned();
                peer.reply_text(request, &format!("LLM response: {said}"));
            }
            None => peer.reply_failure(request, "the client did not answer"),
        }
    }

    fn elicit(&self, peer: &Peer, request: &Frame, params: Value, label: &str) {
        if !self.state().can_elicit {
            peer.reply_failure(request, "the client does not support elicitation");
            return;
        }
        let answer = peer.ask("elicitation/create", &params.to_string());
        match answer.and_then(|answer| answer.result) {
            Some(result) => {
                let result: Value = serde_json::from_str(&result).unwrap_or_default();
                let action = result["action"].as_str().unwrap_or("none");
                let text = format!("{label}: action={action}, content={}", result["content"]);
                peer.reply_text(request, &text);
            }
            None => peer.reply_failure(request, "the client did not answer"),
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

fn progress(peer: &Peer, request: &Frame) {
    for (index, step) in [0, 50, 100].into_iter().enumerate() {
        if index > 0 {
            thread::sleep(PAUSE);
        }
        if let Some(token) = request.progress_token() {
            let params = format!(r#"{{"progressToken":{token},"progress":{step},"total":100}}"#);
            peer.notify("notifications/progress", &params);
        }
    }
    peer.reply_text(request, "Tool with progress executed successfully");
}

fn read(peer: &Peer, request: &Frame) {
    let uri = text_param(request, "uri");
    let id = uri
        .strip_prefix("test://template/")
        .and_then(|rest| rest.strip_suffix("/data"));
    let contents = match (uri.as_str(), id) {
        ("test://static-text", _) => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        ("test://static-binary", _) => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        ("test://watched-resource", _) => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "Watched resource content"})
        }
        (_, Some(id)) => {
            let text =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": text.to_string()})
        }
        (_, None) => {
            let data = json!({"uri": uri});
            peer.fail(
                request,
                &format!(r#"{{"code":-32002,"message":"resource not found","data":{data}}}"#),
            );
            return;
        }
    };
    reply(peer, request, &json!({"contents": [contents]}));
}

fn prompt(peer: &Peer, request: &Frame) {
    let argument = |name: &str| request.argument(name).unwrap_or_default();
    let text = |text: String| json!({"role": "user", "content": {"type": "text", "text": text}});
    let messages = match text_param(request, "name").as_str() {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.".to_owned())]),
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            json!([text(format!(
                "Prompt with arguments: arg1='{first}', arg2='{second}'"
            ))])
        }
        "test_prompt_with_embedded_resource" => json!([
            {"role": "user", "content": {"type": "resource", "resource": {
                "uri": argument("resourceUri"),
                "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}},
            text("Please process the embedded resource above.".to_owned()),
        ]),
        "test_prompt_with_image" => json!([
            {"role": "user", "content": {"type": "image", "data": PNG, "mimeType": "image/png"}},
            text("Please analyze the image above.".to_owned()),
        ]),
        _ => {
            peer.fail(request, r#"{"code":-32602,"message":"unknown prompt"}"#);
            return;
        }
    };
    reply(peer, request, &json!({"messages": messages}));
}

fn complete(peer: &Peer, request: &Frame) {
    let argument = request.param("argument").unwrap_or("{}");
    let value: String = member(argument, "value")
        .and_then(|raw| serde_json::from_str(raw).ok())
        .unwrap_or_default();
    let values: Vec<&str> = ["paris", "park", "party", "testValue1"]
        .into_iter()
        .filter(|known| known.starts_with(&value))
        .collect();
    let result = json!({"completion": {"total": values.len(), "hasMore": false, "values": values}});
    reply(peer, request, &result);
}
