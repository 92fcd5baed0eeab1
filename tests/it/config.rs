//! The configuration: its own file, files of other tools, and the errors in them.

use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::setup::Bed;
use crate::shell::{Ran, named, normalised, run};
use crate::talk::parsed;

mod old_names;
mod other_clients;

fn check(config: &str) -> (Bed, Ran) {
    let bed = Bed::new(config);
    let ran = run(&mut named(&bed, ["config", "check"]));
    (bed, ran)
}

fn assert_wrong(config: &str, expected: Expect) {
    let (bed, ran) = check(config);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{config}");
    expected.assert_eq(&normalised(&bed, &ran.stderr));
}

/// The effective configuration, as JSON; notes about it go to stderr.
fn shown(bed: &Bed) -> (Value, String) {
    let ran = run(&mut named(bed, ["config", "show", "--json"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    (parsed(&ran.stdout), normalised(bed, &ran.stderr))
}

#[test]
fn configuration_errors_escape_control_characters() {
    let wrong = "servers:\n  a: {\"co\\e]0;mand\": cat} # \u{202e}\n";
    assert_wrong(
        wrong,
        expect![[r#"
            error: configuration `$DIR/callgate.yaml`: line 2 column 7: unknown field `co⟨U+001B⟩]0;mand`
             --> $DIR/callgate.yaml:2:7
              |
            2 |   a: {"co\e]0;mand": cat} # ⟨U+202E⟩
              |       ^
            help: did you mean `command`?
        "#]],
    );
}

#[test]
fn check_finds_roots_of_built_in_tools_that_do_not_exist() {
    let (_bed, ran) = check("builtins: {enabled: true, roots: ['@dir@/missing']}\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    let start = "error: `builtins.roots`: ";
    assert!(ran.stderr.starts_with(start), "{}", ran.stderr);
}

#[test]
fn configuration_typos_get_a_suggestion() {
    assert_wrong(
        "servers:\n  a: {command: cat}\n  b: {comand: cat}\n",
        expect![[r#"
            error: configuration `$DIR/callgate.yaml`: line 3 column 7: unknown field `comand`
             --> $DIR/callgate.yaml:3:7
              |
            3 |   b: {comand: cat}
              |       ^
            help: did you mean `command`?
        "#]],
    );
    assert_wrong(
        "activity:\n  durabillity: power\n",
        expect![[r#"
            error: configuration `$DIR/callgate.yaml`: line 2 column 3: unknown field `durabillity`
             --> $DIR/callgate.yaml:2:3
              |
            2 |   durabillity: power
              |   ^
            help: did you mean `durability`?
        "#]],
    );
    assert_wrong(
        "activity: {on_failure: maybe}\n",
        expect![[r#"
            error: configuration `$DIR/callgate.yaml`: line 1 column 24: unknown variant `maybe`
             --> $DIR/callgate.yaml:1:24
              |
            1 | activity: {on_failure: maybe}
              |                        ^
            help: it can be allow, refuse
        "#]],
    );
}

#[cfg(feature = "code")]
#[test]
fn meaningless_settings_are_refused() {
    for (config, what) in [
        ("view: list\n", "unknown variant `list`"),
        ("policy_mode: lax\n", "unknown variant `lax`"),
        ("limits: {frame_mib: 0}\n", "expected a number from 1"),
        ("telemetry: {log: loud}\n", "unknown variant `loud`"),
    ] {
        let (_, ran) = check(config);
        assert_eq!(ran.code, Some(2), "{config}");
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
    for right in [
        "view: direct\n",
        "view: search\n",
        "view: code\n",
        "code: {cpu: 2s, packs: packs}\n",
        "search: {}\n",
        "intent_declaration: {}\n",
    ] {
        let (_, ran) = check(right);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
}

#[test]
fn invalid_values_are_reported_with_their_position() {
    let cases = [
        ("listen: here", "1:9", "not an address to listen on"),
        (
            "naming: {separator: ':'}",
            "1:",
            "a separator is one or more of",
        ),
        ("naming: {max_length: 8}", "1:", "from 16 to 128"),
        ("activity: {redact: ['(']}", "1:", "`(`"),
        (
            "server_defaults: {timeout: 5}",
            "1:28",
            "not a length of time",
        ),
        ("activity: {body_bytes: -1}", "1:24", ""),
    ];
    for (config, place, what) in cases {
        let (_, ran) = check(&format!("{config}\n"));
        assert_eq!(ran.code, Some(2), "{config}");
        let place = format!("callgate.yaml:{place}");
        assert!(ran.stderr.contains(&place), "{config}: {}", ran.stderr);
        assert!(ran.stderr.contains(what), "{config}: {}", ran.stderr);
    }
}

#[test]
fn a_server_is_a_command_or_a_url() {
    assert_wrong(
        "servers:\n  a: {command: cat, url: 'https://e.com/mcp', enabled: false}\n",
        expect![[r#"
            error: configuration `$DIR/callgate.yaml`: line 2 column 6: server `a`: it has both `command` and `url`
             --> $DIR/callgate.yaml:2:6
              |
            2 |   a: {command: cat, url: 'https://e.com/mcp', enabled: false}
              |      ^
        "#]],
    );
    let cases = [
        ("{timeout: 1s}", "it needs `command` or `url`"),
        (
            "{command: cat, headers: {A: b}}",
            "`headers` and `insecure_http` need `url`, not `command`",
        ),
        (
            "{url: 'https://e.com/', args: [x]}",
            "`args`, `env`, `inherit_env`, `cwd` and `box` need `command`, not `url`",
        ),
        (
            "{url: 'ftp://e.com/'}",
            "`ftp://e.com/` is neither http nor https",
        ),
        ("{command: ''}", "`command` is empty"),
        ("{command: \"it's\"}", "quote"),
    ];
    for (server, why) in cases {
        let (_, ran) = check(&format!(
            "servers:\n  ok: {{command: cat}}\n  a: {server}\n"
        ));
        assert_eq!(ran.code, Some(2), "{server}");
        for part in ["line 3 column 6: server `a`: ", why, "3 |   a: "] {
            assert!(ran.stderr.contains(part), "`{part}` not in {}", ran.stderr);
        }
    }
}

#[test]
fn a_missing_variable_disables_only_its_server() {
    let bed = Bed::new(
        "servers:
  fine: {command: '@counter@'}
  url: {url: 'https://${NO_HOST}/mcp'}
  header: {url: 'https://e.com/mcp', headers: {Authorization: 'Bearer ${NO_TOKEN}'}}
",
    );
    let ran = run(&mut named(&bed, ["config", "check"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for (server, variable) in [("url", "NO_HOST"), ("header", "NO_TOKEN")] {
        let note =
            format!("note: server {server} is off: environment variable `{variable}` is not set");
        assert!(ran.stderr.contains(&note), "{}", ran.stderr);
    }
    let ran = run(&mut named(&bed, ["servers", "list", "--json"]));
    let rows = parsed(&ran.stdout);
    let status: Vec<&str> = rows
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["status"].as_str())
        .collect();
    assert_eq!(status, ["ok", "stopped", "stopped"]);
}

#[test]
fn json_is_read_like_yaml() {
    let bed = Bed::new("");
    let json = "{\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"cat\", \"env\": {\"X\": \"\\ud83d\\ude00\\/\"}, \"timeuot\": \"1s\"}\n\t}\n}\n";
    fs::write(bed.path("callgate.json"), json).expect("it is ours");
    let mut command = named(&bed, ["config", "check", "callgate.json"]);
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(2));
    expect![[r#"
        error: configuration `callgate.json`: line 3 column 59: unknown field `timeuot`
         --> callgate.json:3:59
          |
        3 | 		"a": {"command": "cat", "env": {"X": "\ud83d\ude00\/"}, "timeuot": "1s"}
          | 		                                                        ^
        help: did you mean `timeout`?
    "#]]
    .assert_eq(&ran.stderr);
    fs::write(
        bed.path("callgate.json"),
        json.replace("timeuot", "timeout"),
    )
    .expect("it is ours");
    let ran = run(&mut command);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.stdout, "`callgate.json` is valid; servers: 1\n");
}

#[test]
fn the_effective_configuration_is_shown_without_secrets() {
    let bed = Bed::new(
        "servers:
  a: {command: cat, args: [--token, ghp_0123456789abcdefghijABCDEFGHIJ012345], env: {KEY: s3cret, REF: '${REF}'}}
  b: {url: 'https://e.com/mcp?key=s3cret', headers: {Authorization: 'Bearer s3cret', Two: '${A:-s3cret}'}}
auth: {token: s3cret, admin_token: '${ADMIN}'}
activity: {redact: []}
",
    );
    let mut command = named(&bed, ["config", "show"]);
    command.args(["--server", "c:cat -n", "--policy", "allow-all"]);
    let ran = run(command.env("CALLGATE_SERVER_TIMEOUT", "5s").env("REF", "r"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for secret in ["s3cret", "ghp_0123"] {
        assert!(!ran.stdout.contains(secret), "{}", ran.stdout);
    }
    for part in [
        "REF: ${REF}",
        "https://e.com/mcp?[hidden]",
        "policy: allow-all",
        "timeout: 5s",
        "admin_token: ${ADMIN}",
        "listen: 127.0.0.1:7117",
        "  c:\n",
    ] {
        assert!(ran.stdout.contains(part), "`{part}`: {}", ran.stdout);
    }
    fs::write(bed.path("callgate.yaml"), &ran.stdout).expect("it is ours");
    let ran = run(&mut named(&bed, ["config", "check"]));
    assert_eq!(
        ran.code,
        Some(0),
        "what is shown can be read: {}",
        ran.stderr
    );
}

#[test]
fn generated_configuration_pages_are_up_to_date() {
    let bed = Bed::new("");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    for (page, what) in [
        ("callgate.schema.json", "schema"),
        ("configuration-reference.md", "reference"),
    ] {
        let ran = run(&mut named(&bed, ["config", what]));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let kept = fs::read_to_string(docs.join(page)).unwrap_or_default();
        assert!(
            kept == ran.stdout,
            "docs/{page} is stale: run `cargo xtask docs`"
        );
    }
}

#[test]
fn every_configuration_key_is_documented() {
    fn unexplained(path: &str, schema: &Value, found: &mut Vec<String>) {
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            if property["description"].as_str().is_none_or(str::is_empty) {
                found.push(format!("{path}.{key}"));
            }
        }
    }
    let bed = Bed::new("");
    let ran = run(&mut named(&bed, ["config", "schema"]));
    let schema = parsed(&ran.stdout);
    let mut found = Vec::new();
    unexplained("", &schema, &mut found);
    let definitions = schema["$defs"].as_object().expect("there are definitions");
    assert!(definitions.len() > 5, "{definitions:?}");
    for (name, definition) in definitions {
        unexplained(name, definition, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}
