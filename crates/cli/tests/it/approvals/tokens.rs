//! Tokens: what they open, what their holders see, and that they end at once.

use super::{ASKING, ask, host_with, token};
use crate::evidence::{all_records, records, run, stdout};
use crate::setup::Bed;
use crate::shell::{named, run as shell};
use crate::talk::{call, parsed, tools};

const TWO: &str = "\
servers:
  n: {command: '@counter@'}
  m: {command: '@counter@'}
policy: allow-all
";

#[test]
fn a_holder_sees_and_uses_what_its_token_is_for() {
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
fn roles_open_what_they_are_for_and_nothing_else() {
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
fn a_revoked_or_expired_token_opens_nothing_from_the_next_request_on() {
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

#[test]
fn what_is_done_to_tokens_is_on_record_with_who_did_it() {
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
fn wrong_uses_are_told() {
    let bed = Bed::new("");
    for (args, expected) in [
        (
            vec!["token", "create", "--name", "admin", "--role", "agent"],
            "cannot be a token's name",
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
        (
            vec!["token", "revoke", "nobody"],
            "there is no token `nobody`",
        ),
    ] {
        let ran = shell(&mut named(&bed, &args));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{ran:?}");
    }
}
