//! An MCP server whose tools have effects that can be counted, and which misbehaves on request.
//!
//! Every effect is one line in the file given by `--ledger`, appended with a single write, so that a
//! test can count what really happened, whatever was answered about it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use callgate_testkit::frame::{Frame, quoted};
use callgate_testkit::serve::{Fixture, Incoming, Peer, Way, serve, version_for};
use clap::Parser;

/// A line that is longer than any frame a gateway takes by default.
const OVERSIZE_BYTES: usize = 5 << 20;

/// An MCP server with countable effects.
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    way: Way,
    /// The file that gets one line per effect.
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// How long `effect` waits between its effect and its answer.
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// How many pages `tools/list` is cut into.
    #[arg(long, default_value_t = 1)]
    pages: usize,
    /// Every page names a next one, without end.
    #[arg(long)]
    loop_cursor: bool,
    /// How long `initialize` takes.
    #[arg(long, default_value_t = 0)]
    slow_start_ms: u64,
    /// `initialize` is answered once this file exists.
    #[arg(long)]
    start_when: Option<PathBuf>,
    /// Exits at once with status 3.
    #[arg(long)]
    crash_on_start: bool,
    /// Stays when stdin ends.
    #[arg(long)]
    ignore_eof: bool,
    /// Stays when asked to end with SIGTERM.
    #[arg(long)]
    ignore_term: bool,
    /// How many plain tools there are beside the named ones.
    #[arg(long, default_value_t = 0)]
    tools: usize,
    /// A file with a JSON array of descriptors, listed in place of the named tools and read again for each
    /// list. Each of them appends its name and key; `announce` says that the list changed.
    #[arg(long)]
    catalog: Option<PathBuf>,
    /// Prints lines that are not frames, one of them oversize, between its frames.
    #[arg(long)]
    garbage: bool,
    /// The description of `wipe`, in place of its usual one.
    #[arg(long)]
    described: Option<String>,
    /// Speaks 2026-07-28 and nothing else.
    #[arg(long)]
    no_handshake: bool,
    /// Text by which this process and its grandchildren are found again.
    #[arg(long, default_value = "unmarked")]
    marker: String,
}

struct Counter {
    options: Options,
    added_tools: AtomicUsize,
    oversize_sent: AtomicBool,
}

/// The named tools: name, description, properties of the arguments, annotations.
const TOOLS: &[(&str, &str, &str, &str)] = &[
    (
        "effect",
        "appends the key to the ledger",
        r#"{"key":{"type":"string"}}"#,
        r#"{"readOnlyHint":false,"destructiveHint":false}"#,
    ),
    (
        "slow",
        "appends the key, then takes its time",
        r#"{"key":{"type":"string"},"ms":{"type":"integer"}}"#,
        r#"{"readOnlyHint":false,"destructiveHint":false}"#,
    ),
    (
        "die",
        "appends the key, then exits",
        r#"{"key":{"type":"string"}}"#,
        r#"{"readOnlyHint":false,"destructiveHint":false}"#,
    ),
    (
        "grandchild",
        "leaves processes behind",
        "{}",
        r#"{"readOnlyHint":false,"destructiveHint":false}"#,
    ),
    (
        "fail",
        "answers that it failed",
        "{}",
        r#"{"readOnlyHint":true}"#,
    ),
    (
        "big",
        "answers with that much text",
        r#"{"bytes":{"type":"integer"}}"#,
        r#"{"readOnlyHint":true}"#,
    ),
    (
        "ask",
        "asks the person at the host",
        "{}",
        r#"{"readOnlyHint":true}"#,
    ),
    (
        "progress",
        "reports progress n times",
        r#"{"n":{"type":"integer"}}"#,
        r#"{"readOnlyHint":true}"#,
    ),
    (
        "list_change",
        "adds a tool and says so",
        "{}",
        r#"{"readOnlyHint":false,"destructiveHint":false}"#,
    ),
    (
        "env",
        "answers with its environment",
        "{}",
        r#"{"readOnlyHint":true}"#,
    ),
    (
        "read_thing",
        "reads",
        r#"{"key":{"type":"string"}}"#,
        r#"{"readOnlyHint":true}"#,
    ),
    (
        "delete_thing",
        "deletes, and declares nothing",
        r#"{"key":{"type":"string"}}"#,
        "",
    ),
    (
        "wipe",
        "declares that it destroys",
        r#"{"key":{"type":"string"}}"#,
        r#"{"destructiveHint":true}"#,
    ),
];

fn main() -> std::io::Result<()> {
    let options = Options::parse();
    if options.crash_on_start {
        eprintln!("crashing on start, as asked");
        std::process::exit(3);
    }
    if options.ignore_term {
        let term = signal_hook::consts::SIGTERM;
        signal_hook::flag::register(term, Arc::new(AtomicBool::new(false)))?;
    }
    let way = options.way.clone();
    let counter = Counter {
        options,
        added_tools: AtomicUsize::new(0),
        oversize_sent: AtomicBool::new(false),
    };
    serve(counter, way)
}

impl Fixture for Counter {
    fn is_stateless(&self) -> bool {
        self.options.no_handshake
    }

    fn request(&self, peer: &Peer, incoming: &Incoming) {
        let request = &incoming.frame;
        if self.options.garbage {
            self.send_garbage(peer);
        }
        match request.method.as_deref().unwrap_or_default() {
            "server/discover" if self.options.no_handshake => peer.reply(
                request,
                r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#,
            ),
            "initialize" if !self.options.no_handshake => {
                thread::sleep(Duration::from_millis(self.options.slow_start_ms));
                while self.options.start_when.as_ref().is_some_and(|file| !file.exists()) {
                    thread::sleep(Duration::from_millis(10));
                }
                let version = version_for(request);
                peer.reply(
                    request,
                    &format!(r#"{{"protocolVersion":{version},"capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"counter","version":"1"}}}}"#),
                );
            }
            "ping" => peer.reply(request, "{}"),
            "tools/list" => self.list(peer, request),
            "tools/call" => self.call(peer, incoming),
            _ => peer.fail(request, r#"{"code":-32601,"message":"no such method"}"#),
        }
    }

    fn end_of_input(&self) {
        if self.options.ignore_eof {
            loop {
                thread::park();
            }
        }
    }
}

impl Counter {
    fn list(&self, peer: &Peer, request: &Frame) {
        let tools = self.descriptors();
        let pages = self.options.pages.max(1);
        let size = tools.len().div_ceil(pages).max(1);
        let cursor: Option<String> = request
            .param("cursor")
            .and_then(|raw| serde_json::from_str(raw).ok());
        let page = cursor
            .and_then(|cursor| cursor.strip_prefix("page-")?.parse::<usize>().ok())
            .unwrap_or(0);
        let page_tools: Vec<String> = tools.into_iter().skip(page * size).take(size).collect();
        let next = if self.options.loop_cursor {
            r#","nextCursor":"page-0""#.to_owned()
        } else if page + 1 < pages {
            format!(r#","nextCursor":"page-{}""#, page + 1)
        } else {
            String::new()
        };
        peer.reply(
            request,
            &format!(r#"{{"tools":[{}]{next}}}"#, page_tools.join(",")),
        );
    }

    fn descriptors(&self) -> Vec<String> {
        if let Some(catalog) = &self.options.catalog {
            let text = std::fs::read_to_string(catalog).unwrap_or_default();
            let all: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
            return all.iter().map(ToString::to_string).collect();
        }
        let named = TOOLS.iter().map(|(name, description, properties, annotations)| {
            let annotations = match *annotations {
                "" => String::new(),
                annotations => format!(r#","annotations":{annotations}"#),
            };
            let described = self.options.described.as_deref();
            let description = described
                .filter(|_| *name == "wipe")
                .unwrap_or(description);
            format!(r#"{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object","properties":{properties}}}{annotations}}}"#)
        });
        let plain = |kind: &'static str, count: usize| {
            (0..count).map(move |index| {
                format!(r#"{{"name":"{kind}_{index}","description":"plain tool {index}","inputSchema":{{"type":"object"}},"annotations":{{"readOnlyHint":true}}}}"#)
            })
        };
        let added = self.added_tools.load(Ordering::SeqCst);
        named
            .chain(plain("tool", self.options.tools))
            .chain(plain("added", added))
            .collect()
    }

    fn call(&self, peer: &Peer, incoming: &Incoming) {
        let request = &incoming.frame;
        let name: Option<String> = request
            .param("name")
            .and_then(|raw| serde_json::from_str(raw).ok());
        let key = request.argument("key").unwrap_or_default();
        match name.as_deref().unwrap_or_default() {
            "announce" => {
                peer.announce("notifications/tools/list_changed", "{}");
                peer.reply_text(request, "announced");
            }
            called if self.options.catalog.is_some() => {
                self.append(&format!("{called}:{key}"));
                peer.reply_text(request, &format!("{called} {key}"));
            }
            "effect" => self.effect(peer, request, &key),
            "slow" => self.slow(peer, incoming, &key),
            "die" => {
                self.append(&key);
                std::process::exit(1);
            }
            "grandchild" => self.grandchild(peer, request),
            "fail" => peer.reply_failure(request, "failed, as asked"),
            "big" => big(peer, request),
            "ask" => ask(peer, request),
            "progress" => progress(peer, request),
            "list_change" => self.list_change(peer, request),
            "env" => env(peer, request),
            "read_thing" => peer.reply_text(request, &format!("read {key}")),
            changed @ ("delete_thing" | "wipe") => {
                self.append(&format!("{changed}:{key}"));
                peer.reply_text(request, &format!("{changed} {key}"));
            }
            plain if plain.starts_with("tool_") || plain.starts_with("added_") => {
                peer.reply_text(request, plain);
            }
            unknown => refuse_unknown(peer, request, unknown),
        }
    }

    fn effect(&self, peer: &Peer, request: &Frame, key: &str) {
        self.append(key);
        thread::sleep(Duration::from_millis(self.options.delay_ms));
        peer.reply_text(request, &format!("did {key}"));
    }

    fn grandchild(&self, peer: &Peer, request: &Frame) {
        match self.leave_processes() {
            Ok(count) => peer.reply_text(request, &format!("left {count}")),
            Err(error) => peer.reply_failure(request, &error.to_string()),
        }
    }

    fn list_change(&self, peer: &Peer, request: &Frame) {
        self.added_tools.fetch_add(1, Ordering::SeqCst);
        peer.announce("notifications/tools/list_changed", "{}");
        peer.reply_text(request, "changed");
    }

    fn slow(&self, peer: &Peer, incoming: &Incoming, key: &str) {
        self.append(key);
        let time = Duration::from_millis(incoming.frame.number("ms").unwrap_or(0));
        if incoming.cancelled.recv_timeout(time).is_ok() {
            // A cancelled request is not answered.
            self.append(&format!("cancelled:{key}"));
        } else {
            self.append(&format!("finished:{key}"));
            peer.reply_text(&incoming.frame, &format!("slowly did {key}"));
        }
    }

    /// One write of one line with `O_APPEND`: concurrent effects never mix, and none is written twice.
    fn append(&self, key: &str) {
        if let Some(path) = &self.options.ledger {
            let line = format!("{key}\n");
            let file = OpenOptions::new().create(true).append(true).open(path);
            if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
                eprintln!("cannot write the ledger: {error}");
                std::process::exit(4);
            }
        }
    }

    /// Leaves a child, a child in its own session, and an orphan in its own session.
    fn leave_processes(&self) -> std::io::Result<usize> {
        let commands: [&[&str]; 3] = [
            &["sleep", "600"],
            &["setsid", "sleep", "600"],
            &["sh", "-c", "setsid sleep 600 & exit 0"],
        ];
        for command in commands {
            Command::new(command[0])
                .args(&command[1..])
                .env("TESTKIT_MARKER", &self.options.marker)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
        }
        Ok(commands.len())
    }

    fn send_garbage(&self, peer: &Peer) {
        peer.send("this is not JSON");
        peer.send(r#"{"jsonrpc":"2.0","id":1,"#);
        peer.send_bytes(&[0xff, 0xfe, 0x00, 0x80, b'x']);
        peer.send("");
        if !self.oversize_sent.swap(true, Ordering::SeqCst) {
            let text = "o".repeat(OVERSIZE_BYTES);
            peer.send(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"t":"{text}"}}}}"#
            ));
        }
    }
}

fn big(peer: &Peer, request: &Frame) {
    let bytes = usize::try_from(request.number("bytes").unwrap_or(0)).unwrap_or(0);
    peer.reply_text(request, &"b".repeat(bytes));
}

fn env(peer: &Peer, request: &Frame) {
    let pair = |(name, value): (String, String)| (name, serde_json::Value::from(value));
    let env: serde_json::Map<_, _> = std::env::vars().map(pair).collect();
    peer.reply_text(request, &serde_json::Value::Object(env).to_string());
}

fn refuse_unknown(peer: &Peer, request: &Frame, name: &str) {
    let message = quoted(&format!("unknown tool `{name}`"));
    peer.fail(
        request,
        &format!(r#"{{"code":-32602,"message":{message}}}"#),
    );
}

fn ask(peer: &Peer, request: &Frame) {
    let params = r#"{"message":"go on?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}"#;
    match peer.ask("elicitation/create", params) {
        Some(answer) => {
            thread::sleep(Duration::from_millis(request.number("ms").unwrap_or(0)));
            peer.reply_text(request, &answer.result.or(answer.error).unwrap_or_default())
        }
        None => peer.reply_failure(request, "no answer"),
    }
}

fn progress(peer: &Peer, request: &Frame) {
    let total = request.number("n").unwrap_or(3);
    if let Some(token) = request.progress_token() {
        for step in 1..=total {
            peer.notify(
                "notifications/progress",
                &format!(r#"{{"progressToken":{token},"progress":{step},"total":{total}}}"#),
            );
        }
    }
    peer.reply_text(request, &format!("progressed {total}"));
}
