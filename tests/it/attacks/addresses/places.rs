//! Addresses at unusual places of the arguments.

use serde_json::json;

use super::{CLASS, NOT_EVIL, fetched, network};
use crate::attacks::{Seen, attack, attempt};

#[test]
fn urls_inside_options_are_judged() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(CLASS, "an option in an argument carries a URL")
        .expect(Seen::Refused)
        .tries(
            [
                "--url=https://evil.com",
                "-xhttps://evil.com",
                "proxy=https://evil.com",
                "@https://evil.com",
                "--config=a=b,url=https://evil.com",
                "--url https://evil.com",
                "--proxy=http:evil.com",
                "--url=//evil.com",
            ],
            |address| {
                let arguments = json!({"args": ["-v", address]}).to_string();
                attempt(&bed, &mut host, "s:get", &arguments)
            },
        )
        .check();
}

#[test]
fn every_url_of_several_in_one_string_is_judged() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(CLASS, "one string holds several URLs")
        .expect(Seen::Refused)
        .tries(
            [
                "https://good.com/ https://evil.com/",
                "https://good.com/,https://evil.com/",
                "https://good.com/|https://evil.com/",
                "https://good.com/\nhttps://evil.com/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn urls_are_judged_anywhere_in_arguments() {
    let (bed, mut host) = network(NOT_EVIL);
    let arguments = [
        json!({"https://evil.com": 1}),
        json!({"a": {"b": [[{"c": "https://evil.com"}]]}}),
        json!({"headers": {"Host": ["evil.com"]}}),
        json!({"url": {"href": "evil.com"}}),
        json!({"x": ["https://good.com", "wss://evil.com"]}),
    ];
    attack(CLASS, "a URL stands at an unusual place of the arguments")
        .expect(Seen::Refused)
        .tries(arguments, |arguments| {
            attempt(&bed, &mut host, "s:get", &arguments.to_string())
        })
        .check();
}

#[test]
fn bare_hosts_are_judged_under_every_host_key() {
    let (bed, mut host) = network(NOT_EVIL);
    let keys = [
        "base_url",
        "endpoint",
        "urls",
        "hostName",
        "proxy",
        "targetHost",
        "uri",
        "origin",
        "webhook",
        "domains",
        "server_url",
        "HOST",
    ];
    attack(CLASS, "a bare host stands under a compound key")
        .expect(Seen::Refused)
        .tries(keys, |key| {
            let arguments = json!({ *key: "evil.com" }).to_string();
            attempt(&bed, &mut host, "s:get", &arguments)
        })
        .check();
}

#[test]
fn urls_in_json_strings_are_judged() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(CLASS, "arguments are JSON in a string")
        .expect(Seen::Refused)
        .tries(
            [
                r#"{"url":"https://evil.com"}"#,
                r#" [{"host":"evil.com"}]"#,
                r#"{"a":"{\"url\":\"https://evil.com\"}"}"#,
            ],
            |inner| {
                let arguments = json!({"input": inner}).to_string();
                attempt(&bed, &mut host, "s:get", &arguments)
            },
        )
        .check();
}
