//! From a prompt's name or a resource's URI to exactly one server.

use callgate_gate::{
    Catalog, Finding, Item, ItemKind, Items, Listing, Naming, Offers, Policy, Prefix, Reference,
    ResolveError, shown_task,
};

use crate::given::{identity, item, listing, server};

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
        assert_eq!(told(catalog.resource(uri)), expected, "{uri}");
    }
    assert_eq!(told(catalog.template("f:///{id}")), "a:f:///{id}");
    assert_eq!(
        told(catalog.template("callgate://b/f:///{id}")),
        "b:f:///{id}"
    );
    assert_eq!(told(catalog.template("g:///z")), "b:g:///z");
    assert_eq!(
        catalog.shown_uri(&server("b"), "f:///x"),
        "callgate://b/f:///x"
    );
    assert_eq!(catalog.shown_uri(&server("b"), "g:///z"), "g:///z");
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
    assert_eq!(told(catalog.resource("callgate://b/f:///x")), "b:f:///x");
    assert_eq!(told(catalog.resource(own)), "a:callgate://b/f:///x");
    let other = "callgate://b/f:///not-listed";
    assert_eq!(told(catalog.resource(other)), "b:f:///not-listed");
}

#[test]
fn the_most_specific_matching_template_resolves_a_uri() {
    let (catalog, _) = catalog(
        Prefix::Always,
        vec![
            having("all", &[], &[], &["{+anything}"]),
            having("some", &[], &[], &["f:///{+path}"]),
            having("later", &[], &[], &["f:///{+other}"]),
        ],
    );
    assert_eq!(told(catalog.resource("f:///a/b")), "some:f:///a/b");
    assert_eq!(told(catalog.resource("g:x")), "all:g:x");
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
    assert_eq!(told(settled.resource("x:y")), "a:x:y");
    let connecting = Listing::unknown(server("c"));
    let (unsettled, _) = catalog(Prefix::Always, vec![one, connecting]);
    assert_eq!(told(unsettled.resource("x:y")), "! resource not found");
}
