//! Calls that need approval, as hosts and approvers see them.

mod confirming;
mod deciding;
mod dying;
pub(crate) mod notifying;
pub(crate) mod page;
mod retrying;
mod rounds;
pub(crate) mod terminal;
mod tokens;
mod waiting;

use callgate_testkit::{HttpHost, HttpReply};
use serde_json::Value;

use crate::evidence::{all_records, run, stdout};
use crate::setup::{Bed, Served};
use crate::talk::{call, parsed, text_of};

/// One upstream that counts its effects, under the default policy.
pub(crate) const ASKING: &str = "\
servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger', --marker, '@dir@']}}
policy: default
";

/// The approval that an answer asks for.
pub(crate) fn approval_of(response: &Value) -> String {
    let meta = &response["result"]["_meta"];
    let id = meta["dev.callgate/approval_id"].as_str();
    id.unwrap_or_else(|| panic!("it asks for no approval: {response}"))
        .to_owned()
}

/// Calls `wipe`, which asks.
pub(crate) fn wipe(host: &mut dyn callgate_testkit::Host, key: &str) -> Value {
    call(host, "n__wipe", &format!(r#"{{"key":"{key}"}}"#))
}

/// Fails unless a call was done.
pub(crate) fn assert_wiped(response: &Value, key: &str) {
    assert_eq!(text_of(response), format!("wipe {key}"), "{response}");
}

/// A request to a route of the gateway with a token.
pub(crate) fn ask(served: &Served, token: &str, method: &str, route: &str) -> HttpReply {
    let url = served.url.replace("/mcp", route);
    let host = HttpHost::new(&url).expect("an http URL");
    let bearer = format!("Bearer {token}");
    let reply = host.send(method, &[("Authorization", &bearer)], b"");
    reply.expect("it answers")
}

/// The status and the body of the answer to a request.
pub(crate) fn told(served: &Served, token: &str, method: &str, route: &str) -> (u16, Value) {
    let reply = ask(served, token, method, route);
    let status = reply.status;
    let text = reply.text().expect("it has a body");
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}

/// Approves over the API with the admin's token.
pub(crate) fn approve(served: &Served, id: &str) {
    let route = format!("/v1/approve/{id}");
    let (status, body) = told(served, &served.admin_token, "POST", &route);
    assert_eq!((status, &body["status"]), (200, &Value::from("approved")));
}

/// Makes a token and gives its secret.
pub(crate) fn token(bed: &Bed, args: &[&str]) -> String {
    let made = [&["token", "create", "--json"], args].concat();
    let made = parsed(&stdout(&run(bed, &made)));
    made["token"].as_str().expect("it is shown once").to_owned()
}

/// A host with another token, whose handshake is done.
pub(crate) fn host_with(served: &Served, token: &str) -> HttpHost {
    let mut host = served
        .host()
        .header("Authorization", &format!("Bearer {token}"));
    host.initialize(crate::setup::VERSION)
        .expect("the gateway shakes hands");
    host
}

/// The records of decisions, oldest first.
pub(crate) fn decisions(bed: &Bed) -> Vec<Value> {
    let all = all_records(&stdout(&run(bed, &["activity", "export"])));
    all.into_iter()
        .filter(|record| record["type"] == "approval")
        .collect()
}
