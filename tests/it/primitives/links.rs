//! Resources that servers name in results: reading one reaches the server that named it, however many there are.

use callgate_testkit::Host;
use serde_json::{Value, json};

use super::{SEVERAL, ask, read, recorded, text_at};
use crate::setup::Bed;
use crate::talk::{call, http_as, stdio_as};

/// The URIs of the link and of the embedded resource in a result, which are the same.
fn linked(host: &mut dyn Host, server: &str, uri: &str) -> String {
    let key = json!({"key": format!("link {uri}")}).to_string();
    let response = call(host, &format!("{server}__echo"), &key);
    let content = &response["result"]["content"];
    let text = content[2]["text"].as_str();
    assert_eq!(text, Some(&*format!("{server} links {uri}")), "text stays");
    assert_eq!(content[0]["uri"], content[1]["resource"]["uri"]);
    let uri = content[0]["uri"].as_str();
    uri.unwrap_or_else(|| panic!("no link: {response}"))
        .to_owned()
}

#[test]
fn a_link_is_read_from_the_server_that_named_it() {
    let bed = Bed::new(SEVERAL);
    let served = bed.serve();
    let hosts: [Box<dyn Host>; 2] = [
        Box::new(stdio_as(&bed, None)),
        Box::new(http_as(&served, "{}")),
    ];
    for (number, mut host) in hosts.into_iter().enumerate() {
        let host = &mut *host;
        let own = format!("memo://{number}");
        let cases = [
            // Listed by another server, which keeps it.
            ("b", "a://0", "callgate://b/a://0"),
            ("a", "a://0", "a://0"),
            ("b", "shared://doc", "callgate://b/shared://doc"),
            ("b", "a://item/7", "callgate://b/a://item/7"),
            // Listed by none: the first to name it keeps it.
            ("b", &own, &own),
            ("a", &own, &format!("callgate://a/{own}")),
            ("b", &own, &own),
            // Made to look like another server's.
            ("b", "callgate://a/a://0", "callgate://b/callgate://a/a://0"),
        ];
        for (server, uri, shown) in cases {
            assert_eq!(linked(host, server, uri), shown);
            assert_eq!(text_at(host, shown), format!("{server} reads {uri}"));
        }
        let unknown = read(host, "memo://nowhere");
        assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
        let answered = read(host, &format!("callgate://a/{own}"));
        let uri = &answered["result"]["contents"][0]["uri"];
        assert_eq!(
            *uri,
            json!(format!("callgate://a/{own}")),
            "as it was requested"
        );
    }
    drop(served);
    let resource = |server: &str, uri: &str| ("resource_read".into(), server.into(), uri.into());
    let records = recorded(&bed);
    for expected in [resource("b", "memo://0"), resource("a", "memo://0")] {
        assert!(records.contains(&expected), "{expected:?} in {records:?}");
    }
}

#[test]
fn links_serve_completions_subscriptions_and_later_sessions_of_their_token_alone() {
    let bed = Bed::new(SEVERAL);
    let served = bed.serve();
    let mut host = http_as(&served, "{}");
    assert_eq!(linked(&mut host, "b", "memo://1"), "memo://1");
    let mut later = http_as(&served, "{}");
    assert_eq!(text_at(&mut later, "memo://1"), "b reads memo://1");
    let completed = ask(
        &mut later,
        "completion/complete",
        r#"{"ref":{"type":"ref/resource","uri":"memo://1"},"argument":{"name":"x","value":""}}"#,
    );
    let value = &completed["result"]["completion"]["values"][0];
    assert_eq!(*value, json!("b completes memo://1"));
    let followed = ask(&mut later, "resources/subscribe", r#"{"uri":"memo://1"}"#);
    assert_eq!(followed["result"], json!({}));
    let seen = crate::talk::call_text(&mut later, "b__followed", "{}");
    assert_eq!(seen, "memo://1");
    let secret = crate::approvals::token(&bed, &["--name", "other", "--role", "agent"]);
    let mut other = crate::approvals::host_with(&served, &secret);
    let unknown = read(&mut other, "memo://1");
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
}

#[test]
fn policy_judges_the_resource_of_the_server_that_a_link_leads_to() {
    let bed = Bed::new(&SEVERAL.replace("policy: allow-all", "policy: policy.yaml"));
    std::fs::write(
        bed.path("policy.yaml"),
        "version: '1'\nname: test\nrules:\n\
         - {scope: mcp_tool, allow: [{pattern: '*:*'}]}\n\
         - {scope: mcp_resource, deny: [{pattern: 'b:memo://*'}], allow: [{pattern: '*:*'}]}\n",
    )
    .expect("it is written");
    let mut host = stdio_as(&bed, None);
    assert_eq!(linked(&mut host, "b", "memo://1"), "memo://1");
    assert_eq!(linked(&mut host, "a", "memo://1"), "callgate://a/memo://1");
    let denied = |answer: Value| answer["error"]["code"] == json!(-32000);
    assert!(denied(read(&mut host, "memo://1")));
    assert!(denied(read(&mut host, "callgate://b/memo://1")));
    assert_eq!(
        text_at(&mut host, "callgate://a/memo://1"),
        "a reads memo://1"
    );
}
