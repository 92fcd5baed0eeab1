//! Tokens: what they allow, what their holders see, and that revocation applies at once.

use std::fs::OpenOptions;
use std::io::Write;

use callgate_testkit::{EventStream, Frame, HttpHost};
use serde_json::json;

use super::{ASKING, ask, host_with, token};
use crate::eras::{listening, post_with, stateless};
use crate::evidence::{all_records, records, run, stdout};
use crate::setup::{Bed, Served};
use crate::shell::{named, run as shell};
use crate::talk::{call, call_text, introduced, introduction, parsed, request, tools};

const TWO: &str = "\
servers:
  n: {command: '@counter@'}
  m: {command: '@counter@'}
policy: allow-all
";

#[test]
fn a_token_limits_the_tools_its_holder_sees_and_calls() {
    let bed = Bed::new(TWO);
    let served = bed.serve();
    let reader = token(
        &bed,
        &[
            "--name",
            "reader",
            "--role",
            "agent",
            "--servers",
            "n",
            "--ceiling",
            "read",
        ],
    );
    let mut host = host_with(&served, &reader);
    let listed = tools(&mut host);
    assert!(listed.contains(&"n__read_thing".to_owned()), "{listed:?}");
    assert!(
        !listed.iter().any(|name| name.starts_with("m__")),
        "{listed:?}"
    );
    assert!(!listed.contains(&"n__effect".to_owned()), "{listed:?}");
    for (tool, rule) in [
        ("m__read_thing", "deny:token:servers"),
        ("n__effect", "deny:token:ceiling"),
        ("n__wipe", "deny:token:ceiling"),
    ] {
        let answer = call(&mut host, tool, r#"{"key":"k"}"#).to_string();
        assert!(answer.contains(rule), "{tool}: {answer}");
    }
    let unknown = call(&mut host, "x__y", "{}").to_string();
    assert!(
        unknown.contains("servers: n\""),
        "others are not named: {unknown}"
    );
    let records = records(&bed);
    let of = &records[0];
    assert_eq!(
        (&of["principal"], &of["agent"]),
        (&"reader".into(), &"reader".into())
    );
    let mut everyone = served.host_ready();
    assert!(
        tools(&mut everyone)
            .iter()
            .any(|name| name.starts_with("m__"))
    );
}

#[test]
fn token_roles_open_only_their_own_routes() {
    let bed = Bed::new(ASKING);
    let served = bed.serve();
    let agent = token(&bed, &["--name", "a", "--role", "agent"]);
    let approver = token(&bed, &["--name", "b", "--role", "approver"]);
    let admin = token(&bed, &["--name", "c", "--role", "admin"]);
    for (route, of_agent, of_approver, of_admin) in [
        ("/v1/approvals", 403, 200, 200),
        ("/api/v1/servers", 403, 403, 200),
        ("/metrics", 403, 403, 200),
    ] {
        let statuses =
            [&agent, &approver, &admin].map(|token| ask(&served, token, "GET", route).status);
        assert_eq!(statuses, [of_agent, of_approver, of_admin], "{route}");
    }
    for token in [&approver, &admin] {
        assert_eq!(ask(&served, token, "POST", "/mcp").status, 403);
    }
    assert_ne!(ask(&served, &agent, "POST", "/mcp").status, 403);
}

#[test]
fn revoked_and_expired_tokens_are_refused_at_the_next_request() {
    let bed = Bed::new(ASKING);
    let served = bed.serve();
    let short = token(
        &bed,
        &["--name", "short", "--role", "approver", "--expires", "1ms"],
    );
    assert_eq!(ask(&served, &short, "GET", "/v1/approvals").status, 401);
    let ci = token(
        &bed,
        &["--name", "ci", "--role", "agent", "--expires", "30d"],
    );
    let mut host = host_with(&served, &ci);
    assert!(!tools(&mut host).is_empty());
    stdout(&run(&bed, &["token", "revoke", "ci"]));
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert_eq!(host.post(line).expect("it answers").status, 401);
    let listed = parsed(&stdout(&run(&bed, &["token", "list", "--json"])));
    let states: Vec<_> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|t| t["state"].clone())
        .collect();
    assert_eq!(states, ["expired", "revoked"]);
    assert!(!bed.read("data/tokens.json").contains(&ci));
}

const HERALDS: &str = "\
servers:
  a: {command: '@herald@', args: [--tag, a, --cue, '@dir@/a.cue']}
  b: {command: '@herald@', args: [--tag, b, --cue, '@dir@/b.cue']}
policy: allow-all
";

#[test]
fn a_token_is_offered_only_capabilities_of_its_servers() {
    let bed = Bed::new(
        "\
servers:
  a: {command: '@shelf@', args: [--tag, a]}
  n: {command: '@counter@'}
policy: allow-all
",
    );
    let served = bed.serve();
    tools(&mut plain(&served, &served.token));
    let everything = [
        "tools",
        "logging",
        "resources",
        "prompts",
        "completions",
        "tasks",
    ];
    for (servers, offered) in [("a", &everything[..]), ("n", &everything[..2])] {
        let secret = token(
            &bed,
            &["--name", servers, "--role", "agent", "--servers", servers],
        );
        let host = served.host();
        let mut host = host.header("Authorization", &format!("Bearer {secret}"));
        let introduced = request(&mut host, &introduction(Some("{}")));
        let capabilities = introduced["result"]["capabilities"].as_object();
        let names: Vec<&String> = capabilities.expect("an object").keys().collect();
        assert_eq!(names, offered, "{servers}");
        let found = stateless("server/discover", json!({}));
        let found = post_with(&served, &secret, &found).1;
        let has_prompts = found["result"]["capabilities"].get("prompts").is_some();
        assert_eq!(has_prompts, servers == "a", "{found}");
        let mut host = plain(&served, &secret);
        let listed = request(
            &mut host,
            r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#,
        );
        assert_eq!(listed.get("result").is_some(), servers == "a", "{listed}");
    }
}

/// Makes a server send a notification outside any call.
fn cue(bed: &Bed, server: &str, line: &str) {
    let path = bed.path(&format!("{server}.cue"));
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.expect("the folder is ours");
}

/// A host with this token that can be asked nothing, so that no server is started in its name.
fn plain(served: &Served, token: &str) -> HttpHost {
    let host = served.host();
    introduced(
        host.header("Authorization", &format!("Bearer {token}")),
        "{}",
    )
}

/// The notifications received up to this one: texts of log messages, and methods of other notifications.
fn heard(stream: &mut EventStream, last: &str) -> Vec<String> {
    let mut all = Vec::new();
    while all.last().is_none_or(|heard| heard != last) {
        let event = stream.next_event().expect("the stream is alive");
        let event = event.expect("the stream goes on");
        let frame = Frame::parse(&event.data).expect("an event is a frame");
        let text = frame.param("data").map(parsed);
        let text = text.and_then(|text| text.as_str().map(str::to_owned));
        all.extend(text.or(frame.method));
    }
    all
}

#[test]
fn notifications_of_other_servers_do_not_reach_a_limited_token() {
    let bed = Bed::new(HERALDS);
    let served = bed.serve();
    let only_a = token(&bed, &["--name", "a", "--role", "agent", "--servers", "a"]);
    let mut limited = plain(&served, &only_a);
    let mut everyone = plain(&served, &served.token);
    // Both servers are there once their tools are.
    assert_eq!(tools(&mut limited), ["a__t0"]);
    assert_eq!(tools(&mut everyone), ["a__t0", "b__t0"]);
    let mut quiet = limited.listen().expect("the stream opens");
    let mut loud = everyone.listen().expect("the stream opens");
    let wanted =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    let listen = stateless("subscriptions/listen", json!({"notifications": wanted}));
    let mut subscribed = listening(&served, &only_a, &listen);
    heard(&mut subscribed, "notifications/subscriptions/acknowledged");
    cue(&bed, "a", "say begin");
    heard(&mut quiet, "a: begin");
    heard(&mut loud, "a: begin");
    for (line, news) in [
        ("say secret", "b: secret"),
        ("tools", "notifications/tools/list_changed"),
        ("prompts", "notifications/prompts/list_changed"),
        ("resources", "notifications/resources/list_changed"),
    ] {
        cue(&bed, "b", line);
        heard(&mut loud, news);
    }
    cue(&bed, "a", "say end");
    assert_eq!(heard(&mut quiet, "a: end"), ["a: end"]);
    let news = "notifications/prompts/list_changed";
    cue(&bed, "a", "prompts");
    assert_eq!(heard(&mut quiet, news), [news]);
    assert_eq!(heard(&mut subscribed, news), [news]);
}

#[test]
fn server_messages_reach_only_their_own_principal() {
    let bed = Bed::new("servers: {a: {command: '@shelf@', args: [--tag, a]}}\npolicy: allow-all\n");
    let served = bed.serve();
    let hosts = ["one", "two"].map(|name| {
        let secret = token(&bed, &["--name", name, "--role", "agent"]);
        (name, plain(&served, &secret))
    });
    // The first of them uses the process that the gateway started, the second one gets its own.
    let mut streams: Vec<EventStream> = Vec::new();
    for (_, host) in &hosts {
        streams.push(host.listen().expect("the stream opens"));
    }
    for ((name, mut host), stream) in hosts.into_iter().zip(&mut streams) {
        let said = format!(r#"{{"key":"{name}"}}"#);
        assert_eq!(call_text(&mut host, "a__say", &said), "said");
        let own = format!("a: {name}");
        let messages = heard(stream, &own).into_iter();
        let messages: Vec<_> = messages.filter(|heard| heard.starts_with("a: ")).collect();
        assert_eq!(messages, [own]);
    }
}

#[test]
fn token_changes_are_recorded_with_their_author() {
    let bed = Bed::new(ASKING);
    token(&bed, &["--name", "ci", "--role", "agent", "--servers", "n"]);
    stdout(&run(&bed, &["token", "revoke", "ci"]));
    let all = all_records(&stdout(&run(&bed, &["activity", "export"])));
    let told: Vec<_> = all
        .iter()
        .filter(|record| {
            record["tool"]
                .as_str()
                .is_some_and(|name| name.starts_with("token."))
        })
        .map(|record| (record["tool"].clone(), record["reason"].clone()))
        .collect();
    assert_eq!(told.len(), 2, "{all:?}");
    let (made, ended) = (told[0].1.to_string(), told[1].1.to_string());
    assert_eq!(
        (&told[0].0, &told[1].0),
        (&"token.created".into(), &"token.revoked".into())
    );
    assert!(
        made.contains("`ci` of tenant `local`: agent; servers n, by "),
        "{made}"
    );
    assert!(ended.contains("`ci`, by "), "{ended}");
}

#[test]
fn invalid_token_commands_are_refused_with_a_reason() {
    let bed = Bed::new("");
    for (args, expected) in [
        (
            vec!["token", "create", "--name", "admin", "--role", "agent"],
            "is not a valid token name",
        ),
        (
            vec![
                "token",
                "create",
                "--name",
                "a",
                "--role",
                "agent",
                "--expires",
                "soon",
            ],
            "`soon` is not a length of time",
        ),
        (vec!["token", "revoke", "nobody"], "no token named `nobody`"),
    ] {
        let ran = shell(&mut named(&bed, &args));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{ran:?}");
    }
}
