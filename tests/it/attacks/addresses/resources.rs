//! Resource URIs spelled differently from the rule.

use callgate_testkit::{Host, StdioHost};
use serde_json::{Value, json};

use super::CLASS;
use crate::attacks::{Seen, attack, write};
use crate::setup::Bed;
use crate::talk::request;

/// A gateway with one server `a` that has resources, on this policy.
fn resources(rules: &str) -> (Bed, StdioHost) {
    let bed = Bed::new(
        "servers: {a: {command: '@shelf@', args: [--tag, a, --log, '@dir@/a.log']}}\npolicy: policy.yaml\n",
    );
    write(
        &bed.path("policy.yaml"),
        &format!(
            "version: '1'\nrules:\n  - {{scope: mcp_tool, deny: [{{pattern: '*'}}]}}\n{rules}"
        ),
    );
    let host = bed.stdio_ready();
    (bed, host)
}

/// Reads a resource, and says whether its server was asked.
fn read(bed: &Bed, host: &mut dyn Host, uri: &str) -> Seen {
    let asked = || bed.read("a.log").matches("resources/read").count();
    let before = asked();
    let params = json!({"uri": uri});
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{params}}}"#);
    let response: Value = request(host, &line);
    match (asked() > before, response.get("error").is_some()) {
        (false, true) => Seen::Refused,
        (true, _) | (false, false) => Seen::Passed,
    }
}

#[test]
fn wrapped_uris_are_unwrapped_before_policy() {
    let (bed, mut host) = resources(
        "  - {scope: filesystem, deny: [{paths: ['/secret/**']}], allow: [{paths: ['**']}, {when: 'true'}]}\n\
         tool_scope_map: [{pattern: 'a:*', scope: filesystem}]\n",
    );
    attack(CLASS, "a wrapped URI hides a path from a mapped scope")
        .expect(Seen::Refused)
        .tries(
            [
                "callgate://a/file:///secret/x",
                "callgate://a/file:/secret/x",
                "callgate://a/FILE:///secret/x",
                "file:///secret/x",
            ],
            |uri| read(&bed, &mut host, uri),
        )
        .check();
}

#[test]
fn expressions_see_the_uri_the_server_gets() {
    let (bed, mut host) = resources(
        "  - {scope: mcp_resource, deny: [{pattern: '*:*', when: 'args.uri.startsWith(\"file:\")'}], allow: [{pattern: '*:*'}]}\n",
    );
    attack(CLASS, "a wrapped URI hides itself from an expression")
        .expect(Seen::Refused)
        .tries(
            ["callgate://a/file:///secret/x", "file:///secret/x"],
            |uri| read(&bed, &mut host, uri),
        )
        .check();
}

#[test]
fn a_resource_is_refused_in_every_spelling_of_its_uri() {
    let (bed, mut host) = resources(
        "  - {scope: mcp_resource, deny: [{pattern: 'a:file:///secret/*'}, {pattern: 'a:http://inside/*'}], allow: [{pattern: '*:*'}]}\n",
    );
    attack(
        CLASS,
        "a resource's URI is spelled otherwise than a deny pattern",
    )
    .expect(Seen::Refused)
    .tries(
        [
            "FILE:///secret/x",
            "file:///%73ecret/x",
            "callgate://a/file:///open/../secret/x",
            "http://INSIDE:80/x",
            "file:/secret/x",
            "file://localhost/secret/x",
            "file:///open/%2e%2e/secret/x",
            "file:////secret//x",
            "http://u@inside/x",
            "http://inside./x",
            "http://inside:/x",
            "http:/inside/x",
            "http:\\\\inside\\x",
            "\u{1}file:///secret/x",
            "fi\tle:///secret/x",
        ],
        |uri| read(&bed, &mut host, uri),
    )
    .check();
}

#[test]
fn dots_do_not_escape_an_allowed_resource() {
    let (bed, mut host) = resources(
        "  - {scope: mcp_resource, allow: [{pattern: 'a:file:///open/*'}, {pattern: 'a:http://fine/open/*'}]}\n",
    );
    attack(
        CLASS,
        "dots or a user name lead out of what an allow pattern names",
    )
    .expect(Seen::Refused)
    .tries(
        [
            "file:///open/../secret/x",
            "file:///open/%2e%2e/secret/x",
            "callgate://a/file:///open/..%2fsecret/x",
            "file:///open/..\\secret/x",
            "http://fine/open/..\\x",
            "http://fine\\@evil.com/x",
        ],
        |uri| read(&bed, &mut host, uri),
    )
    .check();
}
