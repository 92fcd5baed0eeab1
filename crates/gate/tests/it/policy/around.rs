//! What stands around the rules: agents, lists, methods, several policies at once, facts.

use callgate_gate::{ItemKind, RealPath, Reference, Target, Verdict, decide};
use callgate_testkit::policy::Case;

use super::{
    clauses::{TWO_SCOPES, says},
    given::{self, answer, case, policy, said},
};

const AGENTS: &str = r#"
version: "1"
rules:
  - scope: mcp_tool
    deny: [{pattern: "*:drop_*"}]
    require_approval: [{pattern: "*:write"}]
    allow: [{pattern: "*:read"}]
agents:
  "ci-*":
    override: [{scope: mcp_tool, deny: [{pattern: "fs:*"}], allow: [{pattern: "*:*"}]}]
  "bot":
    override: [{scope: mcp_tool, allow: [{pattern: "*:*"}]}]
    override_mode: replace
"#;

#[test]
fn agent_rules_widen_only_for_vouched_agents() {
    for (agent, vouched_for, tool, expected) in [
        ("x", true, "read", "allow allow:mcp_tool:*:read"),
        ("x", true, "other", "deny deny:default"),
        // Merged: everyone's deny and approval stay.
        ("ci-1", true, "drop_x", "deny deny:mcp_tool:*:drop_*"),
        (
            "ci-1",
            true,
            "write",
            "require_approval require_approval:mcp_tool:*:write",
        ),
        ("ci-1", true, "other", "allow allow:mcp_tool:*:*"),
        // Replaced: they do not.
        ("bot", true, "drop_x", "allow allow:mcp_tool:*:*"),
        // A name that is only the agent's own word can tighten and never widen.
        ("ci-1", false, "other", "deny deny:default"),
        ("bot", false, "drop_x", "deny deny:mcp_tool:*:drop_*"),
        ("bot", false, "read", "allow allow:mcp_tool:*:*"),
    ] {
        let case = Case {
            agent: agent.into(),
            vouched_for,
            ..case("s", tool, "{}")
        };
        assert_eq!(
            says(AGENTS, &case),
            expected,
            "{agent} {vouched_for} {tool}"
        );
    }
    let tightened = Case {
        agent: "ci-1".into(),
        ..case("fs", "read", "{}")
    };
    assert_eq!(says(AGENTS, &tightened), "deny deny:mcp_tool:fs:*");
}

#[test]
fn unconditionally_denied_tools_are_not_shown() {
    let policy = policy(AGENTS);
    let tool = |name: &str| crate::given::named("s", name);
    assert!(policy.shows(&tool("read")) && policy.shows(&tool("write")));
    assert!(!policy.shows(&tool("drop_x")) && !policy.shows(&tool("other")));
    let identity = |agent: &str| callgate_gate::CallerIdentity {
        tenant: "local".into(),
        principal: agent.into(),
        agent: agent.into(),
        session: "s".into(),
        grant: callgate_gate::Grant::default(),
    };
    assert!(policy.shows_to(&tool("other"), &identity("ci-1")));
    assert!(!policy.shows_to(&tool("drop_x"), &identity("ci-1")));
    assert!(policy.shows_to(&tool("drop_x"), &identity("bot")));
    let sometimes = given::policy(
        "version: '1'\nrules: [{scope: mcp_tool, deny: [{pattern: 's:read', when: 'has(args.x)'}], allow: [{pattern: '*'}]}]",
    );
    assert!(sometimes.shows(&tool("read")));
}

#[test]
fn methods_are_judged_only_by_rules_of_their_scope() {
    let method = |method: &str| {
        crate::given::call(callgate_gate::Target::Method {
            server: crate::given::server("fs"),
            method: method.into(),
            task: None,
        })
    };
    let without = policy("version: '1'\nrules: [{scope: mcp_tool, deny: [{pattern: '*'}]}]");
    let said = |policy: &callgate_gate::Policy, name: &str| {
        answer(decide(method(name), policy, &Default::default())).1
    };
    assert_eq!(said(&without, "resources/read"), "allow:mcp_method:*");
    let with = policy(
        "version: '1'\nrules: [{scope: mcp_method, deny: [{pattern: 'resources/*'}], allow: [{pattern: 'prompts/get'}]}]",
    );
    assert_eq!(said(&with, "resources/read"), "deny:mcp_method:resources/*");
    assert_eq!(said(&with, "prompts/get"), "allow:mcp_method:prompts/get");
    assert_eq!(said(&with, "x"), "deny:default");
    let of_one = policy(
        "version: '1'\nrules: [{scope: mcp_method, deny: [{pattern: 'fs:sampling/*'}, {pattern: 'other:*'}], allow: [{pattern: '*'}]}]",
    );
    let sampling = said(&of_one, "sampling/createMessage");
    assert_eq!(sampling, "deny:mcp_method:fs:sampling/*");
    assert_eq!(said(&of_one, "roots/list"), "allow:mcp_method:*");
}

fn reference(kind: ItemKind, name: &str) -> Reference {
    Reference {
        kind,
        server: crate::given::server("fs"),
        name: name.into(),
    }
}

#[test]
fn prompts_and_resources_are_judged_by_their_names_and_their_methods() {
    let policy = policy(
        "version: '1'
rules:
  - {scope: mcp_prompt, deny: [{pattern: 'fs:secret*'}], allow: [{pattern: 'fs:*', when: 'tool.read_only && !has(args.x)'}]}
  - {scope: mcp_resource, deny: [{pattern: 'fs:file:///etc/*'}], allow: [{pattern: '*:*'}]}
  - {scope: mcp_method, deny: [{pattern: 'completion/*'}], allow: [{pattern: '*'}]}",
    );
    let said = |target: Target, params: &str| {
        let call = crate::given::call_with(target, params);
        answer(decide(call, &policy, &Default::default())).1
    };
    let prompt = |name: &str| Target::Prompt(reference(ItemKind::Prompt, name));
    let resource = |uri: &str| Target::Resource(reference(ItemKind::Resource, uri));
    assert_eq!(said(prompt("greet"), "{}"), "allow:mcp_prompt:fs:*");
    let with_x = r#"{"arguments":{"x":"1"}}"#;
    assert_eq!(said(prompt("greet"), with_x), "deny:default");
    assert_eq!(said(prompt("secret_1"), "{}"), "deny:mcp_prompt:fs:secret*");
    assert_eq!(said(resource("file:///a"), "{}"), "allow:mcp_resource:*:*");
    let etc = "deny:mcp_resource:fs:file:///etc/*";
    assert_eq!(said(resource("file:///etc/passwd"), "{}"), etc);
    for uri in [
        "FILE:///etc/passwd",
        "file:/etc/passwd",
        "file:///tmp/../etc/passwd",
        "file:///%65tc/passwd",
        "\u{1}file://localhost/etc/passwd",
    ] {
        assert_eq!(said(resource(uri), "{}"), etc, "{uri:?}");
    }
    let unclear = "deny:mcp_resource:unclear_address";
    assert_eq!(said(resource("http://a\\@b/"), "{}"), unclear);
    let completion = Target::Completion(reference(ItemKind::Prompt, "greet"));
    assert_eq!(said(completion, "{}"), "deny:mcp_method:completion/*");

    let shown = |kind, name| policy.shows_item(&crate::given::item(kind, "fs", name), None);
    assert!(shown(ItemKind::Prompt, "greet") && !shown(ItemKind::Prompt, "secret_1"));
    assert!(shown(ItemKind::Resource, "file:///a"));
    assert!(!shown(ItemKind::Resource, "file:///etc/passwd"));
    assert!(!shown(ItemKind::Resource, "FILE:///etc/passwd"));
    assert!(shown(ItemKind::Template, "http://{host}/{path}"));
}

#[test]
fn prompts_and_resources_without_rules_pass_but_mapped_paths_are_judged() {
    let policy = policy(
        "version: '1'
rules:
  - {scope: mcp_tool, deny: [{pattern: '*'}]}
  - {scope: filesystem, deny: [{paths: ['/etc/**']}], allow: [{action: read, paths: ['/**']}]}
tool_scope_map: [{pattern: 'fs:*', scope: filesystem}]",
    );
    let read = |uri: &str| {
        let target = Target::Resource(reference(ItemKind::Resource, uri));
        let call = crate::given::call_with(target, &format!(r#"{{"uri":"{uri}"}}"#));
        let there = |path: String| (path.clone(), RealPath::At(path));
        let facts = callgate_gate::Facts {
            real_paths: policy.needs(&call).paths.into_iter().map(there).collect(),
            ..Default::default()
        };
        answer(decide(call, &policy, &facts)).1
    };
    assert_eq!(read("file:///tmp/a"), "allow:mcp_resource:*");
    let denied = "deny:filesystem:/etc/**";
    assert_eq!(read("file:///etc/passwd"), denied);
    assert_eq!(read("file:///%65tc/passwd"), denied);
    let prompt = Target::Prompt(reference(ItemKind::Prompt, "greet"));
    let (_, rule) = answer(decide(
        crate::given::call(prompt),
        &policy,
        &Default::default(),
    ));
    assert_eq!(rule, "allow:mcp_prompt:*");
}

#[test]
fn rule_sets_of_one_scope_are_merged() {
    let text = "version: '1'\nrules:\n  - {scope: mcp_tool, allow: [{pattern: '*:*'}]}\n  - {scope: mcp_tool, deny: [{pattern: '*:x'}]}";
    assert_eq!(says(text, &case("s", "x", "{}")), "deny deny:mcp_tool:*:x");
    assert_eq!(
        says(text, &case("s", "y", "{}")),
        "allow allow:mcp_tool:*:*"
    );
}

#[test]
fn layered_policies_give_the_strictest_verdict() {
    let layer =
        |text: &str| callgate_gate::Layer::Rules(given::read(text).expect("it is right").into());
    let user = layer(
        "version: '1'\nrules: [{scope: mcp_tool, deny: [{pattern: '*:x'}], allow: [{pattern: '*'}]}]",
    );
    let project = layer(
        "version: '1'\nrules: [{scope: mcp_tool, require_approval: [{pattern: '*:y'}], allow: [{pattern: '*'}]}]",
    );
    let policy = callgate_gate::Policy::of(vec![user, project], Default::default());
    for (tool, expected) in [
        ("x", "deny:mcp_tool:*:x"),
        ("y", "require_approval:mcp_tool:*:y"),
        ("z", "allow:mcp_tool:*"),
    ] {
        assert_eq!(said(&policy, &case("s", tool, "{}")).1, expected);
    }
}

#[test]
fn facts_are_gathered_only_when_a_rule_needs_them() {
    let policy = policy(TWO_SCOPES);
    let read = case("fs", "read_file", r#"{"path":"a/../b","other":"~/x"}"#);
    let needs = policy.needs(&given::call(&read));
    assert_eq!(
        needs.paths,
        ["/people/u/x", "/srv/repo/a/../b", "/srv/repo/b"]
    );
    assert!(
        policy
            .needs(&given::call(&case("git", "read", r#"{"path":"a"}"#)))
            .is_empty()
    );
}

#[test]
fn paths_that_cannot_be_resolved_are_refused() {
    let policy = policy(TWO_SCOPES);
    let read = case("fs", "read_file", r#"{"path":"/tmp/x"}"#);
    let verdict = |facts| answer(decide(given::call(&read), &policy, &facts)).1;
    let mut facts = given::facts(&policy, &given::call(&read), &read);
    assert_eq!(verdict(facts.clone()), "allow:mcp_tool:*:*");
    facts.real_paths.insert("/tmp/x".into(), RealPath::Unknown);
    assert_eq!(verdict(facts), "deny:filesystem:path_traversal");
    assert_eq!(
        verdict(Default::default()),
        "deny:filesystem:path_traversal"
    );
}

#[test]
fn an_approval_is_bound_to_the_asking_rule() {
    let asked_by = |text: &str| {
        let policy = policy(text);
        match decide(
            given::call(&case("s", "x", "{}")),
            &policy,
            &Default::default(),
        ) {
            Verdict::Hold(hold) => hold.ruling().asked_by(),
            Verdict::Permit(_) | Verdict::Deny(_) => panic!("an approval is asked for"),
        }
    };
    let one = "version: '1'\nrules: [{scope: mcp_tool, require_approval: [{pattern: '*:x'}]}]";
    let elsewhere = "version: '1'\nrules:\n\n  - {scope: mcp_tool, deny: [{pattern: '*:y'}], require_approval: [{pattern: '*:x', message: hm}]}";
    let other = "version: '1'\nrules: [{scope: mcp_tool, require_approval: [{pattern: '*:x', when: 'true'}]}]";
    assert_eq!(asked_by(one), asked_by(elsewhere));
    assert_ne!(asked_by(one), asked_by(other));
}
