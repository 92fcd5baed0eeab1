//! The law of handles: whatever a server names to a host leads back to that server or nowhere, and nothing else in its
//! messages changes.

mod given;

use std::{env, sync::Arc};

use arc_swap::ArcSwap;
use callgate_call::Links;
use callgate_gate::{
    Catalog, Item, ItemKind, Listing, Naming, Policy, Prefix, Reference, ResolveError, ServerName,
    UriOwner, shown_task,
};
use callgate_wire::{Json, Strictness, quote};
use proptest::prelude::*;

use given::{
    Event, FORMS, SERVERS, TEMPLATES, TOKENS, URIS, VALUES, WRAPPED, event, expanded, handles,
    listing, owner, reply,
};

/// Worlds that are tried in CI; a soak sets more by `CALLGATE_LINK_CASES`.
const CASES: u32 = 1_000;

/// The URI of a handle that a token has got, and the server and the URI that it stands for.
#[derive(Debug, Clone)]
struct Handle {
    token: usize,
    shown: String,
    server: ServerName,
    own: String,
}

struct World {
    links: Links,
    naming: Naming,
    servers: [Option<Listing>; SERVERS.len()],
    said: Vec<Handle>,
}

impl World {
    fn new(prefix: Prefix) -> Self {
        let naming = Naming {
            prefix,
            ..Naming::default()
        };
        let servers = SERVERS.map(|name| Some(listing(name, Vec::new(), Vec::new(), &[])));
        let links = Links::new(Arc::new(ArcSwap::from_pointee(Catalog::default())));
        let world = Self {
            links,
            naming,
            servers,
            said: Vec::new(),
        };
        world.rebuild();
        world
    }

    fn rebuild(&self) {
        let before = self.links.catalog().load();
        let listings = self.servers.iter().flatten().cloned().collect();
        let (catalog, _) = Catalog::build_after(&before, self.naming.clone(), listings);
        self.links.catalog().store(Arc::new(catalog));
    }

    fn happens(&mut self, event: &Event) {
        match event {
            Event::Lists {
                server,
                resources,
                templates,
                interfaces,
            } => {
                let resources = resources.iter().map(|at| URIS[*at]).collect();
                let templates = templates.iter().map(|at| TEMPLATES[*at]).collect();
                let interfaces: Vec<&str> = interfaces.iter().map(|at| URIS[*at]).collect();
                let listing = listing(SERVERS[*server], resources, templates, &interfaces);
                if let Some(known) = &mut self.servers[*server] {
                    *known = listing;
                }
                self.rebuild();
            }
            Event::Configured { server, is_there } => {
                let name = SERVERS[*server];
                self.servers[*server] =
                    is_there.then(|| listing(name, Vec::new(), Vec::new(), &[]));
                self.rebuild();
            }
            Event::Says {
                server,
                token,
                form,
                uris,
                is_escaped,
            } => self.says(*server, *token, (FORMS[*form], *is_escaped), *uris),
        }
    }

    fn says(
        &mut self,
        server: usize,
        token: usize,
        (form, is_escaped): (&str, bool),
        uris: [usize; 2],
    ) {
        if self.servers[server].is_none() {
            return;
        }
        let server = ServerName::new(SERVERS[server]).unwrap();
        let uris = uris.map(|at| URIS[at]);
        let literal = |uri: &str| match is_escaped {
            true => quote(uri).replace('/', "\\/").replace('m', "\\u006d"),
            false => quote(uri),
        };
        let said = reply(form, &uris.map(&literal));
        let shown = self.links.shown(said.clone(), &server, || owner(token));
        let prefix = format!("callgate://{server}/");
        let heard = handles(form, &shown);
        // Each URI as it was, or with the prefix behind its quote: the rest of the message is the server's, byte for byte.
        let mut expected = uris.map(&literal);
        for (at, heard) in heard.iter().enumerate() {
            if *heard != uris[at] {
                assert_eq!(*heard, format!("{prefix}{}", uris[at]));
                expected[at].insert_str(1, &prefix);
            }
        }
        assert_eq!(shown.bytes(), reply(form, &expected).bytes());
        for (at, heard) in heard.into_iter().enumerate() {
            // A single server's URIs are shown as they are, whatever they look like.
            if self.is_alone() && heard.starts_with(WRAPPED) {
                continue;
            }
            self.said.push(Handle {
                token,
                shown: heard,
                server: server.clone(),
                own: uris[at].to_owned(),
            });
        }
    }

    /// Every handle that a host can have, said or listed, leads to its server or nowhere.
    fn check(&self) {
        let catalog = self.links.catalog().load();
        for handle in &self.said {
            if self.is_alone() && handle.shown.starts_with(WRAPPED) {
                continue;
            }
            let found = self.resolve(handle.token, &handle.shown, false);
            // A server that is gone cannot be meant any more: its URI is free for one that lists it.
            if let (Ok(found), false) = (&found, self.is_there(&handle.server)) {
                let owner = catalog.uri_owner(&handle.shown);
                let is_listed = owner == UriOwner::Server(&found.server);
                assert!(is_listed || owner == UriOwner::Sole, "{handle:?}");
                continue;
            }
            self.leads_back(handle, found);
            if handle.shown.starts_with(WRAPPED) && handle.shown != handle.own {
                let is_there = self.is_there(&handle.server);
                let found = self.resolve(handle.token, &handle.shown, false);
                assert_eq!(found.is_ok(), is_there, "{handle:?}");
            }
        }
        for token in 0..TOKENS.len() {
            for handle in self.listed(&catalog, token) {
                let found = self.resolve(token, &handle.shown, false);
                let is_found = found.is_ok();
                self.leads_back(&handle, found);
                let named_before = self.links.said_by(&owner(token), &handle.shown);
                let is_disputed = named_before.is_some_and(|server| server != handle.server);
                assert!(is_found || is_disputed, "{handle:?}");
            }
            for handle in self.templates(&catalog, token) {
                let found = self.resolve(token, &handle.shown, true);
                self.leads_back(&handle, found);
            }
        }
        for listing in self.servers.iter().flatten() {
            let id = shown_task(&listing.server, "t:1");
            let task = catalog.task(&id);
            assert_eq!(task, Some((listing.server.clone(), "t:1".to_owned())));
        }
    }

    fn leads_back(&self, handle: &Handle, found: Result<Reference, ResolveError>) {
        match found {
            Ok(found) => {
                assert_eq!(found.server, handle.server, "{handle:?}");
                assert_eq!(found.name, handle.own, "{handle:?}");
            }
            Err(ResolveError::AmbiguousResource { choices, .. }) => {
                let meant = format!("callgate://{}/{}", handle.server, handle.own);
                assert!(choices.contains(&meant), "{handle:?} {choices:?}");
                let chosen = self.resolve(handle.token, &meant, false).expect("a choice");
                assert_eq!(
                    (chosen.server, chosen.name),
                    (handle.server.clone(), handle.own.clone())
                );
            }
            Err(ResolveError::UnknownResource { .. }) => {
                assert!(!self.is_there(&handle.server), "{handle:?}");
            }
            Err(error) => panic!("{handle:?}: {error}"),
        }
    }

    fn is_alone(&self) -> bool {
        self.naming.prefix == Prefix::Never && self.servers.iter().flatten().count() == 1
    }

    fn is_there(&self, server: &ServerName) -> bool {
        let mut there = self.servers.iter().flatten();
        there.any(|listing| listing.server == *server)
    }

    fn resolve(&self, token: usize, uri: &str, completes: bool) -> Result<Reference, ResolveError> {
        let said_by = self.links.said_by(&owner(token), uri);
        let catalog = self.links.catalog().load();
        match completes {
            true => catalog.template(uri, said_by.as_ref()),
            false => catalog.resource(uri, said_by.as_ref()),
        }
    }

    /// Listed resources, interfaces of tools, and URIs that a host makes of templates.
    fn listed(&self, catalog: &Catalog, token: usize) -> Vec<Handle> {
        let policy = Policy::default();
        let handle = |server: &ServerName, shown: String, own: String| Handle {
            token,
            shown,
            server: server.clone(),
            own,
        };
        let resources = catalog.items(ItemKind::Resource, &policy, None);
        let mut all: Vec<Handle> = resources
            .map(|item| handle(&item.server, item.shown.clone(), item.name.clone()))
            .collect();
        for tool in catalog.listed(&policy) {
            let json = Json::validate(&tool.shown_descriptor, Strictness::Full).unwrap();
            let ui = |json: Json<'_>| {
                let uri = json.get("_meta")?.get("ui")?.get("resourceUri")?;
                Some(uri.as_str()?.into_owned())
            };
            all.extend(ui(json).map(|shown| handle(&tool.server, shown, tool.ui_uris[0].clone())));
        }
        for template in catalog.items(ItemKind::Template, &policy, None) {
            for value in VALUES {
                let [shown, own] =
                    [&template.shown, &template.name].map(|text| expanded(text, value));
                all.push(handle(&template.server, shown, own));
            }
        }
        all
    }

    /// Templates as the references of completions.
    fn templates(&self, catalog: &Catalog, token: usize) -> Vec<Handle> {
        let policy = Policy::default();
        let templates = catalog.items(ItemKind::Template, &policy, None);
        let handle = |item: &Arc<Item>| Handle {
            token,
            shown: item.shown.clone(),
            server: item.server.clone(),
            own: item.name.clone(),
        };
        templates.map(handle).collect()
    }
}

#[test]
fn every_handle_leads_back_to_its_server() {
    let cases = env::var("CALLGATE_LINK_CASES").ok();
    let cases: u32 = cases.map_or(CASES, |cases| cases.parse().expect("a number of cases"));
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let prefix = prop::sample::select(vec![Prefix::Always, Prefix::Never]);
    let events = prop::collection::vec(event(), 1..24);
    proptest!(config, |(prefix in prefix, events in events)| {
        let mut world = World::new(prefix);
        for event in &events {
            world.happens(event);
            world.check();
        }
    });
}
