//! An MCP server whose tools and answers stand in a file: an array of `{"tool": …, "result": …, "delay_ms": …}`.
//! `"$arguments"` as a result gives the arguments back. `"asks": {"method": …, "params": …}` asks the host first, and the
//! answer is the result; `"error"` answers with an error, and `"raw": …`
//! with that text, in which `$id` stands for the request's id. Every call is a line in the ledger.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use callgate_testkit::frame::Frame;
use callgate_testkit::serve::{Fixture, Incoming, Peer, Way, serve, version_for};
use clap::Parser;
use serde_json::{Value, json};

/// An MCP server with canned answers.
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    way: Way,
    /// The tools and their answers.
    #[arg(long)]
    answers: PathBuf,
    /// The file that gets one line per call: the tool and its arguments.
    #[arg(long)]
    ledger: Option<PathBuf>,
}

struct Canned {
    answers: Vec<Value>,
    ledger: Option<PathBuf>,
}

fn main() -> std::io::Result<()> {
    let options = Options::parse();
    let text = std::fs::read_to_string(&options.answers)?;
    let canned = Canned {
        answers: serde_json::from_str(&text)?,
        ledger: options.ledger,
    };
    serve(canned, options.way)
}

impl Fixture for Canned {
    fn request(&self, peer: &Peer, incoming: &Incoming) {
        let request = &incoming.frame;
        let result = match request.method.as_deref().unwrap_or_default() {
            "initialize" => {
                let version: Value =
                    serde_json::from_str(&version_for(request)).unwrap_or_default();
                json!({
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "canned-upstream", "version": "1"},
                })
            }
            "ping" => json!({}),
            "tools/list" => {
                let tools = self.answers.iter().map(|answer| &answer["tool"]);
                json!({"tools": tools.collect::<Vec<_>>()})
            }
            "tools/call" => match self.call(peer, request) {
                Some(Ok(Value::Null)) => return,
                Some(Ok(result)) => result,
                Some(Err(error)) => return peer.fail(request, &error.to_string()),
                None => return peer.fail(request, r#"{"code":-32602,"message":"no such tool"}"#),
            },
            _ => return peer.fail(request, r#"{"code":-32601,"message":"method not found"}"#),
        };
        peer.reply(request, &result.to_string());
    }
}

impl Canned {
    fn call(&self, peer: &Peer, request: &Frame) -> Option<Result<Value, Value>> {
        let name: String = serde_json::from_str(request.param("name")?).ok()?;
        let arguments = request.param("arguments").unwrap_or("{}");
        if let Some(ledger) = &self.ledger {
            let file = OpenOptions::new().create(true).append(true).open(ledger);
            let line = format!("{name} {arguments}\n");
            // A test that counts finds out that the line is missing.
            let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
        }
        let answer = self
            .answers
            .iter()
            .find(|answer| answer["tool"]["name"] == name)?;
        thread::sleep(Duration::from_millis(
            answer["delay_ms"].as_u64().unwrap_or(0),
        ));
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        if let Some(error) = answer.get("error") {
            return Some(Err(error.clone()));
        }
        if let Some(raw) = answer["raw"].as_str() {
            let id = request.id.as_deref().unwrap_or("null");
            peer.send(&raw.replace("$id", id));
            return Some(Ok(Value::Null));
        }
        if let Some(asks) = answer.get("asks") {
            let method = asks["method"].as_str().unwrap_or_default();
            let given = peer.ask(method, &asks["params"].to_string())?;
            return Some(Ok(text(&given.result.or(given.error).unwrap_or_default())));
        }
        let result = &answer["result"];
        Some(Ok(match result.as_str() {
            Some("$arguments") => text(arguments),
            _ => result.clone(),
        }))
    }
}
