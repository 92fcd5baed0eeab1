//! Prompts, resources and templates in the catalog: their shown names, and the owner of a name or URI.

use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;

use super::{Catalog, Finding, Listing, NameKind, ResolveError};
use crate::{
    CallerIdentity, Item, ItemKind, Policy, Reference, ServerName,
    item::{unwrapped, wrapped},
    template::Template,
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

/// All items of one kind.
#[derive(Debug, Default)]
pub(super) struct ItemTable {
    listed: Vec<Arc<Item>>,
    by_shown: HashMap<String, Arc<Item>>,
    by_server: HashMap<ServerName, HashMap<String, Arc<Item>>>,
}

/// A template: the source of resources that are not listed.
#[derive(Debug)]
pub(super) struct ResourceSource {
    template: Template,
    server: ServerName,
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
            let shown = shown_uri(&self.resources, resource);
            self.resources.add(resource.shown_as(shown), listing.listed);
        }
        for template in &listing.templates.items {
            let shown = shown_uri(&self.templates, template);
            self.templates.add(template.shown_as(shown), listing.listed);
            self.sources.push(ResourceSource {
                template: Template::new(&template.name),
                server: listing.server.clone(),
            });
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

    /// Resolves a URI: a listed resource, a wrapped URI that names its server, a template match, or any URI where
    /// a single server has resources.
    pub fn resource(&self, uri: &str) -> Result<Reference, ResolveError> {
        // Listed resources first: another server's template must not capture a URI that a server lists.
        if let Some(resource) = self.resources.by_shown.get(uri) {
            return Ok(resource.reference());
        }
        if let Some(resource) = self.unwrap(ItemKind::Resource, uri) {
            return Ok(resource);
        }
        if let Some(server) = self.source_of(uri).or_else(|| self.only_source()) {
            return Ok(reference(ItemKind::Resource, server, uri));
        }
        let uri = uri.to_owned();
        Err(ResolveError::UnknownResource { uri })
    }

    /// The template or resource of a completion.
    pub fn template(&self, uri: &str) -> Result<Reference, ResolveError> {
        if let Some(template) = self.templates.by_shown.get(uri) {
            return Ok(template.reference());
        }
        match self.unwrap(ItemKind::Template, uri) {
            Some(template) => Ok(template),
            None => self.resource(uri),
        }
    }

    /// The server of a task, and the server's own id for it.
    pub fn task(&self, id: &str) -> Option<(ServerName, String)> {
        let (server, own) = id.split_once(':')?;
        let mut listings = self.listings.iter();
        let listing = listings.find(|listing| listing.server.as_str() == server)?;
        Some((listing.server.clone(), own.to_owned()))
    }

    /// How hosts spell a server's own URI.
    pub fn shown_uri(&self, server: &ServerName, uri: &str) -> String {
        // Notifications carry the server's own URI, and hosts know the shown one.
        let own = self.resources.by_server.get(server);
        match own.and_then(|own| own.get(uri)) {
            Some(resource) => resource.shown.clone(),
            None => uri.to_owned(),
        }
    }

    fn unwrap(&self, kind: ItemKind, uri: &str) -> Option<Reference> {
        let (server, own) = unwrapped(uri)?;
        let mut listings = self.listings.iter();
        let listing = listings.find(|listing| listing.server.as_str() == server)?;
        Some(reference(kind, &listing.server, own))
    }

    /// The server of the most specific matching template; the first of equally specific ones.
    fn source_of(&self, uri: &str) -> Option<&ServerName> {
        // `max_by_key` returns the last maximum; reversed, that is the first server.
        let matching = self.sources.iter().rev();
        let matching = matching.filter(|source| source.template.matches(uri));
        let best = matching.max_by_key(|source| source.template.literal_bytes())?;
        Some(&best.server)
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

/// The item's own URI; wrapped with the server's name if an earlier server has the same URI, or if it looks
/// wrapped already.
fn shown_uri(table: &ItemTable, item: &Item) -> String {
    // A server could list `callgate://other/uri` to receive requests for another server's resource.
    let is_taken = table.by_shown.contains_key(&item.name) || unwrapped(&item.name).is_some();
    match is_taken {
        true => wrapped(&item.server, &item.name),
        false => item.name.clone(),
    }
}

fn reference(kind: ItemKind, server: &ServerName, name: &str) -> Reference {
    Reference {
        kind,
        server: server.clone(),
        name: name.to_owned(),
    }
}
