//! What is wrong with a policy file is told at its place.

use super::given::read;

/// The first problem as `line:column what`, with the help where there is one.
fn problem(text: &str) -> String {
    let problems = read(text).expect_err(text);
    let first = &problems[0];
    let help = first
        .help
        .as_ref()
        .map_or(String::new(), |help| format!(" ({help})"));
    format!(
        "{}:{} {}{help}",
        first.place.line, first.place.column, first.what
    )
}

/// A file with one rule set.
fn with_set(set: &str) -> String {
    format!("version: \"1\"\nrules:\n  - {set}\n")
}

#[test]
fn policy_problems_have_a_position_and_advice() {
    let cases = [
        ("", "0:0 the file is empty (begin with `version: \"1\"`)"),
        ("rules: []", "1:1 missing field `version`"),
        (
            "version: '2'",
            "1:10 unsupported version `2` (write `version: \"1\"`)",
        ),
        (
            "version: 1.0",
            "1:10 unsupported version `1.0` (write `version: \"1\"`)",
        ),
        (
            "version: '1'\nrule: []",
            "2:1 unknown field `rule` (did you mean `rules`?)",
        ),
        (
            "version: '1'\nversion: '1'",
            "2:1 duplicate mapping key: version not allowed here",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problem(text), expected, "{text}");
    }
}

#[test]
fn wrong_and_unmatchable_rules_are_reported() {
    let cases = [
        (
            "{scope: 'a b', allow: [{pattern: '*'}]}",
            "3:13 invalid scope `a b`",
        ),
        (
            "{scope: mcp_tool}",
            "3:5 the rule set of scope `mcp_tool` is empty",
        ),
        (
            "{scope: mcp_tool, alow: []}",
            "3:23 unknown field `alow` (did you mean `allow`?)",
        ),
        (
            "{scope: mcp_tool, deny: [{patern: 'x'}]}",
            "3:31 unknown field `patern` (did you mean `pattern`?)",
        ),
        (
            "{scope: mcp_tool, deny: [{}]}",
            "3:30 the rule has nothing to match on",
        ),
        (
            "{scope: mcp_tool, deny: [{message: x}]}",
            "3:30 the rule has nothing to match on",
        ),
        (
            "{scope: mcp_tool, deny: [{pattern: ''}]}",
            "3:40 an empty pattern can never match",
        ),
        (
            "{scope: mcp_tool, deny: [{pattern: 'drop_*'}]}",
            "3:40 `drop_*` can never match: tools are called `server:tool` (did you mean `*:drop_*`?)",
        ),
        (
            "{scope: mcp_tool, deny: [{pattern: 'my.server:*'}]}",
            "3:40 `my.server:*` can never match: `my.server` is not a valid server name",
        ),
        (
            "{scope: mcp_tool, deny: [{paths: ['/etc/**']}]}",
            "3:38 a rule with `paths` can never match in scope `mcp_tool` (rules of scope `mcp_tool` can have `pattern`)",
        ),
        (
            "{scope: shell, deny: [{paths: ['/etc/**']}]}",
            "3:35 a rule with `paths` can never match in scope `shell`",
        ),
        (
            "{scope: filesystem, deny: [{pattern: '/etc/**'}]}",
            "3:42 a rule with `pattern` can never match in scope `filesystem`",
        ),
        (
            "{scope: network, deny: [{pattern: 'x.com'}]}",
            "3:39 a rule with `pattern` can never match in scope `network`",
        ),
        (
            "{scope: filesystem, deny: [{paths: []}]}",
            "3:40 an empty `paths` can never match",
        ),
        (
            "{scope: filesystem, deny: [{paths: ['']}]}",
            "3:41 an empty path can never match",
        ),
        (
            "{scope: filesystem, deny: [{paths: ['/a', '/etc/[']}]}",
            "3:47 bad glob",
        ),
        (
            "{scope: filesystem, deny: [{paths: ['/etc/']}]}",
            "3:41 a path that ends in `/` can never match; write `/etc/**`",
        ),
        (
            "{scope: filesystem, deny: [{paths: ['/a**']}]}",
            "3:41 `**` must stand alone between slashes",
        ),
        (
            "{scope: filesystem, deny: [{action: red}]}",
            "3:41 unknown action `red` (did you mean `read`?)",
        ),
        (
            "{scope: filesystem, deny: [{action: []}]}",
            "3:41 an empty `action` can never match",
        ),
        (
            "{scope: network, deny: [{domains: []}]}",
            "3:39 an empty `domains` can never match",
        ),
        (
            "{scope: network, deny: [{domain: 'https://x.com'}]}",
            "3:38 `https://x.com` can never match a domain",
        ),
        (
            "{scope: network, deny: [{domains: [loopback, privat]}]}",
            "3:50 unknown range `privat` (did you mean `private`? to name a host, write `privat.`)",
        ),
        (
            "{scope: mcp_tool, deny: [{pattern: '*', when: 'args.x =='}]}",
            "3:51 bad expression",
        ),
        (
            "{scope: mcp_tool, deny: [{pattern: '*', when: 'tol.x'}]}",
            "3:51 unknown name `tol` (did you mean `tool`?)",
        ),
        (
            "{scope: mcp_tool, deny: [{pattern: '*', when: 'false'}]}",
            "3:51 the expression is never true, so the rule can never match",
        ),
        (
            "{scope: mcp_tool, deny: [{pattern: '*', conditions: []}]}",
            "3:57 `conditions` is empty",
        ),
        (
            "{scope: mcp_tool, deny: [{pattern: '*', conditions: [{require_prior: x, time_window: soon}]}]}",
            "3:90 invalid duration; write it like `1h` or `30s`",
        ),
        (
            "{scope: mcp_tool, deny: [{pattern: '*', conditions: [{require_prior: x, time_window: 0s}]}]}",
            "3:90 `time_window` must be longer than zero",
        ),
        (
            "{scope: mcp_tool, deny: [{pattern: '*:x'}], allow: [{pattern: '*:x'}]}",
            "3:57 the rule can never match: `deny:mcp_tool:*:x` on line 3 matches first",
        ),
        (
            "{scope: mcp_tool, allow: [{pattern: 'fs:*'}, {pattern: 'fs:read'}]}",
            "3:50 the rule can never match",
        ),
        ("{scope: cost, limits: {}}", "3:27 `limits` sets no limit"),
        (
            "{scope: cost, limits: {max_per_action: -1}}",
            "3:27 a limit must be at least 0",
        ),
        (
            "{scope: cost, allow: [{pattern: '*'}]}",
            "3:37 a rule with `pattern` can never match in scope `cost`",
        ),
        (
            "{scope: mcp_tool, limits: {max_per_action: 1}}",
            "3:31 `limits` is only valid in scope `cost`",
        ),
        (
            "{scope: mcp_tool, rate_limit: {max_requests: 0, window: 1m}}",
            "3:35 a rate limit allows 1 to 1000000 requests per window",
        ),
        (
            "{scope: mcp_tool, rate_limit: {max_requests: 1, window: 0s}}",
            "3:35 a rate limit allows 1 to 1000000 requests per window",
        ),
    ];
    for (set, expected) in cases {
        let told = problem(&with_set(set));
        assert!(
            told.starts_with(expected),
            "{set}\n   told: {told}\nexpected: {expected}"
        );
    }
}

#[test]
fn wrong_scope_maps_and_agents_are_reported() {
    let cases = [
        (
            "tool_scope_map: [{pattern: fs, scope: filesystem}]",
            "2:28 `fs` can never match: tools are called `server:tool`",
        ),
        (
            "tool_scope_map: [{pattern: 'fs:*', scope: mcp_tool}]",
            "2:43 a tool cannot be mapped to the scope `mcp_tool`",
        ),
        (
            "tool_scope_map: [{pattern: 'fs:*', scope: a}, {pattern: 'fs:x', scope: b}]",
            "2:57 `fs:x` can never match: an earlier pattern covers it",
        ),
        (
            "agents: {ci: {override: []}}",
            "2:14 `override` of agents `ci` is empty",
        ),
        (
            "agents: {'*': {override: [{scope: x, allow: [{pattern: '*'}]}]}, ci: {override: [{scope: x, allow: [{pattern: '*'}]}]}}",
            "2:70 agents `ci` can never match",
        ),
        (
            "agents: {ci: {override: [{scope: shell, deny: [{paths: ['/']}]}]}}",
            "2:56 a rule with `paths` can never match in scope `shell`",
        ),
        (
            "agents: {ci: {override: [{scope: x, allow: [{pattern: '*'}]}], override_mode: add}}",
            "2:79 unknown variant `add`",
        ),
    ];
    for (rest, expected) in cases {
        let told = problem(&format!("version: '1'\n{rest}\n"));
        assert!(
            told.starts_with(expected),
            "{rest}\n   told: {told}\nexpected: {expected}"
        );
    }
}

#[test]
fn policy_problems_are_reported_in_file_order() {
    let text = "version: '3'\nrules:\n  - scope: mcp_tool\n    allow: [{pattern: x}]\n    deny: [{pattern: ''}]\n";
    let problems = read(text).expect_err("it is wrong");
    let lines: Vec<u64> = problems.iter().map(|problem| problem.place.line).collect();
    assert_eq!(lines, [1, 4, 5]);
}

#[test]
fn surprising_policies_get_notes() {
    let text = "version: '1'\nrules: [{scope: shell, allow: [{pattern: '*'}]}]\ntool_scope_map: [{pattern: 'x:*', scope: y}]";
    let notes = read(text).expect("it is right").notes();
    assert_eq!(notes.len(), 2);
    assert!(notes[0].contains("every tool call is denied") && notes[1].contains("adds nothing"));
}

proptest::proptest! {
    #[test]
    fn reading_arbitrary_text_as_a_policy_never_panics(text in "(version: '1'\n)?[ a-z:{}\\[\\]'\"*&!|>%@`,#?\n-]{0,200}") {
        let _ = read(&text);
    }
}
