//! A server of 2026-07-28 that breaks its rules: each tool is one way of doing so. `honest` behaves, so that a test sees
//! whether the others did harm.

use callgate_testkit::frame::Frame;
use callgate_testkit::serve::{Fixture, Incoming, Peer, Way, serve};
use clap::Parser;

/// A server of 2026-07-28 that breaks its rules.
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    way: Way,
}

struct Hostile;

/// The results of tools that lie about what kind of result they have, by their names.
const RESULTS: &[(&str, &str)] = &[
    (
        "honest",
        r#"{"resultType":"complete","content":[{"type":"text","text":"honest"}]}"#,
    ),
    ("unknown_kind", r#"{"resultType":"surprise","content":[]}"#),
    ("kind_is_a_number", r#"{"resultType":7,"content":[]}"#),
    (
        "kind_is_missing",
        r#"{"content":[{"type":"text","text":"old style"}]}"#,
    ),
    (
        "unasked_task",
        r#"{"resultType":"task","taskId":"t","status":"working"}"#,
    ),
    ("no_questions", r#"{"resultType":"input_required"}"#),
    (
        "empty_questions",
        r#"{"resultType":"input_required","inputRequests":{}}"#,
    ),
    (
        "questions_in_a_list",
        r#"{"resultType":"input_required","inputRequests":[{"method":"roots/list"}]}"#,
    ),
    (
        "question_of_no_method",
        r#"{"resultType":"input_required","inputRequests":{"q":{"params":{}}}}"#,
    ),
    (
        "forbidden_question",
        r#"{"resultType":"input_required","inputRequests":{"q":{"method":"tools/call","params":{"name":"honest"}}}}"#,
    ),
    (
        "endless_questions",
        r#"{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"again?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s"}"#,
    ),
    (
        "endless_waiting",
        r#"{"resultType":"input_required","requestState":"s"}"#,
    ),
    (
        "state_is_an_object",
        r#"{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list"}},"requestState":{"a":1}}"#,
    ),
];

fn main() -> std::io::Result<()> {
    serve(Hostile, Options::parse().way)
}

impl Fixture for Hostile {
    fn is_stateless(&self) -> bool {
        true
    }

    fn request(&self, peer: &Peer, incoming: &Incoming) {
        let request = &incoming.frame;
        match request.method.as_deref().unwrap_or_default() {
            "server/discover" => peer.reply(
                request,
                r#"{"resultType":"complete","ttlMs":0,"cacheScope":"public","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hostile","version":"1"}}}"#,
            ),
            "tools/list" => peer.reply(request, &tools()),
            "tools/call" => call(peer, request),
            _ => peer.fail(request, r#"{"code":-32601,"message":"not here"}"#),
        }
    }
}

/// Tools that do more than lie in their results.
const ACTING: [&str; 5] = [
    "asks_a_request",
    "answers_twice",
    "answers_another",
    "claims_our_fault",
    "progress_of_others",
];

fn tools() -> String {
    let names = RESULTS.iter().map(|(name, _)| *name).chain(ACTING);
    let tools: Vec<String> = names
        .map(|name| {
            format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}},"annotations":{{"readOnlyHint":true}}}}"#)
        })
        .collect();
    format!(
        r#"{{"resultType":"complete","ttlMs":99999999999999999999,"cacheScope":"public","tools":[{}]}}"#,
        tools.join(",")
    )
}

fn call(peer: &Peer, request: &Frame) {
    let name: Option<String> = request
        .param("name")
        .and_then(|raw| serde_json::from_str(raw).ok());
    let name = name.unwrap_or_default();
    let done = RESULTS[0].1;
    match name.as_str() {
        "asks_a_request" => {
            // Servers may not ask in this era; the answer, if there is one, is not awaited.
            peer.send(r#"{"jsonrpc":"2.0","id":"forbidden","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#);
            peer.reply(request, done);
        }
        "answers_twice" => {
            peer.reply(request, done);
            peer.reply(request, r#"{"resultType":"complete","content":[{"type":"text","text":"second"}]}"#);
        }
        "answers_another" => {
            peer.send(r#"{"jsonrpc":"2.0","id":"nobody","result":{"resultType":"complete","content":[]}}"#);
            peer.send(r#"{"jsonrpc":"2.0","id":null,"result":{"resultType":"complete","content":[]}}"#);
            peer.reply(request, done);
        }
        "claims_our_fault" => peer.fail(
            request,
            r#"{"code":-32021,"message":"you did not declare it","data":{"requiredCapabilities":{"sampling":{}}}}"#,
        ),
        "progress_of_others" => {
            peer.notify(
                "notifications/progress",
                r#"{"progressToken":"somebody else's","progress":1}"#,
            );
            peer.reply(request, done);
        }
        name => match RESULTS.iter().find(|(known, _)| *known == name) {
            Some((_, result)) => peer.reply(request, result),
            None => peer.fail(request, r#"{"code":-32602,"message":"unknown tool"}"#),
        },
    }
}
