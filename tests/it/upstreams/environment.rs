//! A server's environment, how its command is split, and which names are valid.

use std::collections::BTreeMap;

use callgate_testkit::StdioHost;

use crate::setup::Bed;
use crate::talk::{DEADLINE, call, call_text, tools};

/// The environment that the server `x` sees when the gateway has these variables besides a few of its own.
fn seen(config: &str, gateway: &[(&str, &str)]) -> BTreeMap<String, String> {
    let bed = Bed::new(config);
    let mut command = bed.command(["stdio"]);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/h/someone")
        .env("LC_ALL", "C.UTF-8")
        .envs(gateway.iter().copied());
    let mut host = StdioHost::connect(&mut command, "2025-11-25").expect("it answers");
    let text = call_text(&mut host, "x__env", "{}");
    serde_json::from_str(&text).expect("the server tells its environment")
}

fn pairs(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn servers_get_a_minimal_environment_and_their_own_variables() {
    let config = "servers:
  x:
    command: '@counter@'
    env: {PLAIN: a b, FILLED: 'Bearer ${SECRET}', FALLBACK: '${UNSET:-other}', EMPTY: '${UNSET:-}', HOME: /elsewhere}
";
    let gateway = [
        ("SECRET", "s3cret"),
        ("AWS_SECRET_ACCESS_KEY", "no"),
        ("CALLGATE_TOKEN", "no"),
        ("CALLGATE_ADMIN_TOKEN", "nor this"),
    ];
    let expected = [
        ("EMPTY", ""),
        ("FALLBACK", "other"),
        ("FILLED", "Bearer s3cret"),
        ("HOME", "/elsewhere"),
        ("LC_ALL", "C.UTF-8"),
        ("PATH", "/usr/bin:/bin"),
        ("PLAIN", "a b"),
    ];
    assert_eq!(seen(config, &gateway), pairs(&expected));
}

#[test]
fn inherit_env_does_not_pass_the_gateways_secrets() {
    let config = "servers: {x: {command: '@counter@', inherit_env: true, env: {OWN: '1'}}}";
    let gateway = [
        ("EDITOR", "vi"),
        ("CALLGATE_TOKEN", "no"),
        ("CALLGATE_ADMIN_TOKEN", "nor this"),
        ("CALLGATE_LOG_LEVEL", "info"),
    ];
    let expected = [
        ("EDITOR", "vi"),
        ("HOME", "/h/someone"),
        ("LC_ALL", "C.UTF-8"),
        ("OWN", "1"),
        ("PATH", "/usr/bin:/bin"),
    ];
    assert_eq!(seen(config, &gateway), pairs(&expected));
}

#[test]
fn a_missing_variable_stops_only_its_server_and_is_named() {
    let bed = Bed::new(
        "servers:
  in_env: {command: '@counter@', env: {TOKEN: '${NOT_SET_IN_ENV}'}}
  in_args: {command: '@counter@', args: [--marker, '${NOT_SET_IN_ARGS}']}
  good: {command: '@counter@'}
",
    );
    let mut host = bed.stdio_ready();
    let listed = tools(&mut host);
    assert!(
        listed.iter().all(|name| name.starts_with("good__")),
        "{listed:?}"
    );
    for (server, variable) in [("in_env", "NOT_SET_IN_ENV"), ("in_args", "NOT_SET_IN_ARGS")] {
        let line = host.wait_stderr(DEADLINE, |line| {
            line.contains("\"WARN\"") && line.contains(&format!("\"server\":\"{server}\""))
        });
        let line = line.expect("a warning names the server");
        assert!(
            line.contains(&format!("environment variable `{variable}` is not set")),
            "{line}"
        );
        let response = call(&mut host, &format!("{server}__effect"), "{}");
        assert_eq!(response["error"]["code"], -32002, "{response}");
    }
    let shown = bed.command(["servers", "list"]).output().expect("it runs");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("`NOT_SET_IN_ENV` is not set"), "{shown}");
}

#[test]
fn a_command_string_is_split_like_in_a_shell() {
    let bed = Bed::new(
        r#"servers: {x: {command: "'@counter@' --ledger \"@dir@/a ledger\" --marker 'it''s'\\ one"}}"#,
    );
    let mut host = bed.stdio_ready();
    call_text(&mut host, "x__effect", r#"{"key":"k"}"#);
    assert_eq!(bed.read("a ledger"), "k\n");
}

#[test]
fn a_command_with_args_is_not_split() {
    let bed = Bed::new("servers: {x: {command: '@counter@ --flag', args: []}}");
    let mut host = bed.stdio_ready();
    let response = call(&mut host, "x__effect", "{}");
    assert_eq!(response["error"]["code"], -32002, "{response}");
}

/// What is said about a configuration that cannot be used.
fn refused(config: &str) -> String {
    let bed = Bed::new(config);
    let output = bed.command(["stdio"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{config}");
    assert!(output.stdout.is_empty(), "stdout carries only frames");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_unclosed_quote_is_a_configuration_error() {
    let said = refused(r#"servers: {x: {command: "server 'unclosed"}}"#);
    assert!(
        said.contains("server `x`: unclosed quote in command `server 'unclosed`"),
        "{said}"
    );
    let said = refused("servers: {x: {command: ''}}");
    assert!(said.contains("server `x`: `command` is empty"), "{said}");
}

#[test]
fn ambiguous_server_names_are_refused() {
    for name in [
        "a__b", "a.b", "a b", "é", "builtin", "proxy", "tools", "callgate", "",
    ] {
        let said = refused(&format!("servers: {{'{name}': {{command: cat}}}}"));
        assert!(
            said.contains(&format!("server name `{name}`")),
            "{name}: {said}"
        );
    }
    let long = "x".repeat(33);
    refused(&format!("servers: {{'{long}': {{command: cat}}}}"));
    let longest = "x".repeat(32);
    let bed = Bed::new(&format!(
        "servers: {{'{longest}': {{command: '@counter@'}}, a-b_C9: {{command: '@counter@'}}}}"
    ));
    let listed = tools(&mut bed.stdio_ready());
    assert!(listed.contains(&format!("{longest}__env")));
    assert!(listed.contains(&"a-b_C9__env".to_owned()));
}
