//! Prompts, resources and templates in the catalog: under which names they are shown, and whose a
//! name or URI is.

use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;

use super::{Catalog, Finding, Listing, Named, ResolveError};
use crate::{
    Item, ItemKind, Policy, Reference, ServerName, Who,
    item::{unwrapped, wrapped},
    template::Template,
};

/// What one server lists of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Items {
    /// In the order it gave them.
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

/// Where resources come from that are not listed.
#[derive(Debug)]
pub(super) struct Source {
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
            self.sources.push(Source {
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

    /// What hosts see of one kind, in configuration order: this caller, or everyone.
    pub fn items<'c>(
        &'c self,
        kind: ItemKind,
        policy: &'c Policy,
        who: Option<&'c Who>,
    ) -> impl Iterator<Item = &'c Arc<Item>> {
        let listed = &self.table(kind).listed;
        listed
            .iter()
            .filter(move |item| policy.shows_item(item, who))
    }

    /// The one prompt that `name` means: its shown name, or canonical `server:prompt`. The only
    /// server may have prompts that it does not list.
    pub fn prompt(
        &self,
        name: &str,
        policy: &Policy,
        who: &Who,
    ) -> Result<Reference, ResolveError> {
        if let Some(prompt) = self.prompts.by_shown.get(name) {
            return Ok(prompt.reference());
        }
        if let Some(server) = self.only_server() {
            return Ok(reference(ItemKind::Prompt, server, name));
        }
        let Some((listing, own)) = self.split(name) else {
            return Err(self.unknown(Named::Prompt, name, policy, who));
        };
        if let Some(prompt) = self.prompts.of_server(&listing.server, own) {
            return Ok(prompt);
        }
        if listing.tools.is_none() {
            let server = listing.server.clone();
            return Err(ResolveError::NeverSeen { server });
        }
        let prompts = self.items(ItemKind::Prompt, policy, Some(who));
        let of_server = prompts.filter(|prompt| prompt.server == listing.server);
        Err(ResolveError::NotOfServer {
            what: Named::Prompt,
            name: name.to_owned(),
            server: listing.server.clone(),
            choices: of_server.map(|prompt| prompt.shown.clone()).collect(),
        })
    }

    /// The one resource that `uri` means: a listed one, one whose URI says whose it is, one that a
    /// template can make, or anything where a single server has resources.
    pub fn resource(&self, uri: &str) -> Result<Reference, ResolveError> {
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

    /// The template or resource that the arguments of a completion belong to.
    pub fn template(&self, uri: &str) -> Result<Reference, ResolveError> {
        if let Some(template) = self.templates.by_shown.get(uri) {
            return Ok(template.reference());
        }
        match self.unwrap(ItemKind::Template, uri) {
            Some(template) => Ok(template),
            None => self.resource(uri),
        }
    }

    /// The server of a task and the id that it uses itself.
    pub fn task(&self, id: &str) -> Option<(ServerName, String)> {
        let (server, own) = id.split_once(':')?;
        let mut listings = self.listings.iter();
        let listing = listings.find(|listing| listing.server.as_str() == server)?;
        Some((listing.server.clone(), own.to_owned()))
    }

    /// How hosts spell a server's own URI.
    pub fn shown_uri(&self, server: &ServerName, uri: &str) -> String {
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

    /// Of several templates that match, the one that says most; of those the first.
    fn source_of(&self, uri: &str) -> Option<&ServerName> {
        let matching = self.sources.iter().rev();
        let matching = matching.filter(|source| source.template.matches(uri));
        let best = matching.max_by_key(|source| source.template.literal_bytes())?;
        Some(&best.server)
    }

    /// The only server that a resource can be of.
    fn only_source(&self) -> Option<&ServerName> {
        let mut having = self.listings.iter().filter(|l| l.offers.resources);
        match (having.next(), having.next()) {
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

/// The item's own URI, unless an earlier server has the same one, or it looks like one of ours: then
/// one that says whose it is.
fn shown_uri(table: &ItemTable, item: &Item) -> String {
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
