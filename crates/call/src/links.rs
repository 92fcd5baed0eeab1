//! Which server named a URI in a result, for each token: a later request for the URI reaches that server. A URI that
//! does not lead back to the server that names it is shown with the server's name in front.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use callgate_gate::{Catalog, Owner, ServerName, UriOwner, uri_prefix};
use callgate_wire::{Frame, Strictness, handles};

/// How many URIs of one server are remembered for a token.
const PER_SERVER: usize = 10_000;
/// How many URIs are remembered for all tokens of a tenant.
const PER_TENANT: usize = 200_000;
/// A longer URI is not remembered, but shown with its server's name.
const MAX_URI_BYTES: usize = 4096;

/// The URIs that servers named. Remembered as long as the gateway runs: sessions may end and servers restart.
#[derive(Debug, Default)]
pub struct Links {
    catalog: Arc<ArcSwap<Catalog>>,
    said: Mutex<HashMap<Owner, Said>>,
}

/// The URIs that one token has got.
#[derive(Debug, Default)]
struct Said {
    servers: HashMap<String, (ServerName, u64)>,
    /// The URIs of each server, by age.
    by_age: HashMap<ServerName, BTreeMap<u64, String>>,
    /// The servers some of whose URIs were forgotten.
    forgotten: HashSet<ServerName>,
    /// A counter that gives each URI its age.
    counted: u64,
}

impl Links {
    /// The links of servers whose current lists are in `catalog`.
    pub fn new(catalog: Arc<ArcSwap<Catalog>>) -> Self {
        let said = Mutex::default();
        Self { catalog, said }
    }

    /// The catalog that it reads.
    pub fn catalog(&self) -> &ArcSwap<Catalog> {
        &self.catalog
    }

    /// A server's message with URIs that lead back to the server. Without one that has to be changed, it is the same
    /// message.
    pub fn shown(&self, frame: Frame, server: &ServerName, owner: impl FnOnce() -> Owner) -> Frame {
        let uris = handles::uris(&frame);
        if uris.is_empty() {
            return frame;
        }
        let owner = owner();
        let foreign = uris.iter().filter(|uri| {
            // A host cannot request what is not a text.
            let uri = uri.as_str();
            uri.is_some_and(|uri| !self.leads_back(&owner, server, &uri))
        });
        let changes: Vec<_> = foreign.map(|uri| (*uri, uri_prefix(server))).collect();
        if changes.is_empty() {
            return frame;
        }
        let changed = handles::prefixed(frame.bytes(), &changes);
        // A prefix in a string keeps a message valid, so the fallback is never taken.
        Frame::parse(changed, Strictness::Envelope).unwrap_or(frame)
    }

    /// A URI of a server as its host can request it.
    pub fn spelled(&self, owner: &Owner, server: &ServerName, uri: &str) -> String {
        match self.leads_back(owner, server, uri) {
            true => uri.to_owned(),
            false => uri_prefix(server) + uri,
        }
    }

    /// The server that named a URI to this token.
    pub fn said_by(&self, owner: &Owner, uri: &str) -> Option<ServerName> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let (server, _) = said.get(owner)?.servers.get(uri)?;
        Some(server.clone())
    }

    /// Whether a request for the URI reaches the server from now on. Remembers a URI that does.
    fn leads_back(&self, owner: &Owner, server: &ServerName, uri: &str) -> bool {
        let catalog = self.catalog.load();
        match catalog.uri_owner(uri) {
            // Remembered, because another server may be configured later.
            UriOwner::Sole => self.note(owner, server, uri) != Noted::OfAnother,
            UriOwner::Wrapped => false,
            UriOwner::Server(other) if other != server => false,
            // Also remembered if it is listed: another server may list it later.
            UriOwner::Server(_) => self.note(owner, server, uri) != Noted::OfAnother,
            UriOwner::Unknown => self.note(owner, server, uri) == Noted::Remembered,
        }
    }

    fn note(&self, owner: &Owner, server: &ServerName, uri: &str) -> Noted {
        let mut all = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = all.entry(owner.clone()).or_default();
        let noted = said.note(server, uri);
        let of_tenant = all
            .iter_mut()
            .filter(|(known, _)| known.tenant == owner.tenant);
        let mut of_tenant: Vec<&mut Said> = of_tenant.map(|(_, said)| said).collect();
        let count: usize = of_tenant.iter().map(|said| said.servers.len()).sum();
        // From the token with most, so that one token cannot push out the URIs of the others.
        if count > PER_TENANT
            && let Some(largest) = of_tenant.iter_mut().max_by_key(|said| said.servers.len())
        {
            largest.forget_of_largest();
        }
        noted
    }
}

/// What became of a URI that a server named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Noted {
    Remembered,
    /// It belongs to another server.
    OfAnother,
    /// It cannot be told from a URI of another server that was forgotten, or it is too long.
    Refused,
}

impl Said {
    fn note(&mut self, server: &ServerName, uri: &str) -> Noted {
        let known = self.servers.get(uri);
        if known.is_some_and(|(other, _)| other != server) {
            return Noted::OfAnother;
        }
        let is_new = known.is_none();
        // Otherwise a server could name a URI that another one's host still has, and receive its requests.
        let others_forgotten = self.forgotten.iter().any(|other| other != server);
        if uri.len() > MAX_URI_BYTES || (is_new && others_forgotten) {
            return Noted::Refused;
        }
        self.counted += 1;
        let age = self.counted;
        let before = self.servers.insert(uri.to_owned(), (server.clone(), age));
        let by_age = self.by_age.entry(server.clone()).or_default();
        if let Some((_, age)) = before {
            by_age.remove(&age);
        }
        by_age.insert(age, uri.to_owned());
        if by_age.len() > PER_SERVER {
            self.forget_oldest(server);
        }
        Noted::Remembered
    }

    fn forget_of_largest(&mut self) {
        let largest = self.by_age.iter().max_by_key(|(_, uris)| uris.len());
        if let Some(server) = largest.map(|(server, _)| server.clone()) {
            self.forget_oldest(&server);
        }
    }

    fn forget_oldest(&mut self, server: &ServerName) {
        let oldest = self.by_age.get_mut(server).and_then(BTreeMap::pop_first);
        if let Some((_, uri)) = oldest {
            self.servers.remove(&uri);
            self.forgotten.insert(server.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(principal: &str) -> Owner {
        Owner {
            tenant: "local".to_owned(),
            principal: principal.to_owned(),
        }
    }

    fn server(name: &str) -> ServerName {
        ServerName::new(name).expect("a name")
    }

    #[test]
    fn the_first_server_that_names_a_uri_keeps_it_for_that_token() {
        let links = Links::default();
        let (a, b, me) = (server("a"), server("b"), owner("me"));
        assert_eq!(links.spelled(&me, &a, "m:1"), "m:1");
        assert_eq!(links.spelled(&me, &a, "m:1"), "m:1");
        assert_eq!(links.spelled(&me, &b, "m:1"), "callgate://b/m:1");
        assert_eq!(links.said_by(&me, "m:1"), Some(a.clone()));
        assert_eq!(links.said_by(&owner("you"), "m:1"), None);
        assert_eq!(links.spelled(&owner("you"), &b, "m:1"), "m:1");
        for wrapped in ["callgate://b/m:1", "CallGate://b/m:1", "callgate://"] {
            let spelled = links.spelled(&me, &a, wrapped);
            assert_eq!(spelled, format!("callgate://a/{wrapped}"));
        }
        let long = "m:".to_owned() + &"x".repeat(MAX_URI_BYTES);
        assert!(links.spelled(&me, &a, &long).starts_with("callgate://a/"));
    }

    #[test]
    fn what_was_forgotten_goes_to_no_other_server() {
        let links = Links::default();
        let (a, b, me) = (server("a"), server("b"), owner("me"));
        for number in 0..=PER_SERVER {
            links.spelled(&me, &a, &format!("m:{number}"));
        }
        assert_eq!(links.said_by(&me, "m:0"), None);
        assert_eq!(links.spelled(&me, &b, "m:0"), "callgate://b/m:0");
        assert_eq!(links.spelled(&me, &a, "m:0"), "m:0");
        assert_eq!(links.said_by(&me, "m:1"), None, "it was the oldest then");
    }
}
