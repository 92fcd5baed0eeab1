//! The requests of hosts in these tests, and how they read answers.

use std::time::Duration;

use callgate_testkit::{Frame, Host, HttpHost, INITIALIZED, StdioHost};
use serde_json::Value;

use crate::setup::{Bed, Served, VERSION};

/// Far longer than anything takes, so that only a real fault reaches it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// An `initialize` line with these raw capabilities; `None` leaves them out.
pub(crate) fn introduction(capabilities: Option<&str>) -> String {
    let capabilities = capabilities
        .map(|raw| format!(r#""capabilities":{raw},"#))
        .unwrap_or_default();
    format!(
        r#"{{"jsonrpc":"2.0","id":"init","method":"initialize","params":{{"protocolVersion":"{VERSION}",{capabilities}"clientInfo":{{"name":"odd host","version":"0.0.1","x":1.0}}}}}}"#
    )
}

/// A stdio host that introduced itself with these capabilities.
pub(crate) fn stdio_as(bed: &Bed, capabilities: Option<&str>) -> StdioHost {
    let mut host = bed.stdio();
    host.request(&introduction(capabilities))
        .expect("the gateway answers");
    host.send(INITIALIZED).expect("it reads");
    host
}

/// An HTTP host that introduced itself with these capabilities.
pub(crate) fn http_as(served: &Served, capabilities: &str) -> HttpHost {
    introduced(served.host(), capabilities)
}

/// The same of a host that has a token already.
pub(crate) fn introduced(mut host: HttpHost, capabilities: &str) -> HttpHost {
    let reply = host.post(&introduction(Some(capabilities)));
    let reply = reply.expect("the gateway answers");
    let session = reply.header("mcp-session-id").expect("a session is opened");
    let session = session.to_owned();
    host.set_header("Mcp-Session-Id", &session);
    host.set_header("MCP-Protocol-Version", VERSION);
    host.notify(INITIALIZED).expect("it is accepted");
    host
}

/// The line of a call; `id` and `arguments` are raw JSON.
pub(crate) fn call_line(id: &str, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

/// The answer of a host that is asked something: this raw result, under the question's id.
pub(crate) fn answer_line(question: &Frame, result: &str) -> String {
    let id = question.id.as_deref().expect("a question has an id");
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Makes a request and gives its response; questions stay open.
pub(crate) fn request(host: &mut dyn Host, line: &str) -> Value {
    let frames = host.exchange(line, &mut |_| None).expect("it is answered");
    parsed(frames.last().expect("an exchange ends with its response"))
}

/// Calls a tool and gives its whole response.
pub(crate) fn call(host: &mut dyn Host, tool: &str, arguments: &str) -> Value {
    request(host, &call_line(r#""call""#, tool, arguments))
}

/// Calls a tool and gives the text of its result.
pub(crate) fn call_text(host: &mut dyn Host, tool: &str, arguments: &str) -> String {
    text_of(&call(host, tool, arguments))
}

/// The text of the first block of a tool's result.
pub(crate) fn text_of(response: &Value) -> String {
    let text = response["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {response}"))
        .to_owned()
}

/// The names in `tools/list`, which has one page.
pub(crate) fn tools(host: &mut dyn Host) -> Vec<String> {
    let response = list(host, "");
    assert_eq!(response["result"].get("nextCursor"), None, "one page");
    names(&response)
}

/// The response to `tools/list` with these raw params.
pub(crate) fn list(host: &mut dyn Host, params: &str) -> Value {
    let params = match params {
        "" => String::new(),
        raw => format!(r#","params":{raw}"#),
    };
    request(
        host,
        &format!(r#"{{"jsonrpc":"2.0","id":"list","method":"tools/list"{params}}}"#),
    )
}

/// The names in the response to a `tools/list`.
pub(crate) fn names(response: &Value) -> Vec<String> {
    let tools = response["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("no tools: {response}"));
    let name = |tool: &Value| tool["name"].as_str().map(str::to_owned);
    tools
        .iter()
        .map(|tool| name(tool).expect("a tool has a name"))
        .collect()
}

/// A line as a JSON value.
pub(crate) fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Whether a frame is a notification of this method.
pub(crate) fn is_notification(frame: &Frame, method: &str) -> bool {
    frame.id.is_none() && frame.method.as_deref() == Some(method)
}

/// The frames in a fixture's log that came from the gateway and have this method, without their ends.
pub(crate) fn received(bed: &Bed, log: &str, method: &str) -> Vec<Frame> {
    bed.read(log)
        .lines()
        .filter_map(|line| Frame::parse(line.strip_prefix("< ")?))
        .filter(|frame| frame.method.as_deref() == Some(method))
        .collect()
}
