//! What the built-in policies and the tool lists of the configuration say.

use std::sync::Arc;

use callgate_gate::{
    Builtin, Check, Facts, Kind, Pattern, Policy, Ruling, Target, Tool, ToolFilter, Verdict, decide,
};

use crate::given::{call, described, named, server};

#[derive(Debug, PartialEq, Eq)]
enum Said {
    Permit,
    Hold,
    Deny,
}

fn say(policy: &Policy, tool: &Tool) -> (Said, Ruling) {
    match decide(
        call(Target::Tool(Arc::new(tool.clone()))),
        policy,
        &Facts::default(),
    ) {
        Verdict::Permit(permit) => (Said::Permit, permit.ruling().clone()),
        Verdict::Hold(hold) => (Said::Hold, hold.ruling().clone()),
        Verdict::Deny(denied) => (Said::Deny, denied.ruling().clone()),
    }
}

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text)).collect()
}

fn filtered(builtin: Builtin, allow: Option<&[&str]>, deny: &[&str]) -> Policy {
    let filter = ToolFilter {
        offered: None,
        allow: allow.map(patterns),
        deny: patterns(deny),
    };
    Policy::new(builtin, [(server("fs"), filter)].into())
}

#[test]
fn the_default_policy_uses_hints_and_then_the_name() {
    let cases = [
        ("list", "", Said::Permit),
        ("list", r#""destructiveHint":true"#, Said::Hold),
        (
            "list",
            r#""destructiveHint":true,"readOnlyHint":true"#,
            Said::Hold,
        ),
        ("list", r#""destructiveHint":"true""#, Said::Permit),
        ("delete_file", "", Said::Hold),
        ("delete_file", r#""title":"Delete""#, Said::Hold),
        ("delete_file", r#""destructiveHint":null"#, Said::Hold),
        ("delete_file", r#""readOnlyHint":"true""#, Said::Hold),
        ("delete_file", r#""readOnlyHint":true"#, Said::Permit),
        ("delete_file", r#""readOnlyHint":false"#, Said::Hold),
        ("bulkDelete", r#""readOnlyHint":false"#, Said::Hold),
        ("db_drop", r#""readOnlyHint":false"#, Said::Hold),
        ("Write", r#""readOnlyHint":false"#, Said::Permit),
        ("delete_file", r#""destructiveHint":false"#, Said::Permit),
        ("delete_file", r#""destructiveHint":true"#, Said::Hold),
    ];
    for (name, annotations, expected) in cases {
        let tool = described(
            "fs",
            &format!(r#"{{"name":"{name}","annotations":{{{annotations}}}}}"#),
        );
        let (said, ruling) = say(&Policy::default(), &tool);
        let rule = match said {
            Said::Permit => "allow:mcp_tool:*:*",
            Said::Hold => "require_approval:mcp_tool:*:*",
            Said::Deny => panic!("the default policy denies nothing"),
        };
        assert_eq!(
            (said, ruling.rule.as_str()),
            (expected, rule),
            "{name} {annotations}"
        );
    }
}

#[test]
fn unannotated_tools_with_a_destructive_verb_are_held() {
    let held = [
        ("delete", "delete"),
        ("DELETE", "delete"),
        ("deleteFile", "delete"),
        ("DeleteFile", "delete"),
        ("DELETE_FILE", "delete"),
        ("file.delete", "delete"),
        ("file-delete", "delete"),
        ("file/delete", "delete"),
        ("delete2", "delete"),
        ("HTTPDelete", "delete"),
        ("dbDROP", "drop"),
        ("dropTable", "drop"),
        ("bulk_remove_all", "remove"),
        ("destroy-vm", "destroy"),
        ("purgeCDN", "purge"),
        ("truncate_table", "truncate"),
        ("wipeDisk", "wipe"),
        ("SecureErase", "erase"),
    ];
    for (name, verb) in held {
        let (said, ruling) = say(&Policy::default(), &named("fs", name));
        assert_eq!(said, Said::Hold, "{name}");
        assert!(
            ruling.reason.contains(&format!("`fs:{name}`")),
            "{}",
            ruling.reason
        );
        assert!(
            ruling
                .reason
                .ends_with(&format!("its name contains `{verb}`")),
            "{}",
            ruling.reason
        );
    }
    for name in [
        "undelete",
        "dropdown",
        "deleted_items",
        "list",
        "remover",
        "eraser",
        "",
        "löschen",
    ] {
        assert_eq!(
            say(&Policy::default(), &named("fs", name)).0,
            Said::Permit,
            "{name}"
        );
    }
}

#[test]
fn the_cautious_policy_holds_tools_not_marked_harmless() {
    let policy = Policy::new(Builtin::Cautious, Default::default());
    let cases = [
        ("list", "", Said::Hold),
        ("list", r#""readOnlyHint":false"#, Said::Hold),
        ("list", r#""openWorldHint":false"#, Said::Hold),
        ("list", r#""destructiveHint":"false""#, Said::Hold),
        ("list", r#""readOnlyHint":true"#, Said::Permit),
        ("list", r#""destructiveHint":false"#, Said::Permit),
        (
            "delete",
            r#""readOnlyHint":false,"destructiveHint":false"#,
            Said::Permit,
        ),
        (
            "list",
            r#""readOnlyHint":true,"destructiveHint":true"#,
            Said::Hold,
        ),
    ];
    for (name, annotations, expected) in cases {
        let tool = described(
            "fs",
            &format!(r#"{{"name":"{name}","annotations":{{{annotations}}}}}"#),
        );
        let (said, ruling) = say(&policy, &tool);
        assert_eq!(said, expected, "{name} {annotations}");
        assert!(ruling.rule.ends_with(":mcp_tool:*:*"), "{}", ruling.rule);
    }
}

#[test]
fn allow_all_permits_without_approval() {
    let policy = Policy::new(Builtin::AllowAll, Default::default());
    let declared = described(
        "fs",
        r#"{"name":"x","annotations":{"destructiveHint":true}}"#,
    );
    for tool in [declared, named("fs", "delete_everything")] {
        let (said, ruling) = say(&policy, &tool);
        assert_eq!(
            (said, ruling.rule.as_str()),
            (Said::Permit, "allow:mcp_tool:*:*")
        );
    }
}

#[test]
fn tool_lists_come_before_the_built_in_policy() {
    type Case<'a> = (Option<&'a [&'a str]>, &'a [&'a str], &'a str, Said, &'a str);
    let cases: [Case<'_>; 10] = [
        (None, &[], "read", Said::Permit, "allow:mcp_tool:*:*"),
        (None, &["read"], "read", Said::Deny, "deny:mcp_tool:fs:read"),
        (
            None,
            &["read"],
            "reader",
            Said::Permit,
            "allow:mcp_tool:*:*",
        ),
        (
            None,
            &["x", "re*"],
            "read",
            Said::Deny,
            "deny:mcp_tool:fs:re*",
        ),
        (
            None,
            &["*", "read"],
            "read",
            Said::Deny,
            "deny:mcp_tool:fs:*",
        ),
        (
            None,
            &["del*"],
            "delete",
            Said::Deny,
            "deny:mcp_tool:fs:del*",
        ),
        (
            Some(&["read*"]),
            &[],
            "read_all",
            Said::Permit,
            "allow:mcp_tool:*:*",
        ),
        (Some(&["read*"]), &[], "write", Said::Deny, "deny:default"),
        (Some(&[]), &[], "read", Said::Deny, "deny:default"),
        (
            Some(&["*"]),
            &["read"],
            "read",
            Said::Deny,
            "deny:mcp_tool:fs:read",
        ),
    ];
    for (allow, deny, name, expected, rule) in cases {
        for builtin in [Builtin::Default, Builtin::AllowAll] {
            let policy = filtered(builtin, allow, deny);
            let tool = named("fs", name);
            let (said, ruling) = say(&policy, &tool);
            assert_eq!(
                (&said, ruling.rule.as_str()),
                (&expected, rule),
                "{allow:?} {deny:?} {name}"
            );
            assert_eq!(policy.shows(&tool), said != Said::Deny);
        }
    }
}

#[test]
fn an_allow_listed_destructive_tool_still_needs_approval() {
    let policy = filtered(Builtin::Default, Some(&["delete"]), &[]);
    assert_eq!(say(&policy, &named("fs", "delete")).0, Said::Hold);
    assert!(policy.shows(&named("fs", "delete")));
}

#[test]
fn tool_lists_apply_to_their_server_and_its_own_tool_names() {
    let policy = filtered(Builtin::Default, Some(&[]), &["read", "fs__x"]);
    assert_eq!(say(&policy, &named("git", "read")).0, Said::Permit);
    let shown = named("fs", "x").shown_as("fs__x".into());
    assert_eq!(say(&policy, &shown).1.rule, "deny:default");
}

#[test]
fn requests_other_than_tool_calls_pass_to_the_only_server() {
    for builtin in [Builtin::Default, Builtin::AllowAll] {
        let policy = filtered(builtin, Some(&[]), &["*"]);
        let target = Target::Method {
            server: server("fs"),
            method: "resources/delete".into(),
            task: None,
        };
        let Verdict::Permit(permit) = decide(call(target), &policy, &Facts::default()) else {
            panic!("a method passes");
        };
        assert_eq!(permit.ruling().rule, "allow:mcp_method:*");
        assert_eq!(permit.call().target.name(), "resources/delete");
    }
}

#[test]
fn a_verdict_carries_the_original_call() {
    let tool = Arc::new(named("fs", "read"));
    let asked = call(Target::Tool(tool.clone()));
    let (id, bytes) = (asked.attempt.id, asked.attempt.frame.bytes().clone());
    let Verdict::Permit(permit) = decide(asked, &Policy::default(), &Facts::default()) else {
        panic!("reading is permitted");
    };
    let call = permit.into_call();
    assert_eq!(
        (call.attempt.id, call.attempt.frame.bytes().as_ptr()),
        (id, bytes.as_ptr())
    );
    assert!(matches!(call.target, Target::Tool(of) if Arc::ptr_eq(&of, &tool)));
}

#[test]
fn a_guards_approval_request_outranks_its_confirmation_request() {
    let said = |scope, rule: &str| Check::of_guard(scope, Kind::RequireApproval, rule, "so");
    let confirmed = said("mcp_tool", "confirm:mcp_tool:mail:send");
    let approved = said("data", "require_approval:cost:alert_threshold");
    for checks in [
        vec![confirmed.clone(), approved.clone()],
        vec![approved.clone(), confirmed.clone()],
    ] {
        let (kind, ruling) = Ruling::strictest(checks);
        assert_eq!(
            (kind, ruling.rule),
            (Kind::RequireApproval, approved.rule.clone())
        );
    }
    let (_, ruling) = Ruling::strictest(vec![confirmed.clone(), confirmed]);
    assert_eq!(ruling.rule, "confirm:mcp_tool:mail:send");
}
