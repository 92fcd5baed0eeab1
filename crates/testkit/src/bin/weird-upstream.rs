//! An MCP server whose every reply is odd and legal. The replies are literals in the test kit's
//! `weird::replies`; this only chooses among them. With `--log` it writes each frame of both
//! directions, raw, so that a test can see what reached it.

use callgate_testkit::frame::{self, Frame};
use callgate_testkit::serve::{Fixture, Incoming, Peer, Way, serve, version_for};
use callgate_testkit::weird::replies;
use clap::Parser;

/// A weird but legal MCP server.
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    way: Way,
    /// Speaks 2026-07-28 and nothing else.
    #[arg(long)]
    no_handshake: bool,
}

struct Weird {
    stateless: bool,
}

fn main() -> std::io::Result<()> {
    let Options { way, no_handshake } = Options::parse();
    let stateless = no_handshake;
    serve(Weird { stateless }, way)
}

impl Fixture for Weird {
    fn is_stateless(&self) -> bool {
        self.stateless
    }

    fn request(&self, peer: &Peer, incoming: &Incoming) {
        let request = &incoming.frame;
        let question = question_of(request);
        let method = request.method.as_deref().unwrap_or_default();
        match method {
            "server/discover" if self.stateless => {
                let rest = replies::DISCOVER;
                peer.reply(request, rest);
            }
            "initialize" if !self.stateless => {
                let version = version_for(request);
                let rest = replies::INITIALIZE_REST;
                peer.reply(
                    request,
                    &format!(r#"{{"protocolVersion":{version},{rest}}}"#),
                );
            }
            "tools/list" if self.stateless => peer.reply(request, &cacheable(&tools())),
            "tools/list" => peer.reply(request, &tools()),
            "tools/call" => match question {
                Some((_, _, line)) if self.stateless => ask_in_answers(peer, request, line),
                Some((_, id, line)) => ask(peer, request, id, line),
                None => call(peer, request),
            },
            _ => match literal(replies::METHODS, method) {
                Some(line) => send(peer, request, line),
                None => peer.fail(
                    request,
                    r#"{"code":-32601,"message":"no such method","data":{"x":1.0}}"#,
                ),
            },
        }
    }
}

/// The tools and what stands beside them.
fn tools() -> String {
    let tools: Vec<&str> = replies::TOOLS
        .iter()
        .map(|(_, descriptor)| *descriptor)
        .collect();
    format!(
        r#"{{"tools":[{}],{}}}"#,
        tools.join(" ,"),
        replies::TOOLS_REST
    )
}

/// The name of the tool that a request calls.
fn called(request: &Frame) -> String {
    let name = request.param("name");
    let name = name.and_then(|raw| serde_json::from_str(raw).ok());
    name.unwrap_or_default()
}

/// What the tool that is called asks: its name, the raw id and the whole line.
fn question_of(request: &Frame) -> Option<&'static (&'static str, &'static str, &'static str)> {
    let name = called(request);
    let mut questions = replies::QUESTIONS.iter();
    questions.find(|(tool, _, _)| *tool == name)
}

fn call(peer: &Peer, request: &Frame) {
    match called(request).as_str() {
        "echo_raw" => peer.reply_text(request, request.params.as_deref().unwrap_or_default()),
        "deep" => send(peer, request, &replies::deep()),
        "big" => send(peer, request, &replies::big()),
        "progress" => {
            if let Some(token) = request.progress_token() {
                for line in replies::PROGRESS {
                    peer.send(&line.replace("@TOKEN@", token));
                }
            }
            peer.reply_text(request, "progressed");
        }
        "log" => announce(peer, request, replies::LOGS),
        "custom_notifications" => announce(peer, request, replies::CUSTOM),
        name => match literal(replies::CALLS, name) {
            Some(line) => send(peer, request, line),
            None => {
                let name = frame::quoted(name);
                peer.fail(
                    request,
                    &format!(r#"{{"code":-32602,"message":"unknown tool","data":{name}}}"#),
                );
            }
        },
    }
}

fn announce(peer: &Peer, request: &Frame, lines: &[&str]) {
    for line in lines {
        peer.send(line);
    }
    peer.reply_text(request, "announced");
}

/// Asks, and answers the call with the raw answer, so that what the host said is visible to it.
fn ask(peer: &Peer, request: &Frame, id: &str, line: &str) {
    match peer.ask_as(id, line) {
        Some(answer) => {
            let said = answer.result.or(answer.error).unwrap_or_default();
            peer.reply_text(request, &said);
        }
        None => peer.reply_failure(request, "no answer"),
    }
}

/// The same in the way of 2026-07-28: the question is the answer, and the next request brings what the host said,
/// together with the state as it was given.
fn ask_in_answers(peer: &Peer, request: &Frame, line: &str) {
    let (key, state) = (replies::QUESTION_KEY, replies::REQUEST_STATE);
    let responses = request.param("inputResponses");
    match responses.and_then(|responses| frame::member(responses, key)) {
        Some(said) if request.param("requestState") == Some(state) => {
            peer.reply_text(request, said);
        }
        Some(_) => peer.reply_failure(request, "the state is not as it was given"),
        None => {
            let [method, params] =
                ["method", "params"].map(|name| frame::member(line, name).unwrap_or_default());
            let asked = format!(r#"{{"{key}":{{"method":{method},"params":{params}}}}}"#);
            peer.reply(
                request,
                &format!(r#"{{"resultType":"input_required","inputRequests":{asked},"requestState":{state}}}"#),
            );
        }
    }
}

fn send(peer: &Peer, request: &Frame, line: &str) {
    let id = request.id.as_deref().unwrap_or("null");
    peer.send(&line.replacen(replies::ID, id, 1));
}

fn literal(table: &'static [(&str, &str)], name: &str) -> Option<&'static str> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, line)| *line)
}

/// A list's result in the form of 2026-07-28.
fn cacheable(result: &str) -> String {
    result.replacen(
        '{',
        r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","#,
        1,
    )
}
