//! Prompts, resources and templates in the catalog: their shown names, and the owner of a name or URI.

use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;

use super::{
    Catalog, Finding, Listing, NameKind, ResolveError,
    claims::{Claims, Spelling},
};
use crate::{
    CallerIdentity, Item, ItemKind, Policy, Reference, ServerName,
    item::{looks_wrapped, unwrapped, wrapped, wrapping},
};

/// One server's items of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Items {
    /// In the server's order.
    pub items: Vec<Item>,
    /// The members of its list result other than the items and `nextCursor`, as raw `"key":value`
    /// text. Shown only where there is a single server.
    pub extras: Vec<Bytes>,
}

/// The server that a URI leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UriOwner<'c> {
    /// There is only one, and it has every URI that no other server was known to have.
    Sole,
    Server(&'c ServerName),
    /// The URI names its server, or some reader could take it for one that does.
    Wrapped,
    Unknown,
}

/// The prefix that makes a server's URI one that names its server.
pub fn uri_prefix(server: &ServerName) -> String {
    wrapping(server)
}

/// All items of one kind.
#[derive(Debug, Default)]
pub(super) struct ItemTable {
    listed: Vec<Arc<Item>>,
    by_shown: HashMap<String, Arc<Item>>,
    by_server: HashMap<ServerName, HashMap<String, Arc<Item>>>,
}

impl ItemTable {
    fn add(&mut self, item: Item, listed: bool) {
        let item = Arc::new(item);
        self.by_shown.insert(item.shown.clone(), item.clone());
        let own = self.by_server.entry(item.server.clone()).or_default();
        own.insert(item.name.clone(), item.clone());
        if listed {
            self.listed.push(item);
        }
    }

    fn of_server(&self, server: &ServerName, name: &str) -> Option<Reference> {
        let item = self.by_server.get(server)?.get(name)?;
        Some(item.reference())
    }
}

impl Catalog {
    pub(super) fn add_items(&mut self, listing: &Listing, findings: &mut Vec<Finding>) {
        for prompt in &listing.prompts.items {
            self.add_prompt(prompt, listing.listed, findings);
        }
        for resource in &listing.resources.items {
            let shown = self.shown_spelling(resource, Spelling::Uri(&resource.name));
            self.resources.add(resource.shown_as(shown), listing.listed);
        }
        for template in &listing.templates.items {
            let shown = self.shown_spelling(template, Spelling::Template(&template.name));
            self.templates.add(template.shown_as(shown), listing.listed);
        }
    }

    /// Decides which URIs and templates are shown as their servers spell them. `before` is the claims of the
    /// snapshot that hosts know.
    pub(super) fn claim(&mut self, listings: &[Listing], before: &Claims) {
        self.claims.may_look_wrapped = self.is_alone;
        for (server, spelling) in listings.iter().flat_map(listed) {
            self.claims.take_again(server, spelling, before);
        }
        for (server, spelling) in listings.iter().flat_map(listed) {
            self.claims.take(server, spelling);
        }
        // Last: a tool can name any URI, and so must not take it from the server that lists it.
        for (server, spelling) in listings.iter().flat_map(named_by_tools) {
            self.claims.take(server, spelling);
        }
    }

    /// The item's own URI, or wrapped with the server's name if the URI belongs to another server.
    fn shown_spelling(&self, item: &Item, spelling: Spelling<'_>) -> String {
        match self.is_alone || self.claims.has(&item.server, spelling) {
            true => item.name.clone(),
            false => wrapped(&item.server, &item.name),
        }
    }

    fn add_prompt(&mut self, prompt: &Item, listed: bool, findings: &mut Vec<Finding>) {
        let shown = self.naming.shown(&prompt.server, &prompt.name);
        match self.prompts.by_shown.get(&shown) {
            Some(kept) => findings.push(Finding::ShownTwice {
                shown,
                kept: kept.canonical(),
                left_out: prompt.canonical(),
            }),
            None => self.prompts.add(prompt.shown_as(shown), listed),
        }
    }

    /// The items of one kind that this caller, or everyone, sees, in configuration order.
    pub fn items<'c>(
        &'c self,
        kind: ItemKind,
        policy: &'c Policy,
        identity: Option<&'c CallerIdentity>,
    ) -> impl Iterator<Item = &'c Arc<Item>> {
        let listed = &self.table(kind).listed;
        listed
            .iter()
            .filter(move |item| policy.shows_item(item, identity))
    }

    /// Resolves a shown name or canonical `server:prompt`. An only server may have prompts that it does not
    /// list.
    pub fn prompt(
        &self,
        name: &str,
        policy: &Policy,
        identity: &CallerIdentity,
    ) -> Result<Reference, ResolveError> {
        if let Some(prompt) = self.prompts.by_shown.get(name) {
            return Ok(prompt.reference());
        }
        if let Some(server) = self.only_server() {
            return Ok(reference(ItemKind::Prompt, server, name));
        }
        let Some((listing, own)) = self.split(name) else {
            return Err(self.unknown(NameKind::Prompt, name, policy, identity));
        };
        if let Some(prompt) = self.prompts.of_server(&listing.server, own) {
            return Ok(prompt);
        }
        if listing.tools.is_none() {
            let server = listing.server.clone();
            return Err(ResolveError::NeverSeen { server });
        }
        let prompts = self.items(ItemKind::Prompt, policy, Some(identity));
        let of_server = prompts.filter(|prompt| prompt.server == listing.server);
        Err(ResolveError::NotOfServer {
            what: NameKind::Prompt,
            name: name.to_owned(),
            server: listing.server.clone(),
            choices: of_server.map(|prompt| prompt.shown.clone()).collect(),
        })
    }

    /// Resolves a URI: a listed resource, a wrapped URI that names its server, a URI that matches a template or that
    /// a tool names, one that `said_by` named in a result, or any URI where a single server has resources.
    pub fn resource(
        &self,
        uri: &str,
        said_by: Option<&ServerName>,
    ) -> Result<Reference, ResolveError> {
        if let Some(resource) = self.resources.by_shown.get(uri) {
            return self.unless_ambiguous(resource.reference(), uri, said_by);
        }
        if let Some(server) = self.claims.owner(uri) {
            let resource = reference(ItemKind::Resource, server, uri);
            return self.unless_ambiguous(resource, uri, said_by);
        }
        if let Some(resource) = self.unwrap(ItemKind::Resource, uri) {
            return Ok(resource);
        }
        let server = match said_by {
            // If its server is gone, another one must not receive what was meant for it.
            Some(server) => Some(server).filter(|server| self.has_server(server)),
            None if !self.is_alone && looks_wrapped(uri) => None,
            None => self.only_source(),
        };
        match server {
            Some(server) => Ok(reference(ItemKind::Resource, server, uri)),
            None => {
                let uri = uri.to_owned();
                Err(ResolveError::UnknownResource { uri })
            }
        }
    }

    /// The template or resource of a completion.
    pub fn template(
        &self,
        uri: &str,
        said_by: Option<&ServerName>,
    ) -> Result<Reference, ResolveError> {
        if let Some(template) = self.templates.by_shown.get(uri) {
            return Ok(template.reference());
        }
        match self.unwrap(ItemKind::Template, uri) {
            Some(template) => Ok(template),
            None => self.resource(uri, said_by),
        }
    }

    /// The server that a URI leads to, before any server has said it in a result.
    pub fn uri_owner(&self, uri: &str) -> UriOwner<'_> {
        if self.is_alone {
            return UriOwner::Sole;
        }
        match self.claims.owner(uri) {
            Some(server) => UriOwner::Server(server),
            None if looks_wrapped(uri) => UriOwner::Wrapped,
            None => UriOwner::Unknown,
        }
    }

    /// An error if a server named the URI to this caller before another one claimed it: the caller may mean either.
    fn unless_ambiguous(
        &self,
        found: Reference,
        uri: &str,
        said_by: Option<&ServerName>,
    ) -> Result<Reference, ResolveError> {
        let other = said_by.filter(|server| **server != found.server && self.has_server(server));
        match other {
            None => Ok(found),
            Some(other) => Err(ResolveError::AmbiguousResource {
                uri: uri.to_owned(),
                choices: [&found.server, other].map(|server| wrapped(server, &found.name)),
            }),
        }
    }

    fn has_server(&self, server: &ServerName) -> bool {
        self.listings
            .iter()
            .any(|listing| listing.server == *server)
    }

    /// The server of a task, and the server's own id for it.
    pub fn task(&self, id: &str) -> Option<(ServerName, String)> {
        let (server, own) = id.split_once(':')?;
        let mut listings = self.listings.iter();
        let listing = listings.find(|listing| listing.server.as_str() == server)?;
        Some((listing.server.clone(), own.to_owned()))
    }

    fn unwrap(&self, kind: ItemKind, uri: &str) -> Option<Reference> {
        let (server, own) = unwrapped(uri)?;
        let mut listings = self.listings.iter();
        let listing = listings.find(|listing| listing.server.as_str() == server)?;
        Some(reference(kind, &listing.server, own))
    }

    /// The only server that a resource can be of.
    fn only_source(&self) -> Option<&ServerName> {
        let mut having = self.listings.iter().filter(|l| l.offers.resources);
        match (having.next(), having.next()) {
            // While a server is still unknown it may turn out to have resources too: guessing would misroute.
            (Some(only), None) if self.listings.iter().all(|l| l.tools.is_some()) => {
                Some(&only.server)
            }
            _ => self.only_server(),
        }
    }

    fn table(&self, kind: ItemKind) -> &ItemTable {
        match kind {
            ItemKind::Prompt => &self.prompts,
            ItemKind::Resource => &self.resources,
            ItemKind::Template => &self.templates,
        }
    }
}

/// The resources and templates that a server lists.
fn listed(listing: &Listing) -> impl Iterator<Item = (&ServerName, Spelling<'_>)> {
    let resources = listing.resources.items.iter();
    let resources = resources.map(|item| Spelling::Uri(&item.name));
    let templates = listing.templates.items.iter();
    let templates = templates.map(|item| Spelling::Template(&item.name));
    let all = resources.chain(templates);
    all.map(|spelling| (&listing.server, spelling))
}

/// The resources that its tools name.
fn named_by_tools(listing: &Listing) -> impl Iterator<Item = (&ServerName, Spelling<'_>)> {
    let tools = listing.tools.iter().flatten();
    let uris = tools.flat_map(|tool| &tool.ui_uris);
    uris.map(|uri| (&listing.server, Spelling::Uri(uri)))
}

fn reference(kind: ItemKind, server: &ServerName, name: &str) -> Reference {
    Reference {
        kind,
        server: server.clone(),
        name: name.to_owned(),
    }
}
