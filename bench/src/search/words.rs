//! An everyday catalog: tools that do ten things with twenty kinds of things.

use callgate_find::Document;

pub(super) const VERBS: [&str; 10] = [
    "create", "list", "get", "update", "delete", "search", "archive", "share", "export", "assign",
];
/// What they do it with.
pub(super) const NOUNS: [&str; 20] = [
    "invoice",
    "customer",
    "order",
    "shipment",
    "product",
    "ticket",
    "comment",
    "project",
    "sprint",
    "branch",
    "release",
    "pipeline",
    "container",
    "cluster",
    "secret",
    "domain",
    "alert",
    "dashboard",
    "incident",
    "contact",
];

/// `count` made-up tools.
pub(super) fn documents(count: usize) -> Vec<Document> {
    let one = |n: usize| {
        let (verb, noun, server) = (VERBS[n % 10], NOUNS[n / 10 % 20], n / 200);
        Document {
            name: format!("{verb}_{noun}_{server}"),
            server: format!("server{server}"),
            title: String::new(),
            description: format!(
                "{verb}s a {noun} in system {server}. Returns the {noun} with its id, owner and dates, and whatever else the system keeps about it."
            ),
            parameters: ["id", "fields", "dry_run", "limit"]
                .map(|name| (name.to_owned(), format!("The {name} of the {noun}")))
                .to_vec(),
        }
    };
    (0..count).map(one).collect()
}
