//! Attempts to reach what a policy refuses, each with rules that have an action and rules that do not.

use callgate_gate::Policy;

use super::given::{self, case, said};

/// Only the repository may be read, and some of it may not.
fn policies() -> Vec<(&'static str, Policy)> {
    let text = |action: &str, allow: &str| {
        format!(
            "version: '1'\nrules:\n  - {{scope: mcp_tool, allow: [{{pattern: '*:*'}}]}}\n  - scope: filesystem\n    \
             deny: [{{{action}paths: ['/etc/**', '~/.ssh/**', '**/secret/**']}}]\n    \
             allow: [{{{action}paths: ['{allow}']}}]\n\
             tool_scope_map: [{{pattern: 'fs:*', scope: filesystem}}]\n"
        )
    };
    let any = "action: [read, write, delete], ";
    vec![
        ("without action", given::policy(&text("", "./**"))),
        ("with action", given::policy(&text(any, "./**"))),
        (
            "all else allowed, without action",
            given::policy(&text("", "**")),
        ),
        (
            "all else allowed, with action",
            given::policy(&text(any, "**")),
        ),
    ]
}

fn deep(value: &str, depth: usize) -> String {
    format!("{}{value}{}", r#"{"a":"#.repeat(depth), "}".repeat(depth))
}

#[test]
fn no_spelling_of_a_denied_path_passes() {
    let many: Vec<String> = (0..300).map(|n| format!("\"f{n}\"")).collect();
    let many_values = vec!["1"; 20_000].join(",");
    let attacks = [
        r#"{"path":"/etc/passwd"}"#.to_owned(),
        r#"{"path":"/etc"}"#.to_owned(),
        r#"{"path":"/etc/../etc/passwd"}"#.to_owned(),
        r#"{"path":"/tmp/../etc/./passwd"}"#.to_owned(),
        r#"{"path":"//etc//passwd"}"#.to_owned(),
        r#"{"path":"../../etc/passwd"}"#.to_owned(),
        r#"{"path":"/../etc/passwd"}"#.to_owned(),
        r#"{"path":"%2Fetc%2Fpasswd"}"#.to_owned(),
        r#"{"path":"%2fetc/passwd"}"#.to_owned(),
        r#"{"path":"%252Fetc%252Fpasswd"}"#.to_owned(),
        r#"{"path":"%25252525252Fetc"}"#.to_owned(),
        r#"{"path":"a/%2e%2e/%2e%2e/%2e%2e/etc/passwd"}"#.to_owned(),
        r#"{"path":"\u002fetc\u002fpasswd"}"#.to_owned(),
        r#"{"path":"\\etc\\passwd"}"#.to_owned(),
        r#"{"path":"..\\..\\etc"}"#.to_owned(),
        r#"{"path":"／etc／passwd"}"#.to_owned(),
        r#"{"path":" /etc/passwd"}"#.to_owned(),
        r#"{"path":"/etc/passwd\u0000.txt"}"#.to_owned(),
        r#"{"path":"file:///etc/passwd"}"#.to_owned(),
        r#"{"path":"FILE://localhost/etc/passwd"}"#.to_owned(),
        r#"{"path":"~/.ssh/id"}"#.to_owned(),
        r#"{"path":"~root/.ssh/id"}"#.to_owned(),
        r#"{"path":"$HOME/.ssh/id"}"#.to_owned(),
        r#"{"path":"link/passwd"}"#.to_owned(),
        r#"{"path":"./link"}"#.to_owned(),
        r#"{"path":"%6cink/passwd"}"#.to_owned(),
        r#"{"path":"secret/x"}"#.to_owned(),
        r#"{"paths":["a","/etc/passwd"]}"#.to_owned(),
        r#"{"paths":["a",["b",["/etc/passwd"]]]}"#.to_owned(),
        r#"{"edits":[{"file":"a"},{"file":"/etc/passwd"}]}"#.to_owned(),
        r#"{"options":{"target":{"path":"/etc/passwd"}}}"#.to_owned(),
        r#"{"source":"a","destination":"/etc/passwd"}"#.to_owned(),
        r#"{"source":"/etc/passwd","destination":"a"}"#.to_owned(),
        r#"{"from":"a","to":"~/.ssh/authorized_keys"}"#.to_owned(),
        r#"{"path":"a","Path":"/etc/passwd"}"#.to_owned(),
        r#"{"PATH":"/etc/passwd"}"#.to_owned(),
        r#"{"path":"a","whatever":"/etc/passwd"}"#.to_owned(),
        r#"{"path":"a","whatever":"secret/x"}"#.to_owned(),
        r#"{"path":"a","/etc/passwd":"content"}"#.to_owned(),
        r#"{"path":"a","content":"/etc/passwd"}"#.to_owned(),
        format!(r#"{{"paths":[{}]}}"#, many.join(",")),
        format!(r#"{{"path":"a","x":[{many_values}]}}"#),
        format!(r#"{{"path":"{}"}}"#, "a/".repeat(5000)),
        deep(r#""/etc/passwd""#, 60),
        deep(r#""a""#, 100),
    ];
    let policies = policies();
    for tool in [
        "read_file",
        "write_file",
        "delete_file",
        "move_file",
        "chmod",
    ] {
        for (which, policy) in &policies {
            for attack in &attacks {
                let (verdict, rule) = said(policy, &case("fs", tool, attack));
                assert_eq!(verdict, "deny", "{which} {tool} {attack:.200}: {rule}");
            }
        }
    }
    // The policy is not simply shut.
    for (which, policy) in &policies[..3] {
        let fine = case(
            "fs",
            "write_file",
            r#"{"path":"src/a.rs","content":"// /etc/passwd\nx"}"#,
        );
        assert_eq!(said(policy, &fine).0, "allow", "{which}");
    }
}

#[test]
fn unresolved_path_traversal_has_its_own_rule() {
    for (_, policy) in policies() {
        for path in ["../x", "../../etc/passwd", "/../etc", "a/../../b", "..%2fx"] {
            let arguments = format!(r#"{{"path":"{path}"}}"#);
            let (_, rule) = said(&policy, &case("fs", "read_file", &arguments));
            assert_eq!(rule, "deny:filesystem:path_traversal", "{path}");
        }
    }
}

#[test]
fn no_spelling_of_a_denied_domain_passes() {
    let open = "version: '1'\nrules:\n  - {scope: mcp_tool, allow: [{pattern: '*:*'}]}\n  \
                - {scope: network, deny: [{domains: ['evil.com', '*.evil.com', '127.0.0.1']}], allow: [{domains: ['*']}]}\n\
                tool_scope_map: [{pattern: 'net:*', scope: network}]\n";
    let closed = open.replace(
        "allow: [{domains: ['*']}]",
        "allow: [{domains: ['*.good.com']}]",
    );
    for text in [open, closed.as_str()] {
        let policy = given::policy(text);
        for address in [
            "evil.com",
            "EVIL.com",
            "Evil.Com.",
            "a.evil.com",
            "https://evil.com/",
            "HTTPS://EVIL.COM",
            "https://evil.com:8443/x",
            "https://good.com@evil.com/",
            "https://u:p@evil.com:1/",
            "https://evil.com\\\\@a.good.com/",
            "https://a.good.com\\\\.evil.com/",
            "http://a@b@evil.com/",
            "ws://evil.com/",
            "еvil.com",
            "https://еvil.com/",
            "ｅvil.com",
            "evil。com",
            "xn--vil-qdd.com",
            "evil.com%2f.a.good.com",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "127.0.0.1:80",
            " https://evil.com/",
            "https://a.good.com\\u0009@evil.com/",
            "https:evil.com",
            "http:/127.0.0.1",
            "//evil.com",
            "\\u0001https://evil.com",
            "http://[::ffff:127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://0177.0.0.1/",
            "https://a.good.com#@evil.com/",
            "git@evil.com:x",
            "\\u0001file:///secret",
        ] {
            for key in ["url", "Url", "host", "domain", "hostname"] {
                let arguments = format!(r#"{{"{key}":"{address}"}}"#);
                let (verdict, rule) = said(&policy, &case("net", "fetch", &arguments));
                assert_eq!(verdict, "deny", "{arguments}: {rule}");
            }
        }
        let nested = r#"{"url":"https://a.good.com/","then":{"request":["https://evil.com/"]}}"#;
        assert_eq!(said(&policy, &case("net", "fetch", nested)).0, "deny");
        let fine = r#"{"url":"https://a.good.com/?q=evil.com"}"#;
        assert_eq!(said(&policy, &case("net", "fetch", fine)).0, "allow");
    }
}

#[test]
fn lookalikes_of_denied_names_are_denied() {
    let policy = given::policy(
        "version: '1'\nrules:\n  - {scope: mcp_tool, deny: [{pattern: '*:drop_*'}], require_approval: [{pattern: 'db:write'}], allow: [{pattern: '*'}]}\n  \
         - {scope: shell, allow: [{pattern: 'ls'}]}\ntool_scope_map: [{pattern: 'db:run', scope: shell}]\n",
    );
    for tool in ["drop_x", "drоp_x", "ｄrop_x", "drop＿x"] {
        let (verdict, rule) = said(&policy, &case("db", tool, "{}"));
        assert_eq!(verdict, "deny", "{tool}: {rule}");
    }
    // A name that looks like none of them is only a name.
    assert_eq!(said(&policy, &case("db", "größe", "{}")).0, "allow");
    assert_eq!(
        said(&policy, &case("db", "wrіte", "{}")).0,
        "require_approval"
    );
    // What a tool is mapped by is not slipped past either.
    assert_eq!(
        said(&policy, &case("db", "rυn", r#"{"command":"rm"}"#)).0,
        "deny"
    );
}

#[test]
fn ambiguous_arguments_do_not_bypass_expressions() {
    let policy = given::policy(
        "version: '1'\nrules:\n  - scope: mcp_tool\n    deny: [{pattern: 'gh:push', when: 'args.force == true'}]\n    \
         allow: [{pattern: 'gh:*', when: 'args.repo == \"acme/x\"'}]\n",
    );
    let fine = r#"{"repo":"acme/x","force":false}"#;
    assert_eq!(said(&policy, &case("gh", "push", fine)).0, "allow");
    for arguments in [
        r#"{"repo":"acme/x","force":true}"#,
        r#"{"repo":"acme/x","force":false,"Force":true}"#,
        r#"{"repo":"acme/x","Repo":"evil/x","force":false}"#,
        r#"{"repo":"acme/x","force":false,"n":9007199254740993}"#,
        r#"{"repo":"acme/x"}"#,
        r#"{"force":false}"#,
        "{}",
    ] {
        assert_eq!(
            said(&policy, &case("gh", "push", arguments)).0,
            "deny",
            "{arguments}"
        );
    }
}
