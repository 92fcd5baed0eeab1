//! Tools that policy hides or holds: not listed, not called, and refused with an exact text.

use crate::setup::Bed;
use crate::talk::{call, call_text, text_of, tools};

#[test]
fn a_disabled_tool_is_neither_listed_nor_called() {
    let bed = Bed::new(
        "servers:
  x:
    command: '@counter@'
    args: [--ledger, '@dir@/ledger', --log, '@dir@/log']
    tools: {deny: ['effect', '*_thing']}
",
    );
    let mut host = bed.stdio_ready();
    let listed = tools(&mut host);
    for hidden in ["x__effect", "x__read_thing", "x__delete_thing"] {
        assert!(!listed.contains(&hidden.to_owned()), "{hidden}");
    }
    assert!(listed.contains(&"x__slow".to_owned()));
    let pattern = ["effect", "*_thing", "effect"];
    for (name, pattern) in ["x__effect", "x__read_thing", "x:effect"]
        .iter()
        .zip(pattern)
    {
        let response = call(&mut host, name, r#"{"key":"k"}"#);
        assert_eq!(response["result"]["isError"], true);
        let expected = format!(
            "[callgate] Action denied by policy.\nReason: the configuration disables this tool (`tools.deny` of its server)\nRule: deny:mcp_tool:x:{pattern}"
        );
        assert_eq!(text_of(&response), expected);
    }
    assert_eq!(bed.read("ledger"), "");
    assert!(!bed.read("log").contains("tools/call"));
}

#[test]
fn an_allow_list_hides_all_other_tools() {
    let bed = Bed::new(
        "servers:
  x: {command: '@counter@', args: [--ledger, '@dir@/ledger'], tools: {allow: ['read_*', env], deny: [env]}}
  y: {command: '@counter@'}
",
    );
    let mut host = bed.stdio_ready();
    let listed = tools(&mut host);
    let of_x: Vec<&String> = listed
        .iter()
        .filter(|name| name.starts_with("x__"))
        .collect();
    assert_eq!(of_x, ["x__read_thing"]);
    assert!(listed.contains(&"y__env".to_owned()));
    assert_eq!(
        call_text(&mut host, "x__read_thing", r#"{"key":"k"}"#),
        "read k"
    );
    let response = call(&mut host, "x__effect", r#"{"key":"k"}"#);
    assert_eq!(response["result"]["isError"], true);
    assert_eq!(
        text_of(&response),
        "[callgate] Action denied by policy.\nReason: the configuration does not enable this tool (`tools.allow` of its server)\nRule: deny:default"
    );
    assert_eq!(bed.read("ledger"), "");
}

#[test]
fn errors_for_unknown_names_name_the_choices() {
    let bed = Bed::new(
        "servers: {x: {command: '@counter@', tools: {allow: [env, fail]}}, y: {command: '@counter@'}}",
    );
    let mut host = bed.stdio_ready();
    tools(&mut host);
    for (name, message) in [
        (
            "x__nothing",
            "unknown tool `x__nothing` of server `x`; its tools: x__fail, x__env",
        ),
        (
            "z__env",
            "unknown tool `z__env`: no such server; servers: x, y",
        ),
        ("env", "unknown tool `env`: no such server; servers: x, y"),
    ] {
        let response = call(&mut host, name, "{}");
        assert_eq!(response["error"]["code"], -32602, "{response}");
        assert_eq!(response["error"]["message"], message);
    }
}

#[test]
fn destructive_tools_are_held_by_default_and_permitted_by_allow_all() {
    let config = "servers: {x: {command: '@counter@', args: [--ledger, '@dir@/ledger', --log, '@dir@/log']}}";
    let bed = Bed::new(config);
    let mut host = bed.stdio_ready();
    for (name, reason) in [
        ("wipe", "`x:wipe` declares that it is destructive"),
        (
            "delete_thing",
            "`x:delete_thing` does not declare whether it is destructive, and its name contains `delete`",
        ),
    ] {
        assert!(tools(&mut host).contains(&format!("x__{name}")));
        let response = call(&mut host, &format!("x__{name}"), r#"{"key":"k"}"#);
        assert_eq!(response["result"]["isError"], true);
        let text = text_of(&response);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "[callgate] Action requires approval.");
        assert!(lines[1].starts_with(&format!("Reason: {reason}")), "{text}");
    }
    assert_eq!(bed.read("ledger"), "");
    assert!(!bed.read("log").contains("tools/call"), "nothing was sent");
    let open = Bed::new(&format!("{config}\npolicy: allow-all\n"));
    let mut host = open.stdio_ready();
    assert_eq!(call_text(&mut host, "x__wipe", r#"{"key":"k"}"#), "wipe k");
    assert_eq!(
        call_text(&mut host, "x__delete_thing", r#"{"key":"k"}"#),
        "delete_thing k"
    );
    assert_eq!(open.read("ledger"), "wipe:k\ndelete_thing:k\n");
}
