//! The client that the MCP conformance suite drives: a host in front of `callgate stdio`, whose only server
//! is the suite's. It lists everything, calls every tool and answers every question, so that what the suite
//! sees is how Callgate speaks to servers.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use callgate_testkit::{DataDir, Frame, Host, StdioHost, callgate, initialize_line};
use clap::Parser;
use serde_json::{Map, Value, json};

/// The version in which each request stands for itself.
const STATELESS: &str = "2026-07-28";
/// A server that asks for more rounds than this is considered broken.
const MAX_ROUNDS: usize = 8;
/// How long the gateway may take to end with its host.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client of the conformance suite.
#[derive(Parser)]
struct Arguments {
    /// The suite's server.
    url: String,
    /// The version that the suite wants.
    #[arg(
        long,
        env = "MCP_CONFORMANCE_PROTOCOL_VERSION",
        default_value = "2025-11-25"
    )]
    version: String,
    /// What the scenario tells its client.
    #[arg(long, env = "MCP_CONFORMANCE_CONTEXT", default_value = "{}")]
    context: String,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let data = DataDir::new();
    // JSON is YAML, and needs no care about quoting.
    let config = json!({
        "servers": {"suite": {"url": arguments.url}},
        "naming": {"prefix": "never"},
        "policy": "allow-all",
    });
    let config = data.file("callgate.yaml", &config.to_string());
    let mut command = Command::new(callgate());
    command
        .arg("stdio")
        .arg("--config")
        .arg(config)
        .arg("--data-dir")
        .arg(data.path().join("data"));
    let mut client = Client {
        host: StdioHost::spawn(&mut command)?,
        is_stateless: arguments.version == STATELESS,
        asked: 0,
    };
    if !client.is_stateless {
        client
            .host
            .exchange(&initialize_line(&arguments.version), &mut answer)?;
        client.host.notify(callgate_testkit::INITIALIZED)?;
    }
    let done = client.use_everything(&arguments.context);
    for line in client.host.stderr() {
        eprintln!("{line}");
    }
    client.host.close(PATIENCE)?;
    done
}

struct Client {
    host: StdioHost,
    is_stateless: bool,
    asked: u64,
}

impl Client {
    fn use_everything(&mut self, context: &str) -> Result<()> {
        let tools = self.request("tools/list", json!({}))?["tools"].take();
        let context: Value = serde_json::from_str(context).context("the scenario's context")?;
        let calls = match context["toolCalls"].as_array() {
            Some(calls) => calls.clone(),
            None => elements(&tools).iter().map(call_of).collect(),
        };
        for mut call in calls {
            show_schema(&mut call, &tools);
            let called = self.request("tools/call", call)?;
            eprintln!("called: {called}");
        }
        // A server that has no prompts or resources says so, and that is all.
        if let Ok(mut listed) = self.request("prompts/list", json!({})) {
            for prompt in elements(&listed["prompts"].take()) {
                self.request("prompts/get", json!({"name": prompt["name"]}))?;
            }
        }
        if let Ok(mut listed) = self.request("resources/list", json!({})) {
            for resource in elements(&listed["resources"].take()) {
                self.request("resources/read", json!({"uri": resource["uri"]}))?;
            }
        }
        Ok(())
    }

    /// Makes a request, in as many rounds as it takes, and gives its result.
    fn request(&mut self, method: &str, mut params: Value) -> Result<Value> {
        for _ in 0..MAX_ROUNDS {
            let mut result = self.round(method, &params)?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            let questions = result["inputRequests"].take();
            let questions = questions.as_object().into_iter().flatten();
            let answers: Map<String, Value> = questions
                .map(|(key, question)| {
                    let method = question["method"].as_str().unwrap_or_default();
                    (key.clone(), reply(method, &question["params"]))
                })
                .collect();
            params["inputResponses"] = Value::Object(answers);
            let state = result["requestState"].take();
            match (state, params.as_object_mut()) {
                (Value::Null, Some(params)) => drop(params.remove("requestState")),
                (state, _) => params["requestState"] = state,
            }
        }
        bail!("`{method}` still asks after {MAX_ROUNDS} rounds")
    }

    fn round(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.asked += 1;
        let mut params = params.clone();
        if self.is_stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientCapabilities":
                    {"elicitation": {}, "sampling": {}, "roots": {}},
                "io.modelcontextprotocol/clientInfo": {"name": "testkit", "version": "1"},
            });
        }
        let line = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        let frames = self.host.exchange(&line.to_string(), &mut answer)?;
        let last = frames
            .last()
            .context("an exchange ends with its response")?;
        let mut last: Value = serde_json::from_str(last)?;
        match last.get("result") {
            Some(_) => Ok(last["result"].take()),
            None => bail!("`{method}` was refused: {}", last["error"]),
        }
    }
}

/// The answer to a request of the server, as a line.
fn answer(question: &Frame) -> Option<String> {
    let request: Value = serde_json::from_str(&question.raw).ok()?;
    let result = reply(question.method.as_deref()?, &request["params"]);
    let id = question.id.as_deref()?;
    Some(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
    ))
}

fn reply(method: &str, params: &Value) -> Value {
    match method {
        "elicitation/create" => {
            let properties = params["requestedSchema"]["properties"].as_object();
            let content: Map<String, Value> = properties
                .into_iter()
                .flatten()
                .map(|(key, schema)| (key.clone(), value_of(schema)))
                .collect();
            json!({"action": "accept", "content": content})
        }
        "sampling/createMessage" => {
            json!({"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "testkit"})
        }
        "roots/list" => json!({"roots": []}),
        _ => json!({}),
    }
}

/// A call of a tool, with what its schema requires.
fn call_of(tool: &Value) -> Value {
    let schema = &tool["inputSchema"];
    let required = elements(&schema["required"]);
    let arguments: Map<String, Value> = required
        .iter()
        .filter_map(Value::as_str)
        .map(|key| (key.to_owned(), value_of(&schema["properties"][key])))
        .collect();
    json!({"name": tool["name"], "arguments": arguments})
}

/// One tool of the suite wants to see what became of the schema of another.
fn show_schema(call: &mut Value, tools: &Value) {
    if call["name"] == "json_schema_echo" {
        let all = elements(tools);
        let tool = all
            .iter()
            .find(|tool| tool["name"] == "json_schema_2020_12_tool");
        call["arguments"]["schema"] = tool.map_or(Value::Null, |tool| tool["inputSchema"].clone());
    }
}

/// The default of a schema, or something that fits it.
fn value_of(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(7),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        Some("null") => Value::Null,
        Some(_) | None => json!("text"),
    }
}

fn elements(list: &Value) -> Vec<Value> {
    list.as_array().cloned().unwrap_or_default()
}
