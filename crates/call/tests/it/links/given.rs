//! What servers can name, and the forms in which they do.

use std::collections::BTreeSet;

use callgate_gate::{Item, ItemKind, Items, Listing, Offers, Owner, ServerName, Tool};
use callgate_wire::{Frame, Strictness, quote};
use proptest::prelude::*;
use serde_json::Value;

pub(super) const WRAPPED: &str = "callgate://";

pub(super) const SERVERS: [&str; 4] = ["a", "b", "A", "c-d"];
pub(super) const TOKENS: [&str; 2] = ["one", "two"];

/// Few and colliding, some of them made to be taken for another server's.
pub(super) const URIS: [&str; 12] = [
    "m:1",
    "m:2",
    "f:///a",
    "f:///a/b",
    "f:///a.txt",
    "ui://app",
    "callgate://a/m:1",
    "callgate://b/callgate://a/m:1",
    "CALLGATE://b/f:///a",
    "callgate://nobody/m:1",
    "callgate://a",
    "",
];

pub(super) const TEMPLATES: [&str; 7] = [
    "f:///{+path}",
    "f:///{name}",
    "f:///{name}.txt",
    "m:{n}",
    "{+anything}",
    "callgate://a/{+x}",
    "ui://{x}",
];

/// What a template's values are replaced by.
pub(super) const VALUES: [&str; 4] = ["1", "a", "a.txt", "app"];

/// The forms of results that name URIs, with `@` for each.
pub(super) const FORMS: [&str; 8] = [
    r#"{"content":[{"type":"resource_link","uri":@,"name":"uri"},{"type":"text","text":"uri"}]}"#,
    r#"{ "x":1.0, "content":[{"resource":{"uri" : @ ,"text":"m:1"},"type":"resource"},{"type":"resource_link","uri":@}]}"#,
    r#"{"contents":[{"uri":@,"blob":""},{"uri":@}],"\u0061":-0}"#,
    r#"{"messages":[{"role":"user","content":{"type":"resource_link","uri":@}}]}"#,
    r#"{"content":[],"_meta":{"ui":{"resourceUri":@}}}"#,
    r#"{"taskId":"t","result":{"content":[{"type":"resource_link","\u0075ri":@}]}}"#,
    r#"{"inputRequests":{"k":{"method":"sampling/createMessage","params":{"messages":[{"content":[{"type":"resource","resource":{"uri":@}}]}]}}}}"#,
    r#"{"structuredContent":{"uri":"m:1"},"content":[{"type":"text","text":"m:1"}]}"#,
];

#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A server's lists change.
    Lists {
        server: usize,
        resources: BTreeSet<usize>,
        templates: BTreeSet<usize>,
        interfaces: BTreeSet<usize>,
    },
    /// A server disappears from the configuration, or comes back without lists.
    Configured { server: usize, is_there: bool },
    /// A server answers a call of a token.
    Says {
        server: usize,
        token: usize,
        form: usize,
        uris: [usize; 2],
        is_escaped: bool,
    },
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let server = || 0..SERVERS.len();
    let some = |most, of| prop::collection::btree_set(0..of, 0..most);
    let lists = (
        server(),
        some(4, URIS.len()),
        some(3, TEMPLATES.len()),
        some(2, URIS.len()),
    );
    let says = (
        server(),
        0..TOKENS.len(),
        0..FORMS.len(),
        [0..URIS.len(), 0..URIS.len()],
        any::<bool>(),
    );
    prop_oneof![
        3 => lists.prop_map(|(server, resources, templates, interfaces)| Event::Lists {
            server, resources, templates, interfaces,
        }),
        1 => (server(), any::<bool>()).prop_map(|(server, is_there)| Event::Configured { server, is_there }),
        6 => says.prop_map(|(server, token, form, uris, is_escaped)| Event::Says {
            server, token, form, uris, is_escaped,
        }),
    ]
}

pub(super) fn owner(token: usize) -> Owner {
    Owner {
        tenant: "local".to_owned(),
        principal: TOKENS[token].to_owned(),
    }
}

pub(super) fn listing(
    name: &str,
    resources: Vec<&str>,
    templates: Vec<&str>,
    interfaces: &[&str],
) -> Listing {
    let server = ServerName::new(name).unwrap();
    let items = |kind: ItemKind, names: Vec<&str>| {
        let item = |name: &str| {
            let descriptor = format!(r#"{{"{}":{}}}"#, kind.key(), quote(name));
            Item::from_descriptor(kind, &server, descriptor.into()).unwrap()
        };
        Items {
            items: names.into_iter().map(item).collect(),
            extras: Vec::new(),
        }
    };
    let tool = |(at, uri): (usize, &&str)| {
        let uri = quote(uri);
        let descriptor = format!(r#"{{"name":"t{at}","_meta":{{"ui":{{"resourceUri":{uri}}}}}}}"#);
        Tool::from_descriptor(&server, descriptor.into()).unwrap()
    };
    Listing {
        listed: true,
        tools: Some(interfaces.iter().enumerate().map(tool).collect()),
        resources: items(ItemKind::Resource, resources),
        templates: items(ItemKind::Template, templates),
        offers: Offers {
            resources: true,
            ..Offers::default()
        },
        ..Listing::unknown(server.clone())
    }
}

/// A reply of this form with these literals.
pub(super) fn reply(form: &str, literals: &[String; 2]) -> Frame {
    let mut literals = literals.iter();
    let mut result = String::new();
    for part in form.split_inclusive('@') {
        match part.strip_suffix('@') {
            Some(before) => {
                result.push_str(before);
                result.push_str(literals.next().expect("at most two"));
            }
            None => result.push_str(part),
        }
    }
    let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#);
    Frame::parse(text.into(), Strictness::Envelope).expect("a valid reply")
}

/// The URIs in a reply of this form, as a host reads them.
pub(super) fn handles(form: &str, reply: &Frame) -> Vec<String> {
    let places = [
        ["/content/0/uri", ""],
        ["/content/0/resource/uri", "/content/1/uri"],
        ["/contents/0/uri", "/contents/1/uri"],
        ["/messages/0/content/uri", ""],
        ["/_meta/ui/resourceUri", ""],
        ["/result/content/0/uri", ""],
        [
            "/inputRequests/k/params/messages/0/content/0/resource/uri",
            "",
        ],
        ["", ""],
    ];
    let at = FORMS
        .iter()
        .position(|known| *known == form)
        .expect("one of ours");
    let result: Value = serde_json::from_slice(reply.result().unwrap().bytes()).unwrap();
    let places = places[at].iter().filter(|place| !place.is_empty());
    let text = |place: &&str| {
        result
            .pointer(place)
            .and_then(Value::as_str)
            .unwrap()
            .to_owned()
    };
    places.map(text).collect()
}

/// A template with every expression replaced by one value.
pub(super) fn expanded(template: &str, value: &str) -> String {
    let (before, rest) = template.split_once('{').expect("it has an expression");
    let (_, after) = rest.split_once('}').expect("it ends");
    format!("{before}{value}{after}")
}
