//! The two eras of the protocol, in both directions: hosts of 2026-07-28 at our doors, servers of it behind
//! us, and what happens when a host and a server are not of the same.

mod crossing;
mod doors;
mod hostile;
mod lossless;
mod servers;
mod tasks;
mod traffic;

use callgate_testkit::{EventStream, Host, HttpHost, StatelessHost};
use serde_json::{Value, json};

use crate::setup::Served;
use crate::talk::parsed;

/// One server of the conformance suite whose every request passes.
fn config(speaks: &str) -> String {
    format!(
        "\
servers: {{c: {{command: '@conformance@', args: [--era, {speaks}, --log, '@dir@/upstream.log']}}}}
naming: {{prefix: never}}
policy: allow-all
"
    )
}

/// A request of 2026-07-28 whose host can be asked everything.
pub(crate) fn stateless(method: &str, params: Value) -> String {
    let all = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    stateless_as(method, params, &all)
}

/// The same of a host with these capabilities.
pub(crate) fn stateless_as(method: &str, mut params: Value, capabilities: &Value) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
    });
    for (key, value) in meta.as_object().into_iter().flatten() {
        params["_meta"][key] = value.clone();
    }
    json!({"jsonrpc": "2.0", "id": "m", "method": method, "params": params}).to_string()
}

/// A host with the headers that such a request has.
fn headed(served: &Served, line: &str) -> HttpHost {
    let host = StatelessHost::new(served.host());
    host.headed(line).expect("a request")
}

/// Makes a request over HTTP; gives the status and the last message of the response.
pub(crate) fn post(served: &Served, line: &str) -> (u16, Value) {
    answered(&headed(served, line), line)
}

/// The same with another token.
pub(crate) fn post_with(served: &Served, token: &str, line: &str) -> (u16, Value) {
    let bearer = format!("Bearer {token}");
    answered(&headed(served, line).header("Authorization", &bearer), line)
}

/// Opens a stream of `subscriptions/listen` with another token.
pub(crate) fn listening(served: &Served, token: &str, line: &str) -> EventStream {
    let bearer = format!("Bearer {token}");
    let host = headed(served, line).header("Authorization", &bearer);
    host.post(line).expect("HTTP").events()
}

fn answered(host: &HttpHost, line: &str) -> (u16, Value) {
    let reply = host.post(line).expect("HTTP");
    let status = reply.status;
    let frames = reply.frames().expect("a whole response");
    (status, parsed(frames.last().expect("a message")))
}

/// Makes a request on a host's stream.
fn exchange(host: &mut dyn Host, line: &str) -> Value {
    let frames = host.exchange(line, &mut |question| {
        panic!("a host of this era is sent no request: {}", question.raw)
    });
    let frames = frames.expect("it is answered");
    parsed(frames.last().expect("an exchange ends with its response"))
}
