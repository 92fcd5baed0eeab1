//! Refusals: the answer to the agent, the effect on the server, and the record.

use std::fs;
use std::os::unix::fs::symlink;

use crate::evidence::records;
use crate::setup::Bed;
use crate::shell::{named, normalised, run};
use crate::talk::{call, stdio_as, text_of, tools};

const CONFIG: &str = "\
servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}
policy: policy.yaml
";

const POLICY: &str = r#"version: "1"
rules:
  - scope: mcp_tool
    deny:
      - {pattern: "n:wipe", message: "never from an agent"}
      - {pattern: "n:effect", when: 'args.key == "bad"'}
    require_approval: [{pattern: "n:delete_*"}]
    confirm: [{pattern: "n:slow"}]
    allow: [{pattern: "*:*"}]
  - scope: filesystem
    deny: [{paths: ["/etc/**"]}]
    allow: [{paths: ["./**"]}]
tool_scope_map: [{pattern: "n:effect", scope: filesystem}]
"#;

fn bed(policy: &str) -> Bed {
    let bed = Bed::new(CONFIG);
    fs::write(bed.path("policy.yaml"), policy).expect("it is ours");
    bed
}

#[test]
fn refusals_have_their_exact_text_and_send_nothing() {
    let bed = bed(POLICY);
    let mut host = stdio_as(&bed, Some("{}"));
    for (tool, arguments, expected) in [
        ("wipe", r#"{"key":"k"}"#, "[callgate] Action denied by policy.\nReason: never from an agent\nRule: deny:mcp_tool:n:wipe".to_owned()),
        ("effect", r#"{"key":"bad"}"#, "[callgate] Action denied by policy.\nReason: the policy denies `n:effect`\nRule: deny:mcp_tool:n:effect".to_owned()),
        ("effect", r#"{"key":"k","path":"/etc/passwd"}"#, "[callgate] Action denied by policy.\nReason: the policy denies `/etc/**`\nRule: deny:filesystem:/etc/**".to_owned()),
        ("delete_thing", r#"{"key":"k"}"#, "[callgate] Action requires approval.\nReason: the policy requires approval for `n:delete_*`\nApproval ID: $ID\nApprove at: http://127.0.0.1:7117/approvals/$ID".to_owned()),
        ("slow", r#"{"key":"k"}"#, "[callgate] Action requires approval.\nReason: the policy requires confirmation for `n:slow`\nApproval ID: $ID\nApprove at: http://127.0.0.1:7117/approvals/$ID".to_owned()),
    ] {
        let response = call(&mut host, &format!("n__{tool}"), arguments);
        assert_eq!(response["result"]["isError"], true);
        let id = response["result"]["_meta"]["dev.callgate/approval_id"].as_str();
        let told = text_of(&response).replace(id.unwrap_or("$ID"), "$ID");
        assert_eq!(told, expected);
    }
    assert_eq!(bed.read("ledger"), "", "nothing was sent");
    let listed = tools(&mut host);
    assert!(
        !listed.contains(&"n__wipe".to_owned()),
        "what is always denied is not listed"
    );
    for shown in ["n__effect", "n__delete_thing", "n__slow"] {
        assert!(listed.contains(&shown.to_owned()), "{shown}");
    }
}

#[test]
fn one_record_names_every_scope_that_judged_the_call() {
    let bed = bed(POLICY);
    let mut host = bed.stdio_ready();
    fs::create_dir(bed.path("inside")).expect("it is ours");
    let inside = bed.path("inside/x").display().to_string();
    for (key, path) in [("fine", inside.as_str()), ("no", "/etc/passwd")] {
        call(
            &mut host,
            "n__effect",
            &format!(r#"{{"key":"{key}","path":"{path}"}}"#),
        );
    }
    drop(host);
    assert_eq!(bed.read("ledger"), "fine\n");
    let records = records(&bed);
    assert_eq!(records.len(), 2);
    let judged = |at: usize, decision: &str, rule: &str| {
        let path = &records[at]["arguments"]["path"];
        let checks = records[at]["checks"].to_string();
        assert_eq!(
            checks,
            format!(
                r#"[{{"scope":"mcp_tool","decision":"ALLOW","rule":"allow:mcp_tool:*:*"}},{{"scope":"filesystem","decision":"{decision}","rule":"{rule}","paths":[{path}]}}]"#
            )
        );
    };
    judged(0, "ALLOW", "allow:filesystem:./**");
    judged(1, "DENY", "deny:filesystem:/etc/**");
    assert_eq!(records[1]["rule"], "deny:filesystem:/etc/**");
}

#[test]
fn recorded_checks_name_their_subject() {
    let bed = bed(
        "version: '1'\nrules:\n  - {scope: mcp_tool, allow: [{pattern: '*'}]}\n  - {scope: network, deny: [{domains: [loopback]}], allow: [{domains: ['*']}]}\n  \
         - {scope: shell, deny: [{pattern: '*rm *'}], allow: [{pattern: '*'}]}\n  - {scope: filesystem, deny: [{action: delete, paths: ['/etc/**']}], allow: [{paths: ['**']}]}\n\
         tool_scope_map: [{pattern: 'n:effect', scope: network}, {pattern: 'n:read_thing', scope: shell}, {pattern: 'n:delete_*', scope: filesystem}]\n",
    );
    let mut host = bed.stdio_ready();
    for (tool, arguments) in [
        (
            "effect",
            r#"{"key":"k","url":"https://a.com","x":"http:/127.1"}"#,
        ),
        (
            "read_thing",
            r#"{"key":"k","command":"rm --token=sk-ant-abcdefghijklmnopqrstuvwxyz0123456789 x"}"#,
        ),
        ("delete_thing", r#"{"key":"k","paths":["/tmp/x","/etc/y"]}"#),
    ] {
        let response = call(&mut host, &format!("n__{tool}"), arguments);
        assert!(text_of(&response).contains("denied by policy"), "{tool}");
    }
    drop(host);
    let records = records(&bed);
    let check = |at: usize| &records[at]["checks"][1];
    assert_eq!(check(0)["rule"], "deny:network:loopback");
    assert_eq!(check(0)["domain"], "http:/127.1");
    let command = check(1)["command"].as_str().expect("the command is named");
    assert!(
        command.starts_with("rm ") && !command.contains("abcdefghij"),
        "{command}"
    );
    assert_eq!(check(2)["action"], "delete");
    assert_eq!(check(2)["paths"].to_string(), r#"["/etc/y","/tmp/x"]"#);
    assert_eq!(records[0]["checks"][0].get("domain"), None);
}

#[test]
fn symlinks_do_not_bypass_path_rules() {
    let bed = bed(POLICY);
    symlink("/etc", bed.path("link")).expect("it is ours");
    symlink("/etc/not-there-yet", bed.path("dangling")).expect("it is ours");
    let mut host = bed.stdio_ready();
    for path in ["link/passwd", "link", "dangling", "link/../etc/passwd"] {
        let path = bed.path(path).display().to_string();
        let response = call(
            &mut host,
            "n__effect",
            &format!(r#"{{"key":"k","path":"{path}"}}"#),
        );
        assert!(text_of(&response).contains("denied by policy"), "{path}");
    }
    assert_eq!(bed.read("ledger"), "");
}

#[test]
fn rate_limits_and_conditions_count_forwarded_calls() {
    let bed = bed(r#"version: "1"
rules:
  - scope: mcp_tool
    deny: [{pattern: "n:effect", conditions: [{require_prior: "read_*", time_window: 1h}], message: "read first"}]
    allow: [{pattern: "*:*"}]
  - scope: writes
    allow: [{pattern: "*"}]
    rate_limit: {max_requests: 2, window: 1h}
tool_scope_map: [{pattern: "n:effect", scope: writes}]
"#);
    let mut host = bed.stdio_ready();
    let mut said = |tool: &str, key: &str| {
        let arguments = format!(r#"{{"key":"{key}"}}"#);
        text_of(&call(&mut host, &format!("n__{tool}"), &arguments))
    };
    assert!(said("effect", "a").contains("Reason: read first"));
    said("read_thing", "k");
    assert!(!said("effect", "b").contains("denied"));
    assert!(said("effect", "c").contains("Rule: deny:ratelimit:writes"));
    assert_eq!(bed.read("ledger"), "b\n");
}

#[test]
fn spending_per_session_is_limited() {
    let bed = bed(
        "version: '1'\nrules:\n  - {scope: mcp_tool, allow: [{pattern: '*'}]}\n  - {scope: cost, limits: {max_per_action: 1, max_per_session: 1.5}}\n",
    );
    let mut host = bed.stdio_ready();
    let mut spend = |key: &str, cost: &str| {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{{"name":"n__effect","arguments":{{"key":"{key}"}},"_meta":{{"dev.callgate/est_cost":{cost}}}}}}}"#
        );
        text_of(&crate::talk::request(&mut host, &line))
    };
    assert!(!spend("a", "1").contains("denied"));
    assert!(spend("b", "2").contains("Rule: deny:cost:max_per_action"));
    assert!(spend("c", "0.75").contains("Rule: deny:cost:max_per_session"));
    assert!(spend("d", "-1").contains("Rule: deny:cost:negative_value"));
    assert!(spend("e", r#""1""#).contains("Rule: deny:cost:unreadable_value"));
    assert!(!spend("f", "0.5").contains("denied"));
    assert_eq!(bed.read("ledger"), "a\nf\n");
}

#[test]
fn an_invalid_policy_prevents_the_start() {
    let bed = bed("version: '1'\nrules: [{scope: mcp_tool, alow: []}]\n");
    for command in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["stdio"],
        &["tools", "list"],
    ] {
        let ran = run(&mut named(&bed, command));
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(2), ""),
            "{command:?}"
        );
        let said = normalised(&bed, &ran.stderr);
        assert!(
            said.starts_with(
                "error: policy `$DIR/policy.yaml`: line 2 column 27: unknown field `alow`"
            ),
            "{said}"
        );
    }
    fs::remove_file(bed.path("policy.yaml")).expect("it is ours");
    let ran = run(&mut named(&bed, ["tools", "list"]));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn flags_override_the_file_and_fast_mode_judges_names_only() {
    let bed = bed(POLICY);
    fs::write(
        bed.path("open.yaml"),
        "version: '1'\nrules: [{scope: mcp_tool, allow: [{pattern: '*'}]}]\n",
    )
    .expect("it is ours");
    let effect = |flags: &[&str]| {
        let call = ["call", "n:effect", r#"{"key":"k","path":"/etc/passwd"}"#];
        run(&mut named(&bed, [&call, flags].concat())).code
    };
    assert_eq!(effect(&[]), Some(1));
    assert_eq!(effect(&["--policy-mode", "fast"]), Some(0));
    assert_eq!(effect(&["--policy", "open.yaml"]), Some(0));
    assert_eq!(effect(&["--policy", "not-there.yaml"]), Some(1));
    assert_eq!(effect(&["--policy-mode", "lax"]), Some(1));
}
