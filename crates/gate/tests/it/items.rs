//! From a prompt's name or a resource's URI to exactly one server.

use callgate_gate::{
    Catalog, Finding, Item, ItemKind, Items, Listing, Naming, Offers, Policy, Prefix, Reference,
    ResolveError, shown_task,
};

use crate::given::{described, identity, item, listing, server};

const OFFERS: Offers = Offers {
    tools: true,
    resources: true,
    subscribe: false,
    prompts: true,
    completions: true,
    task_calls: true,
    task_list: false,
    task_cancel: false,
};

fn items(kind: ItemKind, of: &str, names: &[&str]) -> Items {
    Items {
        items: names.iter().map(|name| item(kind, of, name)).collect(),
        extras: Vec::new(),
    }
}

fn having(of: &str, prompts: &[&str], resources: &[&str], templates: &[&str]) -> Listing {
    Listing {
        prompts: items(ItemKind::Prompt, of, prompts),
        resources: items(ItemKind::Resource, of, resources),
        templates: items(ItemKind::Template, of, templates),
        offers: OFFERS,
        ..listing(of, &[])
    }
}

fn catalog(prefix: Prefix, listings: Vec<Listing>) -> (Catalog, Vec<Finding>) {
    let naming = Naming {
        prefix,
        ..Naming::default()
    };
    Catalog::build(naming, listings)
}

fn shown(catalog: &Catalog, kind: ItemKind) -> Vec<String> {
    let policy = Policy::default();
    let shown = |item: &std::sync::Arc<Item>| item.shown.clone();
    catalog.items(kind, &policy, None).map(shown).collect()
}

fn told(found: Result<Reference, ResolveError>) -> String {
    match found {
        Ok(found) => found.canonical(),
        Err(error) => format!("! {error}"),
    }
}

#[test]
fn prompts_are_named_like_tools() {
    let listings = vec![
        having("a", &["x", "y"], &[], &[]),
        having("b", &["x"], &[], &[]),
    ];
    let (several, findings) = catalog(Prefix::Always, listings.clone());
    assert_eq!(findings, []);
    assert_eq!(shown(&several, ItemKind::Prompt), ["a__x", "a__y", "b__x"]);
    let cases = [
        ("a__x", "a:x"),
        ("b:x", "b:x"),
        (
            "b__y",
            "! unknown prompt `b__y` of server `b`; its prompts: b__x",
        ),
        ("x", "! unknown prompt `x`: no such server; servers: a, b"),
    ];
    for (name, expected) in cases {
        assert_eq!(
            told(several.prompt(name, &Policy::default(), &identity())),
            expected
        );
    }
    let (bare, findings) = catalog(Prefix::Never, listings);
    assert_eq!(shown(&bare, ItemKind::Prompt), ["x", "y"]);
    let left_out = Finding::ShownTwice {
        shown: "x".into(),
        kept: "a:x".into(),
        left_out: "b:x".into(),
    };
    assert_eq!(findings, [left_out]);
    assert_eq!(
        told(bare.prompt("z", &Policy::default(), &identity())),
        "! unknown prompt `z`; prompts: x, y"
    );
}

#[test]
fn unlisted_prompts_resolve_to_the_only_server() {
    let (only, _) = catalog(Prefix::Never, vec![having("a", &["x"], &[], &[])]);
    assert_eq!(
        told(only.prompt("hidden", &Policy::default(), &identity())),
        "a:hidden"
    );
}

#[test]
fn uris_are_wrapped_only_when_two_servers_share_them() {
    let (catalog, findings) = catalog(
        Prefix::Always,
        vec![
            having("a", &[], &["f:///x", "f:///y"], &["f:///{id}"]),
            having("b", &[], &["f:///x", "g:///z"], &["f:///{id}"]),
        ],
    );
    assert_eq!(findings, []);
    assert_eq!(
        shown(&catalog, ItemKind::Resource),
        ["f:///x", "f:///y", "callgate://b/f:///x", "g:///z"]
    );
    assert_eq!(
        shown(&catalog, ItemKind::Template),
        ["f:///{id}", "callgate://b/f:///{id}"]
    );
    let cases = [
        ("f:///x", "a:f:///x"),
        ("callgate://b/f:///x", "b:f:///x"),
        // A URI that names its server reaches that server.
        ("callgate://a/f:///x", "a:f:///x"),
        ("callgate://b/f:///77", "b:f:///77"),
        ("g:///z", "b:g:///z"),
        ("f:///77", "a:f:///77"),
        ("callgate://c/f:///x", "! resource not found"),
        ("h:///x", "! resource not found"),
    ];
    for (uri, expected) in cases {
        assert_eq!(told(catalog.resource(uri, None)), expected, "{uri}");
    }
    assert_eq!(told(catalog.template("f:///{id}", None)), "a:f:///{id}");
    assert_eq!(
        told(catalog.template("callgate://b/f:///{id}", None)),
        "b:f:///{id}"
    );
    assert_eq!(told(catalog.template("g:///z", None)), "b:g:///z");
}

#[test]
fn wrapped_uris_cannot_impersonate_another_server() {
    let (catalog, _) = catalog(
        Prefix::Always,
        vec![
            having("a", &[], &["callgate://b/f:///x"], &["callgate://b/{+x}"]),
            having("b", &[], &["f:///x"], &[]),
        ],
    );
    let own = "callgate://a/callgate://b/f:///x";
    assert_eq!(shown(&catalog, ItemKind::Resource), [own, "f:///x"]);
    assert_eq!(
        told(catalog.resource("callgate://b/f:///x", None)),
        "b:f:///x"
    );
    assert_eq!(told(catalog.resource(own, None)), "a:callgate://b/f:///x");
    let other = "callgate://b/f:///not-listed";
    assert_eq!(told(catalog.resource(other, None)), "b:f:///not-listed");
}

#[test]
fn what_overlaps_with_an_earlier_servers_template_is_wrapped() {
    let (catalog, _) = catalog(
        Prefix::Always,
        vec![
            having("some", &[], &[], &["f:///{+path}", "g:///{x}.txt"]),
            having(
                "later",
                &[],
                &["f:///a", "h:a"],
                &["f:///a{+rest}", "g:///{y}.md"],
            ),
            having("all", &[], &[], &["{+anything}", "h:{x}"]),
        ],
    );
    assert_eq!(
        shown(&catalog, ItemKind::Template),
        [
            "f:///{+path}",
            "g:///{x}.txt",
            "callgate://later/f:///a{+rest}",
            "g:///{y}.md",
            "callgate://all/{+anything}",
            "callgate://all/h:{x}",
        ]
    );
    assert_eq!(
        shown(&catalog, ItemKind::Resource),
        ["callgate://later/f:///a", "h:a"]
    );
    let cases = [
        ("f:///a", "some:f:///a"),
        ("f:///a/b", "some:f:///a/b"),
        ("callgate://later/f:///a/b", "later:f:///a/b"),
        ("g:///1.txt", "some:g:///1.txt"),
        ("g:///1.md", "later:g:///1.md"),
        ("h:a", "later:h:a"),
        ("callgate://all/h:a", "all:h:a"),
        ("g:x", "! resource not found"),
    ];
    for (uri, expected) in cases {
        assert_eq!(told(catalog.resource(uri, None)), expected, "{uri}");
    }
}

#[test]
fn a_uri_stays_with_the_server_that_hosts_know_it_of() {
    let naming = Naming::default();
    let late = having("late", &[], &["f:///x"], &["g:{x}"]);
    let first = having("first", &[], &["f:///x"], &["g:{y}"]);
    let before = vec![Listing::unknown(server("late")), first.clone()];
    let (before, _) = Catalog::build(naming.clone(), before);
    assert_eq!(shown(&before, ItemKind::Resource), ["f:///x"]);
    let (after, _) = Catalog::build_after(&before, naming.clone(), vec![late.clone(), first]);
    assert_eq!(
        shown(&after, ItemKind::Resource),
        ["callgate://late/f:///x", "f:///x"]
    );
    assert_eq!(told(after.resource("f:///x", None)), "first:f:///x");
    assert_eq!(told(after.resource("g:1", None)), "first:g:1");
    let gone = vec![late, having("first", &[], &[], &[])];
    let (gone, _) = Catalog::build_after(&after, naming, gone);
    assert_eq!(shown(&gone, ItemKind::Resource), ["f:///x"]);
}

#[test]
fn a_uri_that_a_result_named_leads_to_the_server_of_the_result() {
    let (catalog, _) = catalog(
        Prefix::Always,
        vec![
            having("a", &[], &["f:///x"], &["g:{x}"]),
            having("b", &[], &[], &[]),
        ],
    );
    let (a, b, gone) = (server("a"), server("b"), server("gone"));
    let ambiguous = |uri| {
        format!(
            "! resource `{uri}` is ambiguous; read one of: callgate://a/{uri}, callgate://b/{uri}"
        )
    };
    let cases = [
        ("m:1", Some(&b), "b:m:1".to_owned()),
        ("m:1", None, "! resource not found".to_owned()),
        ("m:1", Some(&gone), "! resource not found".to_owned()),
        ("f:///x", Some(&a), "a:f:///x".to_owned()),
        ("f:///x", Some(&b), ambiguous("f:///x")),
        ("f:///x", Some(&gone), "a:f:///x".to_owned()),
        ("g:1", Some(&b), ambiguous("g:1")),
        (
            "callgate://gone/f:///x",
            None,
            "! resource not found".to_owned(),
        ),
    ];
    for (uri, said_by, expected) in cases {
        assert_eq!(told(catalog.resource(uri, said_by)), expected, "{uri}");
    }
}

#[test]
fn a_tools_interface_is_read_from_its_own_server() {
    let with_ui = |of: &str, uri: &str| {
        let descriptor = format!(r#"{{"name":"t","_meta":{{"ui":{{"resourceUri":"{uri}"}}}}}}"#);
        Listing {
            tools: Some(vec![described(of, &descriptor)]),
            ..having(of, &[], &[], &[])
        }
    };
    let (catalog, _) = catalog(
        Prefix::Always,
        vec![
            with_ui("a", "ui://app"),
            with_ui("b", "ui://app"),
            with_ui("c", "d:listed"),
            having("d", &[], &["d:listed"], &[]),
        ],
    );
    let policy = Policy::default();
    let ui = |tool: &std::sync::Arc<callgate_gate::Tool>| {
        let text = std::str::from_utf8(&tool.shown_descriptor)
            .unwrap()
            .to_owned();
        text.split('"').rev().nth(1).unwrap().to_owned()
    };
    let shown_uis: Vec<String> = catalog.listed(&policy).map(ui).collect();
    assert_eq!(
        shown_uis,
        ["ui://app", "callgate://b/ui://app", "callgate://c/d:listed"]
    );
    assert_eq!(told(catalog.resource("ui://app", None)), "a:ui://app");
    assert_eq!(told(catalog.resource("d:listed", None)), "d:d:listed");
}

#[test]
fn shown_task_ids_name_their_server() {
    let (catalog, _) = catalog(Prefix::Always, vec![having("a", &[], &[], &[])]);
    let own = catalog.task("a:x:y");
    assert_eq!(own, Some((server("a"), "x:y".to_owned())));
    assert_eq!(shown_task(&server("a"), "x:y"), "a:x:y");
    assert_eq!(catalog.task("b:x"), None);
    assert_eq!(catalog.task("x"), None);
}

#[test]
fn unknown_uris_go_to_the_only_server_with_resources() {
    let one = having("a", &[], &[], &[]);
    let none = listing("b", &["t"]);
    let (settled, _) = catalog(Prefix::Always, vec![one.clone(), none]);
    assert_eq!(told(settled.resource("x:y", None)), "a:x:y");
    let connecting = Listing::unknown(server("c"));
    let (unsettled, _) = catalog(Prefix::Always, vec![one, connecting]);
    assert_eq!(
        told(unsettled.resource("x:y", None)),
        "! resource not found"
    );
}
