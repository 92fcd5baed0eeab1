//! `callgate policy check|test|explain|replay`.

use std::fs;

use expect_test::expect;

use crate::setup::Bed;
use crate::shell::{Ran, named, normalised, run, typed};
use crate::talk::{call, parsed};

const POLICY: &str = r#"version: "1"
name: team
rules:
  - scope: mcp_tool
    deny: [{pattern: "*:drop_*", message: "never from an agent"}]
    require_approval: [{pattern: "*:*", when: tool.destructive}]
    allow: [{pattern: "*:*"}]
  - scope: filesystem
    deny: [{paths: ["/etc/**"]}]
    allow: [{action: read, paths: ["./**"]}]
tool_scope_map: [{pattern: "fs:*", scope: filesystem}]
"#;

fn bed() -> Bed {
    let bed = Bed::new("servers: {}\npolicy: policy.yaml\n");
    write(&bed, "policy.yaml", POLICY);
    bed
}

fn write(bed: &Bed, name: &str, text: &str) {
    fs::write(bed.path(name), text).expect("it is ours");
}

fn policy(bed: &Bed, args: &[&str]) -> Ran {
    let mut ran = run(&mut named(bed, [&["policy"], args].concat()));
    ran.stdout = normalised(bed, &ran.stdout);
    ran.stderr = normalised(bed, &ran.stderr);
    ran
}

#[test]
fn policy_check_reports_problems_with_their_position() {
    let bed = bed();
    let ran = policy(&bed, &["check"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.stdout, "`$DIR/policy.yaml` is valid; rules: 5\n");
    let wrong = POLICY
        .replace("*:drop_*", "drop_*")
        .replace("destructive", "destructiv");
    write(&bed, "wrong.yaml", &wrong);
    let ran = policy(&bed, &["check", "wrong.yaml"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    expect![[r#"
        error: policy `wrong.yaml`: line 5 column 22: `drop_*` can never match: tools are called `server:tool`
         --> wrong.yaml:5:22
          |
        5 |     deny: [{pattern: "drop_*", message: "never from an agent"}]
          |                      ^
        help: did you mean `*:drop_*`?
        error: policy `wrong.yaml`: line 6 column 47: unknown field `tool.destructiv`
         --> wrong.yaml:6:47
          |
        6 |     require_approval: [{pattern: "*:*", when: tool.destructiv}]
          |                                               ^
        help: did you mean `destructive`?
    "#]]
    .assert_eq(&ran.stderr);
    let ran = run(&mut typed(&bed, ["policy", "check"]));
    assert_eq!(
        ran.code,
        Some(1),
        "the folder's file is not used: {}",
        ran.stderr
    );
    let ran = policy(&bed, &["check", "--json"]);
    assert_eq!(parsed(&ran.stdout)["rules"], 5);
}

#[test]
fn policy_test_runs_the_cases_beside_the_policy() {
    let bed = bed();
    write(
        &bed,
        "policy.tests.yaml",
        r#"tests:
  - {name: no drops, call: "db:drop_all", expect: deny, rule: "deny:mcp_tool:*:drop_*"}
  - {name: reads here, call: "fs:read_file", args: {path: src/a}, expect: allow}
"#,
    );
    for args in [
        &["test"][..],
        &["test", "policy.yaml"],
        &["test", "policy.tests.yaml"],
    ] {
        let ran = policy(&bed, args);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert_eq!(ran.stdout, "ok     no drops\nok     reads here\n");
    }
    write(
        &bed,
        "policy.tests.yaml",
        "tests:\n  - {name: writes too, call: 'fs:write_file', args: {path: src/a}, expect: allow}\n",
    );
    let ran = policy(&bed, &["test"]);
    assert_eq!(ran.code, Some(1));
    expect![[r#"
        FAILED writes too
               $DIR/policy.tests.yaml:2
               expected allow
               actual   deny by deny:default
    "#]]
    .assert_eq(&ran.stdout);
    assert_eq!(ran.stderr, "error: 1 of 1 cases failed\n");
    let ran = policy(&bed, &["test", "--json"]);
    let report = parsed(&ran.stdout);
    assert_eq!(
        (ran.code, &report["tests"][0]["passed"]),
        (Some(1), &false.into())
    );
    write(
        &bed,
        "policy.tests.yaml",
        "tests: [{name: x, cal: y, expect: allow}]\n",
    );
    assert_eq!(policy(&bed, &["test"]).code, Some(2));
    fs::remove_file(bed.path("policy.tests.yaml")).expect("it is ours");
    assert_eq!(policy(&bed, &["test"]).code, Some(2));
}

#[test]
fn policy_explain_lists_every_rule_it_tried() {
    let bed = bed();
    std::os::unix::fs::symlink("/etc", bed.path("link")).expect("it is ours");
    let ran = policy(
        &bed,
        &["explain", "fs:read_file", r#"{"path":"link/passwd"}"#],
    );
    let note = "note: no server has listed fs:read_file yet";
    assert!(
        ran.code == Some(0) && ran.stderr.starts_with(note),
        "{}",
        ran.stderr
    );
    expect![[r#"
        deny by deny:filesystem:/etc/**
          mcp_tool: allow by allow:mcp_tool:*:* — the policy allows `*:*`
          filesystem: deny by deny:filesystem:/etc/** — the policy denies `/etc/**`

        scope mcp_tool: allow by allow:mcp_tool:*:*
          subject `fs:read_file`
            line 5: deny:mcp_tool:*:drop_* — no match: pattern
            line 6: require_approval:mcp_tool:*:* — no match: `when` is false
            line 7: allow:mcp_tool:*:* — matches

        scope filesystem: deny by deny:filesystem:/etc/**
          subject `$DIR/link/passwd`
            line 9: deny:filesystem:/etc/** — matches
            line 10: allow:filesystem:./** — no match: no path matched

        facts
          `$DIR/link/passwd` is `/etc/passwd`
    "#]]
    .assert_eq(&ran.stdout);
    let ran = policy(&bed, &["explain", "x:y", "--destructive", "--json"]);
    let told = parsed(&ran.stdout);
    assert_eq!(told["verdict"], "require_approval");
    assert_eq!(
        told["explained"]["scopes"][0]["subjects"][0]["rules"][1]["matches"],
        true
    );
    assert_eq!(policy(&bed, &["explain", "nothing"]).code, Some(1));
    assert_eq!(policy(&bed, &["explain", "a:b", "{"]).code, Some(1));
}

#[test]
fn policy_replay_shows_decisions_of_another_policy() {
    let bed = Bed::new(
        "servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}\npolicy: allow-all\nactivity: {body_bytes: 100}\n",
    );
    let mut host = bed.stdio_ready();
    call(&mut host, "n__read_thing", r#"{"key":"a"}"#);
    call(&mut host, "n__delete_thing", r#"{"key":"b"}"#);
    call(
        &mut host,
        "n__effect",
        r#"{"key":"c","password":"password=hunter2"}"#,
    );
    call(
        &mut host,
        "n__effect",
        &format!(r#"{{"key":"d","x":"{}"}}"#, "x".repeat(500)),
    );
    drop(host);
    write(
        &bed,
        "new.yaml",
        "version: '1'\nrules: [{scope: mcp_tool, deny: [{pattern: 'n:delete_*'}], allow: [{pattern: '*'}]}]\n",
    );
    let replay = |args: &[&str]| {
        let args = [&["replay", "--policy", "new.yaml", "--json"], args].concat();
        parsed(&policy(&bed, &args).stdout)
    };
    let told = replay(&[]);
    assert_eq!(
        (&told["same"], &told["different"]),
        (&1.into(), &1.into()),
        "{told}"
    );
    assert_eq!(told["undecidable"], 2, "{told}");
    let differences = told["differences"].as_array().expect("a list");
    let delete = differences
        .iter()
        .find(|row| row["tool"] == "n:delete_thing")
        .expect("it differs");
    assert_eq!(
        (&delete["was"], &delete["now"]),
        (&"allow".into(), &"deny".into())
    );
    assert_eq!(delete["rule"], "deny:mcp_tool:n:delete_*");
    assert_eq!(replay(&["--since", "0s"])["same"], 0);
    let table = policy(&bed, &["replay", "--policy", "new.yaml"]);
    assert!(
        table.stdout.contains("undecidable") && table.stdout.starts_with("ID"),
        "{}",
        table.stdout
    );
    assert_eq!(
        table.stderr,
        "1 calls unchanged, 1 different, 2 undecidable\n"
    );
}
