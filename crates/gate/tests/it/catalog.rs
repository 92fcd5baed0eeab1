//! From a name to one tool, or to an error that says what there is.

use callgate_gate::{
    Builtin, Catalog, Finding, Grant, Listing, Naming, Operation, Pattern, Policy, Prefix,
    ResolveError, Target, ToolFilter,
};

use crate::given::{described, identity, listing, named, server};

fn always() -> Naming {
    Naming::default()
}

fn never() -> Naming {
    Naming {
        prefix: Prefix::Never,
        ..Naming::default()
    }
}

fn catalog(naming: Naming, listings: Vec<Listing>) -> Catalog {
    let (catalog, findings) = Catalog::build(naming, listings);
    assert_eq!(findings, []);
    catalog
}

fn never_seen(name: &str) -> Listing {
    Listing {
        tools: None,
        ..listing(name, &[])
    }
}

/// The canonical name of the tool that `name` leads to, or the error's text.
fn resolved(catalog: &Catalog, name: &str) -> Result<String, String> {
    match catalog.resolve(name, &Policy::default(), &identity()) {
        Ok(Target::Tool(tool)) => Ok(tool.canonical()),
        Ok(other) => panic!("`{name}` names a tool, never {other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

fn shown(catalog: &Catalog, policy: &Policy) -> Vec<String> {
    catalog
        .listed(policy)
        .map(|tool| tool.shown.clone())
        .collect()
}

fn hiding(of: &str, deny: &str) -> Policy {
    let filter = ToolFilter {
        offered: None,
        allow: None,
        deny: vec![Pattern::new(deny)],
    };
    Policy::new(Builtin::Default, [(server(of), filter)].into())
}

#[test]
fn shown_and_canonical_names_both_resolve() {
    let long = "a".repeat(60);
    let tools = ["read", "read__all", "x:y", "über", &long];
    let catalog = catalog(
        always(),
        vec![listing("fs", &tools), listing("git-hub", &["read"])],
    );
    let cases = [
        ("fs__read", "fs:read"),
        ("fs:read", "fs:read"),
        ("git-hub__read", "git-hub:read"),
        ("git-hub:read", "git-hub:read"),
        ("fs__read__all", "fs:read__all"),
        ("fs:read__all", "fs:read__all"),
        ("fs:x:y", "fs:x:y"),
        ("fs:über", "fs:über"),
    ];
    for (name, canonical) in cases {
        assert_eq!(resolved(&catalog, name).as_deref(), Ok(canonical), "{name}");
    }
    for tool in catalog.listed(&Policy::default()) {
        assert_eq!(resolved(&catalog, &tool.shown), Ok(tool.canonical()));
        assert_eq!(resolved(&catalog, &tool.canonical()), Ok(tool.canonical()));
    }
    assert_eq!(shown(&catalog, &Policy::default()).len(), 6);
}

#[test]
fn tools_keep_their_own_names_without_prefixes() {
    let catalog = catalog(
        never(),
        vec![listing("fs", &["read", "a b"]), listing("git", &["log"])],
    );
    let cases = [
        ("read", Ok("fs:read")),
        ("a b", Ok("fs:a b")),
        ("log", Ok("git:log")),
        ("git:log", Ok("git:log")),
        ("push", Err("unknown tool `push`; tools: read, a b, log")),
        (
            "git:push",
            Err("unknown tool `git:push` of server `git`; its tools: log"),
        ),
    ];
    for (name, expected) in cases {
        assert_eq!(
            resolved(&catalog, name),
            expected.map(str::to_owned).map_err(str::to_owned),
            "{name}"
        );
    }
}

#[test]
fn errors_for_unknown_names_list_the_choices() {
    let catalog = catalog(
        always(),
        vec![listing("fs", &["read", "write"]), listing("git", &[])],
    );
    let cases = [
        (
            "fs__reed",
            "unknown tool `fs__reed` of server `fs`; its tools: fs__read, fs__write",
        ),
        (
            "fs:reed",
            "unknown tool `fs:reed` of server `fs`; its tools: fs__read, fs__write",
        ),
        (
            "fs:fs__read",
            "unknown tool `fs:fs__read` of server `fs`; its tools: fs__read, fs__write",
        ),
        (
            "git__log",
            "unknown tool `git__log` of server `git`; its tools: none",
        ),
        (
            "hub__log",
            "unknown tool `hub__log`: no such server; servers: fs, git",
        ),
        (
            "read",
            "unknown tool `read`: no such server; servers: fs, git",
        ),
        (
            "FS__read",
            "unknown tool `FS__read`: no such server; servers: fs, git",
        ),
        ("fs", "unknown tool `fs`: no such server; servers: fs, git"),
        ("", "unknown tool ``: no such server; servers: fs, git"),
    ];
    for (name, error) in cases {
        assert_eq!(resolved(&catalog, name), Err(error.to_owned()), "{name}");
    }
}

#[test]
fn errors_list_at_most_twenty_choices() {
    let names: Vec<String> = (1..=23).map(|n| format!("t{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let error = |count: usize| {
        resolved(
            &catalog(never(), vec![listing("s", &names[..count])]),
            "nope",
        )
        .unwrap_err()
    };
    assert!(error(20).ends_with(", t19, t20"), "{}", error(20));
    assert!(
        error(23).ends_with(", t19, t20, and 3 more"),
        "{}",
        error(23)
    );
}

#[test]
fn a_server_that_never_answered_is_unavailable_not_empty() {
    let gone = || Err("upstream \"fs\" unavailable".to_owned());
    let several = catalog(always(), vec![never_seen("fs"), listing("git", &["log"])]);
    assert_eq!(resolved(&several, "fs__read"), gone());
    assert_eq!(resolved(&several, "fs:read"), gone());
    let error = several
        .resolve("fs:read", &Policy::default(), &identity())
        .unwrap_err();
    assert_eq!(
        error,
        ResolveError::NeverSeen {
            server: server("fs")
        }
    );

    let only = catalog(never(), vec![never_seen("fs")]);
    assert_eq!(resolved(&only, "read"), gone());
    // With several servers and no prefixes, the owner of the tool is ambiguous.
    let bare = catalog(never(), vec![never_seen("fs"), listing("git", &["log"])]);
    assert_eq!(
        resolved(&bare, "read"),
        Err("unknown tool `read`; tools: log".to_owned())
    );
    assert_eq!(resolved(&bare, "fs:read"), gone());
}

#[test]
fn tools_of_a_server_that_is_down_are_callable_but_not_listed() {
    let down = Listing {
        listed: false,
        ..listing("fs", &["read"])
    };
    let catalog = catalog(always(), vec![down, listing("git", &["log"])]);
    assert_eq!(shown(&catalog, &Policy::default()), ["git__log"]);
    assert_eq!(resolved(&catalog, "fs__read").as_deref(), Ok("fs:read"));
    assert_eq!(resolved(&catalog, "fs:read").as_deref(), Ok("fs:read"));
    assert_eq!(catalog.listings().len(), 2);
}

#[test]
fn a_duplicate_shown_name_is_reported_and_the_first_tool_kept() {
    let (catalog, findings) = Catalog::build(
        never(),
        vec![listing("fs", &["read"]), listing("git", &["read", "log"])],
    );
    let finding = |shown: &str, kept: &str, left_out: &str| Finding::ShownTwice {
        shown: shown.into(),
        kept: kept.into(),
        left_out: left_out.into(),
    };
    assert_eq!(findings, [finding("read", "fs:read", "git:read")]);
    assert_eq!(shown(&catalog, &Policy::default()), ["read", "log"]);
    assert_eq!(resolved(&catalog, "read").as_deref(), Ok("fs:read"));
    assert!(resolved(&catalog, "git:read").is_err());

    let (_, findings) = Catalog::build(always(), vec![listing("fs", &["read", "read"])]);
    assert_eq!(findings, [finding("fs__read", "fs:read", "fs:read")]);
}

#[test]
fn server_names_ending_in_an_underscore_stay_unambiguous() {
    let catalog = catalog(always(), vec![listing("a", &["_b"]), listing("a_", &["b"])]);
    assert_eq!(resolved(&catalog, "a___b").as_deref(), Ok("a:_b"));
    assert_eq!(resolved(&catalog, "a_:b").as_deref(), Ok("a_:b"));
    assert_eq!(shown(&catalog, &Policy::default()).len(), 2);
}

#[test]
fn filtered_tools_are_neither_listed_nor_named_in_errors() {
    let catalog = catalog(always(), vec![listing("fs", &["read", "move"])]);
    let policy = hiding("fs", "move");
    assert_eq!(shown(&catalog, &policy), ["fs__read"]);
    let error = catalog
        .resolve("fs__nope", &policy, &identity())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "unknown tool `fs__nope` of server `fs`; its tools: fs__read"
    );
    // It still resolves, so that the refusal can name its rule.
    assert!(catalog.resolve("fs__move", &policy, &identity()).is_ok());
}

#[test]
fn tools_are_listed_in_configuration_order() {
    let listings = vec![listing("z", &["b", "a"]), listing("a", &["z"])];
    assert_eq!(
        shown(&catalog(always(), listings), &Policy::default()),
        ["z__b", "z__a", "a__z"]
    );
}

#[test]
fn requests_pass_through_only_to_a_single_server_without_prefixes() {
    let cases = [
        (never(), vec![listing("fs", &[])], Some("fs")),
        (never(), vec![never_seen("fs")], Some("fs")),
        (always(), vec![listing("fs", &[])], None),
        (never(), vec![listing("fs", &[]), listing("git", &[])], None),
        (never(), vec![], None),
    ];
    for (naming, listings, expected) in cases {
        let catalog = catalog(naming, listings);
        assert_eq!(
            catalog.only_server().map(|server| server.as_str()),
            expected
        );
    }
}

#[test]
fn a_shown_descriptor_differs_only_in_its_name() {
    let cases = [
        (r#"{"name":"read"}"#, r#"{"name":"fs__read"}"#),
        (
            r#"{ "name" : "read" , "x":1.0 }"#,
            r#"{ "name" : "fs__read" , "x":1.0 }"#,
        ),
        (
            " \t{\"name\":\n\"read\"\r\n} ",
            " \t{\"name\":\n\"fs__read\"\r\n} ",
        ),
        (r#"{"name":"\u0072e\u0061d"}"#, r#"{"name":"fs__read"}"#),
        (r#"{"n\u0061me":"read"}"#, r#"{"n\u0061me":"fs__read"}"#),
        (
            r#"{"description":"\"name\":\"read\"","annotations":{"name":"read"},"name":"read","z":[{"name":"read"}]}"#,
            r#"{"description":"\"name\":\"read\"","annotations":{"name":"read"},"name":"fs__read","z":[{"name":"read"}]}"#,
        ),
        (
            r#"{"title":"é\/","name":"read","e":1E+2}"#,
            r#"{"title":"é\/","name":"fs__read","e":1E+2}"#,
        ),
    ];
    for (descriptor, expected) in cases {
        let tools = Some(vec![described("fs", descriptor)]);
        let catalog = catalog(
            always(),
            vec![Listing {
                tools,
                ..listing("fs", &[])
            }],
        );
        let policy = Policy::default();
        let tool = catalog.listed(&policy).next().unwrap();
        assert_eq!(tool.name, "read");
        assert_eq!(tool.descriptor, descriptor);
        assert_eq!(tool.shown_descriptor, expected);
    }
}

#[test]
fn an_unchanged_name_leaves_the_descriptor_unchanged() {
    let text = r#" {"name":"\u0072ead"} "#;
    let tools = Some(vec![described("fs", text)]);
    let catalog = catalog(
        never(),
        vec![Listing {
            tools,
            ..listing("fs", &[])
        }],
    );
    let policy = Policy::default();
    assert_eq!(
        catalog.listed(&policy).next().unwrap().shown_descriptor,
        text
    );
}

#[test]
fn a_renamed_tool_can_be_renamed_again() {
    let tool = named("fs", "read");
    let renamed = tool.shown_as("fs__read".into());
    assert_eq!(renamed.shown_descriptor, r#"{"name":"fs__read"}"#);
    assert_eq!(
        renamed.shown_as("x\"y".into()).shown_descriptor,
        r#"{"name":"x\"y"}"#
    );
    assert_eq!(renamed.shown_as("read".into()), tool);
}

#[test]
fn tools_outside_a_tokens_grant_are_neither_listed_nor_named() {
    let listings = vec![listing("fs", &["read", "delete"]), listing("git", &["log"])];
    let catalog = catalog(always(), listings);
    let policy = Policy::default();
    let mut identity = identity();
    identity.grant = Grant::new(Some(vec!["fs".to_owned()]), Operation::Write);
    let listed: Vec<String> = catalog
        .listed_to(&policy, &identity)
        .map(|tool| tool.canonical())
        .collect();
    assert_eq!(listed, ["fs:read"]);
    let error = catalog.resolve("fs__nope", &policy, &identity).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown tool `fs__nope` of server `fs`; its tools: fs__read"
    );
    let error = catalog.resolve("nope__x", &policy, &identity).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown tool `nope__x`: no such server; servers: fs"
    );
}
