//! An MCP server that sends unrequested notifications. Each line that is added to the file given by `--cue` is one
//! of them: `say TEXT` is a log message, `ask METHOD` is a request to the host, and `tools`, `prompts` and `resources` add one to that list and say so.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use callgate_testkit::frame::Frame;
use callgate_testkit::serve::{Fixture, Incoming, Peer, Way, serve, version_for};
use clap::Parser;
use serde_json::{Value, json};

/// How long it takes at most until a new line is seen.
const LOOK: Duration = Duration::from_millis(20);

/// An MCP server that sends unrequested notifications.
#[derive(Debug, Clone, Parser)]
struct Options {
    #[command(flatten)]
    way: Way,
    /// What everything it says carries.
    #[arg(long)]
    tag: String,
    /// The file whose lines it follows.
    #[arg(long)]
    cue: PathBuf,
}

struct Herald {
    options: Options,
}

fn main() -> std::io::Result<()> {
    let options = Options::parse();
    let way = options.way.clone();
    serve(Herald { options }, way)
}

impl Fixture for Herald {
    fn request(&self, peer: &Peer, incoming: &Incoming) {
        let request = &incoming.frame;
        let tag = &self.options.tag;
        let result = match request.method.as_deref().unwrap_or_default() {
            "initialize" => {
                let version: Value =
                    serde_json::from_str(&version_for(request)).unwrap_or_default();
                let changing = json!({"listChanged": true});
                let capabilities = json!({"tools": changing, "prompts": changing, "resources": changing, "logging": {}});
                json!({
                    "protocolVersion": version,
                    "capabilities": capabilities,
                    "serverInfo": {"name": "herald-upstream", "version": "1"},
                })
            }
            "ping" | "logging/setLevel" => json!({}),
            "tools/list" => self.list(
                "tools",
                |at| json!({"name": format!("t{at}"), "inputSchema": {"type": "object"}}),
            ),
            "prompts/list" => self.list("prompts", |at| json!({"name": format!("p{at}")})),
            "resources/list" => self.list(
                "resources",
                |at| json!({"uri": format!("{tag}://{at}"), "name": format!("r{at}")}),
            ),
            "resources/templates/list" => json!({"resourceTemplates": []}),
            "tools/call" => return peer.reply_text(request, tag),
            _ => return peer.fail(request, r#"{"code":-32601,"message":"method not found"}"#),
        };
        peer.reply(request, &result.to_string());
    }

    fn notification(&self, peer: &Peer, frame: &Frame) {
        if frame.method.as_deref() == Some("notifications/initialized") {
            let (peer, options) = (peer.clone(), self.options.clone());
            let before = cues(&options.cue).len();
            thread::spawn(move || follow(&peer, &options, before));
        }
    }
}

impl Herald {
    /// A list with one thing, and one more for each line that added to it.
    fn list(&self, kind: &str, thing: impl Fn(usize) -> Value) -> Value {
        let cues = cues(&self.options.cue);
        let added = cues.iter().filter(|line| *line == kind).count();
        let things: Vec<Value> = (0..=added).map(thing).collect();
        json!({kind: things})
    }
}

/// Says what new lines ask for, as long as the process lives.
fn follow(peer: &Peer, options: &Options, before: usize) {
    let mut said = before;
    loop {
        for line in cues(&options.cue).iter().skip(said) {
            if let Some(method) = line.strip_prefix("ask ") {
                let peer = peer.clone();
                let line = format!(
                    r#"{{"jsonrpc":"2.0","id":"ask-{said}","method":"{method}","params":{{}}}}"#
                );
                let id = format!(r#""ask-{said}""#);
                thread::spawn(move || peer.ask_as(&id, &line));
                said += 1;
                continue;
            }
            match line.strip_prefix("say ") {
                Some(text) => {
                    let data = format!("{}: {text}", options.tag);
                    let params = json!({"level": "error", "data": data});
                    peer.announce("notifications/message", &params.to_string());
                }
                None => peer.announce(&format!("notifications/{line}/list_changed"), "{}"),
            }
            said += 1;
        }
        thread::sleep(LOOK);
    }
}

/// The lines that are whole.
fn cues(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole.map(|line| line.trim_end().to_owned()).collect()
}
