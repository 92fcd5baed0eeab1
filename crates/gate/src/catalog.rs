//! The catalog: an immutable snapshot of all tools, prompts and resources, and the resolution of a name to
//! exactly one of them. Prompts and resources are in `items.rs`.

mod claims;
mod items;
mod offers;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use foldhash::HashMap;

pub use items::{Items, UriOwner, uri_prefix};
pub use offers::Offers;

use crate::{
    CallerIdentity, Grant, ItemKind, Naming, Policy, Prefix, ServerName, Target, Tool,
    pins::{self, Quarantined},
};
use claims::{Claims, Spelling};
use items::ItemTable;

/// The most choices that an error lists.
const CHOICES_SHOWN: usize = 20;

/// One server's part of a snapshot.
#[derive(Debug, Clone)]
pub struct Listing {
    pub server: ServerName,
    /// Whether its tools are listed. A server that has been down for a while keeps its tools here, so that a
    /// call to one fails with the server's state instead of "unknown".
    pub listed: bool,
    /// Its tools, in its order; `None` until the server has listed them once.
    pub tools: Option<Vec<Tool>>,
    /// The members of its list result other than `tools` and `nextCursor`, as raw
    /// `"key":value` text. Shown only where there is a single server.
    pub list_extras: Vec<Bytes>,
    pub prompts: Items,
    pub resources: Items,
    /// Its templates of resources.
    pub templates: Items,
    /// Its other declared capabilities.
    pub offers: Offers,
}

impl Listing {
    /// A server that has not been reached yet.
    pub fn unknown(server: ServerName) -> Self {
        Self {
            server,
            listed: false,
            tools: None,
            list_extras: Vec::new(),
            prompts: Items::default(),
            resources: Items::default(),
            templates: Items::default(),
            offers: Offers::default(),
        }
    }
}

/// Something the operator should know about the snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Two tools, or two prompts, have the same shown name; the later one was left out.
    ShownTwice {
        /// The name in question.
        shown: String,
        kept: String,
        /// The canonical name that was left out.
        left_out: String,
    },
}

/// The kind of thing that a name names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    Tool,
    Prompt,
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
        })
    }
}

/// Why a name cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No server of that name is configured.
    #[error("unknown {what} `{name}`: no such server; servers: {}", named(.servers))]
    UnknownServer {
        /// The kind of thing that was requested.
        what: NameKind,
        name: String,
        /// The servers there are.
        servers: Vec<String>,
    },
    /// The server has nothing with that name.
    #[error("unknown {what} `{name}` of server `{server}`; its {what}s: {}", named(.choices))]
    NotOfServer {
        /// The kind of thing that was requested.
        what: NameKind,
        name: String,
        /// The server that was meant.
        server: ServerName,
        choices: Vec<String>,
    },
    /// Without prefixes a name cannot include a server.
    #[error("unknown {what} `{name}`; {what}s: {}", named(.choices))]
    Unknown {
        /// The kind of thing that was requested.
        what: NameKind,
        name: String,
        choices: Vec<String>,
    },
    /// The tool is quarantined until a person reviews it.
    #[error(
        "tool `{name}` is quarantined: {reason}; the operator of this gateway can review it with `callgate lock diff`"
    )]
    Quarantined {
        name: String,
        /// The server that has it.
        server: ServerName,
        /// The reason for hosts, without text from the definition.
        reason: String,
    },
    /// No server has such a resource or a template that matches it.
    #[error("resource not found")]
    UnknownResource { uri: String },
    /// Two servers named it, and the caller may mean either.
    #[error("resource `{uri}` is ambiguous; read one of: {}", .choices.join(", "))]
    AmbiguousResource {
        uri: String,
        /// The URIs that name their servers.
        choices: [String; 2],
    },
    /// The server is configured but has never listed anything.
    #[error("upstream \"{server}\" unavailable")]
    NeverSeen {
        /// The server that was meant.
        server: ServerName,
    },
}

/// An immutable snapshot; changes produce a new one.
#[derive(Debug, Default)]
pub struct Catalog {
    naming: Naming,
    listings: Vec<Listing>,
    listed: Vec<Arc<Tool>>,
    /// Tools of servers that have been down for a while.
    unlisted: Vec<Arc<Tool>>,
    by_shown: HashMap<String, Arc<Tool>>,
    by_server: HashMap<ServerName, HashMap<String, Arc<Tool>>>,
    quarantined: Vec<Quarantined>,
    prompts: ItemTable,
    resources: ItemTable,
    templates: ItemTable,
    claims: Claims,
    /// Whether there is a single server that hosts see as it is.
    is_alone: bool,
}

impl Catalog {
    /// Builds a snapshot from the servers in configuration order.
    pub fn build(naming: Naming, listings: Vec<Listing>) -> (Self, Vec<Finding>) {
        Self::build_after(&Self::default(), naming, listings)
    }

    /// [`Catalog::build`] for hosts that know `before`: a URI that a server showed there stays that server's.
    pub fn build_after(
        before: &Self,
        naming: Naming,
        listings: Vec<Listing>,
    ) -> (Self, Vec<Finding>) {
        let mut catalog = Self {
            is_alone: listings.len() == 1 && naming.prefix == Prefix::Never,
            naming,
            ..Self::default()
        };
        catalog.claim(&listings, &before.claims);
        let mut findings = Vec::new();
        for listing in &listings {
            for tool in listing.tools.iter().flatten() {
                catalog.add(tool, listing.listed, &mut findings);
            }
            catalog.add_items(listing, &mut findings);
        }
        catalog.listings = listings;
        (catalog, findings)
    }

    fn add(&mut self, tool: &Tool, listed: bool, findings: &mut Vec<Finding>) {
        let shown = self.naming.shown(&tool.server, &tool.name);
        if let Some(kept) = self.by_shown.get(&shown) {
            // The earlier server keeps the name, so that a new server cannot take over an existing tool's name.
            findings.push(Finding::ShownTwice {
                shown,
                kept: kept.canonical(),
                left_out: tool.canonical(),
            });
            return;
        }
        let mut tool = tool.shown_as(shown.clone());
        if !self.is_alone && !tool.ui_uris.is_empty() {
            let server = tool.server.clone();
            tool.wrap_uris(|uri| !self.claims.has(&server, Spelling::Uri(uri)));
        }
        let tool = Arc::new(tool);
        self.by_shown.insert(shown, tool.clone());
        let own = self.by_server.entry(tool.server.clone()).or_default();
        own.insert(tool.name.clone(), tool.clone());
        if listed {
            self.listed.push(tool);
        } else {
            self.unlisted.push(tool);
        }
    }

    /// Adds the quarantined tools.
    pub fn with_quarantined(self, quarantined: Vec<Quarantined>) -> Self {
        Self {
            quarantined,
            ..self
        }
    }

    /// The quarantined tools, with the reasons.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    /// The tools that hosts see, in configuration order.
    pub fn listed<'c>(&'c self, policy: &'c Policy) -> impl Iterator<Item = &'c Arc<Tool>> {
        self.listed.iter().filter(|tool| policy.shows(tool))
    }

    /// The tools that this caller sees, in configuration order.
    pub fn listed_to<'c>(
        &'c self,
        policy: &'c Policy,
        identity: &'c CallerIdentity,
    ) -> impl Iterator<Item = &'c Arc<Tool>> {
        self.listed
            .iter()
            .filter(|tool| policy.shows_to(tool, identity))
    }

    /// Every tool, listed or not: listed ones first, in configuration order.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<Tool>, bool)> {
        let listed = self.listed.iter().map(|tool| (tool, true));
        listed.chain(self.unlisted.iter().map(|tool| (tool, false)))
    }

    /// How tools are shown.
    pub fn naming(&self) -> &Naming {
        &self.naming
    }

    /// The listing of each server.
    pub fn listings(&self) -> &[Listing] {
        &self.listings
    }

    /// The combined capabilities of the servers that the holder of `grant` may use.
    pub fn offers(&self, grant: &Grant) -> Offers {
        let listings = self.listings.iter();
        listings
            .filter(|listing| grant.includes(listing.server.as_str()))
            .map(|listing| listing.offers)
            .fold(Offers::default(), Offers::or)
    }

    /// The only server, if there is exactly one and tools have no prefix: then every request can pass through
    /// to it.
    pub fn only_server(&self) -> Option<&ServerName> {
        match self.listings.as_slice() {
            [only] if self.naming.prefix == Prefix::Never => Some(&only.server),
            _ => None,
        }
    }

    /// The tool with that name, shown or canonical, for any caller.
    pub fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        let of_server = || {
            let (listing, tool) = self.split(name)?;
            self.by_server.get(&listing.server)?.get(tool)
        };
        self.by_shown.get(name).or_else(of_server)
    }

    /// Resolves a shown name or canonical `server:tool`. Errors list only the choices that this caller sees.
    pub fn resolve(
        &self,
        name: &str,
        policy: &Policy,
        identity: &CallerIdentity,
    ) -> Result<Target, ResolveError> {
        if let Some(tool) = self.tool(name) {
            // Visibility is not checked here: a hidden tool resolves and is then denied and recorded by policy.
            return Ok(Target::Tool(tool.clone()));
        }
        // After the catalog: quarantined tools are not in it, so an accepted tool never reports as quarantined.
        if let Some(kept_away) = self.kept_away(name, identity) {
            return Err(kept_away);
        }
        let Some((listing, _)) = self.split(name) else {
            return Err(self.unknown(NameKind::Tool, name, policy, identity));
        };
        // The server may have the tool: "unknown tool" would tell a host to give up on it.
        if listing.tools.is_none() {
            return Err(ResolveError::NeverSeen {
                server: listing.server.clone(),
            });
        }
        let of_server = self
            .listed_to(policy, identity)
            .filter(|tool| tool.server == listing.server);
        Err(ResolveError::NotOfServer {
            what: NameKind::Tool,
            name: name.to_owned(),
            server: listing.server.clone(),
            choices: of_server.map(|tool| tool.shown.clone()).collect(),
        })
    }

    /// The error for a quarantined tool, for callers that may use its server.
    fn kept_away(&self, name: &str, identity: &CallerIdentity) -> Option<ResolveError> {
        let is_meant = |one: &&Quarantined| {
            let tool = &one.tool;
            // Otherwise a token could probe which tools the servers outside its grant have.
            identity.grant.includes(tool.server.as_str())
                && (tool.canonical() == name || self.naming.shown(&tool.server, &tool.name) == name)
        };
        let found = self.quarantined.iter().find(is_meant)?;
        Some(ResolveError::Quarantined {
            name: pins::shown_name(&found.tool),
            server: found.tool.server.clone(),
            reason: found.reason.reason_for_hosts(),
        })
    }

    fn split<'n>(&self, name: &'n str) -> Option<(&Listing, &'n str)> {
        let canonical = name.split_once(':');
        let shown = name.split_once(self.naming.separator.as_str());
        // Canonical first: a server name cannot contain `:`, while tool names may contain the separator.
        [canonical, shown]
            .into_iter()
            .flatten()
            .find_map(|(server, tool)| {
                let listing = self.listings.iter().find(|l| l.server.as_str() == server)?;
                Some((listing, tool))
            })
    }

    fn unknown(
        &self,
        what: NameKind,
        name: &str,
        policy: &Policy,
        identity: &CallerIdentity,
    ) -> ResolveError {
        let name = name.to_owned();
        match (self.naming.prefix, self.listings.as_slice()) {
            (Prefix::Never, [only]) if only.tools.is_none() => ResolveError::NeverSeen {
                server: only.server.clone(),
            },
            (Prefix::Never | Prefix::Step, _) => {
                let choices = match what {
                    NameKind::Tool => {
                        let tools = self.listed_to(policy, identity);
                        tools.map(|tool| tool.shown.clone()).collect()
                    }
                    NameKind::Prompt => {
                        let prompts = self.items(ItemKind::Prompt, policy, Some(identity));
                        prompts.map(|prompt| prompt.shown.clone()).collect()
                    }
                };
                ResolveError::Unknown {
                    what,
                    name,
                    choices,
                }
            }
            (Prefix::Always, listings) => {
                // Filtered by grant below: error texts must not enumerate servers that a token cannot use.
                let servers = listings.iter().map(|l| l.server.to_string());
                let servers = servers
                    .filter(|server| identity.grant.includes(server))
                    .collect();
                ResolveError::UnknownServer {
                    what,
                    name,
                    servers,
                }
            }
        }
    }
}

fn named(all: &[String]) -> String {
    match all.len() {
        0 => "none".to_owned(),
        // Models read these errors, and a gateway can have thousands of tools.
        n if n <= CHOICES_SHOWN => all.join(", "),
        n => format!(
            "{}, and {} more",
            all[..CHOICES_SHOWN].join(", "),
            n - CHOICES_SHOWN
        ),
    }
}
