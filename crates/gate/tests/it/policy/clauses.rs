//! Every clause of the language, by example.

use callgate_gate::{Kind, Mode, Verdict, decide};
use callgate_testkit::policy::Case;

use super::given::{self, case, policy, said};

/// The verdict and the rule, as `verdict rule`.
pub(super) fn says(text: &str, case: &Case) -> String {
    let (kind, rule) = said(&policy(text), case);
    format!("{kind} {rule}")
}

const ORDER: &str = r#"
version: "1"
name: team-default
rules:
  - scope: mcp_tool
    allow: [{pattern: "*:*"}]
    confirm: [{pattern: "*:c*"}]
    require_approval: [{pattern: "*:?*"}, {pattern: "*:ca*"}]
    deny: [{pattern: "*:cab*", message: "never from an agent"}]
"#;

#[test]
fn rules_of_a_scope_apply_as_deny_approval_confirm_allow() {
    for (tool, expected) in [
        ("x", "allow allow:mcp_tool:*:*"),
        ("cx", "confirm confirm:mcp_tool:*:c*"),
        ("cax", "require_approval require_approval:mcp_tool:*:ca*"),
        ("caba", "deny deny:mcp_tool:*:cab*"),
    ] {
        assert_eq!(says(ORDER, &case("s", tool, "{}")), expected);
    }
}

#[test]
fn calls_matched_by_no_rule_are_denied() {
    let text = "version: 1\nrules: [{scope: mcp_tool, allow: [{pattern: 'fs:read'}]}]";
    assert_eq!(says(text, &case("fs", "write", "{}")), "deny deny:default");
    let nothing = "version: '1'";
    assert_eq!(
        says(nothing, &case("fs", "write", "{}")),
        "deny deny:default"
    );
}

#[test]
fn a_rules_message_becomes_the_reason() {
    let policy = policy(ORDER);
    let reason = |tool: &str| {
        let call = given::call(&case("s", tool, "{}"));
        match decide(call, &policy, &Default::default()) {
            Verdict::Permit(permit) => permit.ruling().reason.clone(),
            Verdict::Hold(hold) => hold.ruling().reason.clone(),
            Verdict::Deny(denied) => denied.ruling().reason.clone(),
        }
    };
    assert_eq!(reason("cab"), "never from an agent");
    assert_eq!(reason("ca"), "the policy requires approval for `*:ca*`");
}

#[test]
fn all_fields_of_a_rule_must_match() {
    let text = r#"
version: "1"
rules:
  - {scope: mcp_tool, allow: [{pattern: "*:*"}]}
  - scope: filesystem
    deny: [{action: delete, paths: ["/srv/**"]}]
    allow: [{action: read, paths: ["/srv/**"]}, {paths: ["/tmp/**"], when: 'args.path != "/tmp/x"'}]
tool_scope_map: [{pattern: "fs:*", scope: filesystem}]
"#;
    for (tool, path, expected) in [
        ("read_file", "/srv/a", "allow allow:mcp_tool:*:*"),
        ("write_file", "/srv/a", "deny deny:default"),
        ("delete_file", "/srv/a", "deny deny:filesystem:/srv/**"),
        ("delete_file", "/tmp/a", "allow allow:mcp_tool:*:*"),
        ("delete_file", "/tmp/x", "deny deny:default"),
        // What a name does not say could be any action: refused by `deny`, not let through by `allow`.
        ("chmod", "/srv/a", "deny deny:filesystem:/srv/**"),
    ] {
        let case = case("fs", tool, &format!(r#"{{"path":"{path}"}}"#));
        assert_eq!(says(text, &case), expected, "{tool} {path}");
    }
}

#[test]
fn path_rules_work_with_and_without_an_action() {
    for action in ["", "action: read, "] {
        let text = format!(
            "version: '1'\nrules:\n  - {{scope: mcp_tool, allow: [{{pattern: '*:*'}}]}}\n  - scope: filesystem\n    \
             deny: [{{{action}paths: ['/etc/**', '~/.ssh/**']}}]\n    allow: [{{{action}paths: ['**']}}]\n\
             tool_scope_map: [{{pattern: 'fs:*', scope: filesystem}}]\n"
        );
        let read = |path: &str| {
            says(
                &text,
                &case("fs", "read_file", &format!(r#"{{"path":"{path}"}}"#)),
            )
        };
        assert_eq!(read("/etc/passwd"), "deny deny:filesystem:/etc/**");
        assert_eq!(read("~/.ssh/id"), "deny deny:filesystem:~/.ssh/**");
        assert_eq!(read("/tmp/x"), "allow allow:mcp_tool:*:*");
    }
}

#[test]
fn an_expression_that_fails_is_a_match_except_in_allow() {
    for (kind, expected) in [
        ("deny", "deny deny:mcp_tool:*:*"),
        (
            "require_approval",
            "require_approval require_approval:mcp_tool:*:*",
        ),
        ("confirm", "confirm confirm:mcp_tool:*:*"),
        ("allow", "deny deny:default"),
    ] {
        let text = format!(
            "version: '1'\nrules: [{{scope: mcp_tool, {kind}: [{{pattern: '*:*', when: 'args.missing == 1'}}]}}]"
        );
        assert_eq!(says(&text, &case("s", "t", "{}")), expected, "{kind}");
    }
}

#[test]
fn expressions_can_read_tool_args_intent_agent_and_session() {
    let expressions = [
        "tool.destructive",
        "tool.server == 'gh' && tool.name == 'push' && tool.annotated && !tool.read_only",
        "args.repo.startsWith('acme/')",
        "intent.operation_type == 'destructive'",
        "agent == 'ci-1' && session == 's1'",
    ];
    for when in expressions {
        let text = format!(
            "version: '1'\nrules:\n  - scope: mcp_tool\n    allow: [{{pattern: 'gh:*', when: \"{when}\"}}]"
        );
        let case = Case {
            destructive: Some(true),
            agent: "ci-1".into(),
            ..case("gh", "push", r#"{"repo":"acme/x"}"#)
        };
        assert_eq!(says(&text, &case), "allow allow:mcp_tool:gh:*", "{when}");
    }
}

pub(super) const TWO_SCOPES: &str = r#"
version: "1"
rules:
  - {scope: mcp_tool, require_approval: [{pattern: "fs:write_*"}], allow: [{pattern: "*:*"}]}
  - {scope: filesystem, deny: [{paths: ["/etc/**"]}], allow: [{paths: ["**"]}]}
tool_scope_map: [{pattern: "fs:*", scope: filesystem}, {pattern: "x:*", scope: unheard_of}]
"#;

#[test]
fn strict_mode_judges_both_scopes_and_fast_mode_only_the_name() {
    let policy = policy(TWO_SCOPES);
    let write = |path: &str| case("fs", "write_file", &format!(r#"{{"path":"{path}"}}"#));
    assert_eq!(said(&policy, &write("/etc/x")).1, "deny:filesystem:/etc/**");
    assert_eq!(
        said(&policy, &write("/tmp/x")).1,
        "require_approval:mcp_tool:fs:write_*"
    );
    let call = given::call(&write("/etc/x"));
    let facts = given::facts(&policy, &call, &write("/etc/x"));
    let checks = policy.judge(&call, &facts);
    let names: Vec<(&str, Kind)> = checks.iter().map(|c| (c.scope.as_str(), c.kind)).collect();
    assert_eq!(
        names,
        [
            ("mcp_tool", Kind::RequireApproval),
            ("filesystem", Kind::Deny)
        ]
    );
    let fast = policy.mode(Mode::Fast);
    assert_eq!(
        said(&fast, &write("/etc/x")).1,
        "require_approval:mcp_tool:fs:write_*"
    );
    assert!(fast.needs(&given::call(&write("/etc/x"))).is_empty());
}

#[test]
fn a_mapped_scope_without_rules_adds_nothing() {
    assert_eq!(
        says(TWO_SCOPES, &case("x", "y", r#"{"path":"/etc/x"}"#)),
        "allow allow:mcp_tool:*:*"
    );
}

#[test]
fn shell_network_browser_and_data_are_projected() {
    let text = r#"
version: "1"
rules:
  - {scope: mcp_tool, allow: [{pattern: "*:*"}]}
  - {scope: shell, deny: [{pattern: "rm -rf *"}], allow: [{pattern: "*"}]}
  - {scope: network, deny: [{domain: "evil.com"}], allow: [{domains: ["*.x.com"]}]}
  - {scope: browser, allow: [{domains: ["*.x.com"]}]}
  - {scope: data, deny: [{pattern: "*AKIA*"}], allow: [{pattern: "*"}]}
tool_scope_map:
  - {pattern: "sh:*", scope: shell}
  - {pattern: "net:*", scope: network}
  - {pattern: "web:*", scope: browser}
  - {pattern: "db:*", scope: data}
"#;
    let allowed = "allow allow:mcp_tool:*:*";
    for (server, arguments, expected) in [
        ("sh", r#"{"command":"ls"}"#, allowed),
        (
            "sh",
            r#"{"command":"rm -rf /"}"#,
            "deny deny:shell:rm -rf *",
        ),
        ("sh", r#"{"cmd":"rm   -rf\t/"}"#, "deny deny:shell:rm -rf *"),
        (
            "sh",
            r#"{"script":["rm","-rf","/"]}"#,
            "deny deny:shell:rm -rf *",
        ),
        (
            "sh",
            r#"{"command":"rm","args":["-rf","/"]}"#,
            "deny deny:shell:rm -rf *",
        ),
        ("sh", "{}", "deny deny:default"),
        ("net", r#"{"url":"https://a.X.com:8443/y"}"#, allowed),
        ("net", r#"{"url":"https://x.com/"}"#, "deny deny:default"),
        (
            "net",
            r#"{"host":"EVIL.com."}"#,
            "deny deny:network:evil.com",
        ),
        (
            "net",
            r#"{"domain":"a.x.com","x":"https://evil.com/"}"#,
            "deny deny:network:evil.com",
        ),
        ("web", r#"{"hostname":"a.b.x.com"}"#, allowed),
        (
            "web",
            r#"{"url":"https://a.x.com\\@evil.com/"}"#,
            "deny deny:browser:unclear_address",
        ),
        ("db", r#"{"value":"hello"}"#, allowed),
        (
            "db",
            r#"{"data":{"rows":["x","AKIA123"]}}"#,
            "deny deny:data:*AKIA*",
        ),
        (
            "db",
            r#"{"text":"AKIA1","content":"x"}"#,
            "deny deny:data:*AKIA*",
        ),
    ] {
        assert_eq!(
            says(text, &case(server, "do", arguments)),
            expected,
            "{server} {arguments}"
        );
    }
}

#[test]
fn custom_scopes_can_rate_limit_their_tools() {
    let text = r#"
version: "1"
rules:
  - {scope: mcp_tool, allow: [{pattern: "*:*"}]}
  - {scope: writes, allow: [{pattern: "*"}], rate_limit: {max_requests: 20, window: 1h}}
tool_scope_map: [{pattern: "*:write_*", scope: writes}]
"#;
    let mut write = case("fs", "write_file", "{}");
    assert_eq!(says(text, &write), "allow allow:mcp_tool:*:*");
    write.used_up.insert("writes".into());
    assert_eq!(says(text, &write), "deny deny:ratelimit:writes");
    let mut read = case("fs", "read_file", "{}");
    read.used_up.insert("writes".into());
    assert_eq!(says(text, &read), "allow allow:mcp_tool:*:*");
    let needs = policy(text).needs(&given::call(&write));
    assert_eq!(needs.rates.len(), 1);
    assert_eq!(
        (needs.rates[0].max_requests, needs.rates[0].window.as_secs()),
        (20, 3600)
    );
}

#[test]
fn conditions_can_require_earlier_calls() {
    for (kind, other, unmet, met) in [
        (
            "allow",
            "",
            "deny deny:default",
            "allow allow:mcp_tool:fs:write",
        ),
        (
            "deny",
            "allow: [{pattern: '*:*'}], ",
            "deny deny:mcp_tool:fs:write",
            "allow allow:mcp_tool:*:*",
        ),
        (
            "require_approval",
            "allow: [{pattern: '*:*'}], ",
            "require_approval require_approval:mcp_tool:fs:write",
            "allow allow:mcp_tool:*:*",
        ),
    ] {
        let text = format!(
            "version: '1'\nrules: [{{scope: mcp_tool, {other}{kind}: [{{pattern: 'fs:write', \
             conditions: [{{require_prior: 'read_*', time_window: 1h}}]}}]}}]"
        );
        let mut call = case("fs", "write", "{}");
        assert_eq!(says(&text, &call), unmet, "{kind}");
        call.met.insert("read_*".into());
        assert_eq!(says(&text, &call), met, "{kind}");
        assert!(policy(&text).remembers());
    }
}

#[test]
fn cost_limits_have_their_own_rules() {
    let text = r#"
version: "1"
rules:
  - {scope: mcp_tool, allow: [{pattern: "*:*"}]}
  - {scope: cost, limits: {max_per_action: 1.00, max_per_session: 20.00, alert_threshold: 0.50}}
"#;
    for (cost, spent, expected) in [
        (None, 0.0, "allow allow:mcp_tool:*:*"),
        (Some(0.5), 0.0, "allow allow:mcp_tool:*:*"),
        (Some(-1.0), 0.0, "deny deny:cost:negative_value"),
        (Some(1.01), 0.0, "deny deny:cost:max_per_action"),
        (Some(0.4), 19.9, "deny deny:cost:max_per_session"),
        (
            Some(0.6),
            0.0,
            "require_approval require_approval:cost:alert_threshold",
        ),
    ] {
        let case = Case {
            cost,
            spent,
            ..case("s", "t", "{}")
        };
        assert_eq!(says(text, &case), expected, "{cost:?} {spent}");
    }
}
