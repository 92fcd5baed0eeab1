//! The catalog: an immutable snapshot of everything there is, and the way from a name to exactly one
//! thing of one server. Prompts and resources are in `items.rs`.

mod items;
mod offers;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use foldhash::HashMap;

pub use items::Items;
pub use offers::Offers;

use crate::{
    Grant, ItemKind, Naming, Policy, Prefix, ServerName, Target, Tool, Who,
    pins::{self, Quarantined},
};
use items::{ItemTable, Source};

/// How many choices an error names before it stops.
const CHOICES_SHOWN: usize = 20;

/// What one server contributes to a snapshot.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The server.
    pub server: ServerName,
    /// Whether its tools are listed. A server that has been down for a while keeps its tools
    /// here, so that a call to one can say what is wrong instead of "unknown".
    pub listed: bool,
    /// Its tools, in the order it gave them; `None` while it was never heard of.
    pub tools: Option<Vec<Tool>>,
    /// The members of its list result other than `tools` and `nextCursor`, as raw
    /// `"key":value` text. Shown only where there is a single server.
    pub list_extras: Vec<Bytes>,
    /// Its prompts.
    pub prompts: Items,
    /// Its resources.
    pub resources: Items,
    /// Its templates of resources.
    pub templates: Items,
    /// What else it says it can do.
    pub offers: Offers,
}

impl Listing {
    /// A server of which nothing is known yet.
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
    /// Two tools, or two prompts, would be shown under one name; the later one was left out.
    ShownTwice {
        /// The name in question.
        shown: String,
        /// What keeps it.
        kept: String,
        /// What was left out.
        left_out: String,
    },
}

/// What a name is the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
        })
    }
}

/// Why a name leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No server of that name is configured.
    #[error("unknown {what} `{name}`: no such server; servers: {}", named(.servers))]
    UnknownServer {
        /// What was asked for.
        what: Named,
        /// The name that was asked for.
        name: String,
        /// The servers there are.
        servers: Vec<String>,
    },
    /// The server has nothing of that name.
    #[error("unknown {what} `{name}` of server `{server}`; its {what}s: {}", named(.choices))]
    NotOfServer {
        /// What was asked for.
        what: Named,
        /// The name that was asked for.
        name: String,
        /// The server that was meant.
        server: ServerName,
        /// What it has.
        choices: Vec<String>,
    },
    /// Without prefixes there is no server to name.
    #[error("unknown {what} `{name}`; {what}s: {}", named(.choices))]
    Unknown {
        /// What was asked for.
        what: Named,
        /// The name that was asked for.
        name: String,
        /// What there is.
        choices: Vec<String>,
    },
    /// The tool is kept away until somebody has looked at it.
    #[error(
        "tool `{name}` is quarantined: {reason}; whoever runs this gateway can see why with `callgate lock diff`"
    )]
    Quarantined {
        /// Its canonical name.
        name: String,
        /// The server that has it.
        server: ServerName,
        /// Why it is kept away.
        reason: String,
    },
    /// No server has such a resource, nor a template that could make it.
    #[error("resource not found")]
    UnknownResource {
        /// The URI that was asked for.
        uri: String,
    },
    /// The server is configured but never told what it has.
    #[error("upstream \"{server}\" unavailable")]
    NeverSeen {
        /// The server that was meant.
        server: ServerName,
    },
}

/// A snapshot. It never changes: a new one replaces it.
#[derive(Debug, Default)]
pub struct Catalog {
    naming: Naming,
    listings: Vec<Listing>,
    listed: Vec<Arc<Tool>>,
    /// Tools of servers that have been away for a while.
    unlisted: Vec<Arc<Tool>>,
    by_shown: HashMap<String, Arc<Tool>>,
    by_server: HashMap<ServerName, HashMap<String, Arc<Tool>>>,
    quarantined: Vec<Quarantined>,
    prompts: ItemTable,
    resources: ItemTable,
    templates: ItemTable,
    sources: Vec<Source>,
}

impl Catalog {
    /// Builds a snapshot from the servers in configuration order.
    pub fn build(naming: Naming, listings: Vec<Listing>) -> (Self, Vec<Finding>) {
        let mut catalog = Self {
            naming,
            ..Self::default()
        };
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
            findings.push(Finding::ShownTwice {
                shown,
                kept: kept.canonical(),
                left_out: tool.canonical(),
            });
            return;
        }
        let tool = Arc::new(tool.shown_as(shown.clone()));
        self.by_shown.insert(shown, tool.clone());
        let own = self.by_server.entry(tool.server.clone()).or_default();
        own.insert(tool.name.clone(), tool.clone());
        if listed {
            self.listed.push(tool);
        } else {
            self.unlisted.push(tool);
        }
    }

    /// The same snapshot, with the tools that are kept from hosts.
    pub fn with_quarantined(self, quarantined: Vec<Quarantined>) -> Self {
        Self {
            quarantined,
            ..self
        }
    }

    /// The tools that are kept from hosts, and why.
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
        who: &'c Who,
    ) -> impl Iterator<Item = &'c Arc<Tool>> {
        self.listed.iter().filter(|tool| policy.shows_to(tool, who))
    }

    /// Every tool, whether hosts see it or not: those that are listed first, in configuration order.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<Tool>, bool)> {
        let listed = self.listed.iter().map(|tool| (tool, true));
        listed.chain(self.unlisted.iter().map(|tool| (tool, false)))
    }

    /// How tools are shown.
    pub fn naming(&self) -> &Naming {
        &self.naming
    }

    /// What each server contributed.
    pub fn listings(&self) -> &[Listing] {
        &self.listings
    }

    /// What some server that the holder of `grant` may use offers besides tools.
    pub fn offers(&self, grant: &Grant) -> Offers {
        let listings = self.listings.iter();
        listings
            .filter(|listing| grant.includes(listing.server.as_str()))
            .map(|listing| listing.offers)
            .fold(Offers::default(), Offers::or)
    }

    /// The only server, when there is one and tools are shown without prefix: then every
    /// request can pass through to it.
    pub fn only_server(&self) -> Option<&ServerName> {
        match self.listings.as_slice() {
            [only] if self.naming.prefix == Prefix::Never => Some(&only.server),
            _ => None,
        }
    }

    /// The tool of that name, shown or canonical, whoever asks.
    pub fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        let of_server = || {
            let (listing, tool) = self.split(name)?;
            self.by_server.get(&listing.server)?.get(tool)
        };
        self.by_shown.get(name).or_else(of_server)
    }

    /// The one tool that `name` means: its shown name, or canonical `server:tool`. The choices that an
    /// error names are those that this caller sees.
    pub fn resolve(&self, name: &str, policy: &Policy, who: &Who) -> Result<Target, ResolveError> {
        if let Some(tool) = self.tool(name) {
            return Ok(Target::Tool(tool.clone()));
        }
        if let Some(kept_away) = self.kept_away(name, who) {
            return Err(kept_away);
        }
        let Some((listing, _)) = self.split(name) else {
            return Err(self.unknown(Named::Tool, name, policy, who));
        };
        if listing.tools.is_none() {
            return Err(ResolveError::NeverSeen {
                server: listing.server.clone(),
            });
        }
        let of_server = self
            .listed_to(policy, who)
            .filter(|tool| tool.server == listing.server);
        Err(ResolveError::NotOfServer {
            what: Named::Tool,
            name: name.to_owned(),
            server: listing.server.clone(),
            choices: of_server.map(|tool| tool.shown.clone()).collect(),
        })
    }

    /// Only whoever could see the tool is told what became of it.
    fn kept_away(&self, name: &str, who: &Who) -> Option<ResolveError> {
        let is_meant = |one: &&Quarantined| {
            let tool = &one.tool;
            who.grant.includes(tool.server.as_str())
                && (tool.canonical() == name || self.naming.shown(&tool.server, &tool.name) == name)
        };
        let found = self.quarantined.iter().find(is_meant)?;
        Some(ResolveError::Quarantined {
            name: pins::shown_name(&found.tool),
            server: found.tool.server.clone(),
            reason: found.reason.told_to_hosts(),
        })
    }

    fn split<'n>(&self, name: &'n str) -> Option<(&Listing, &'n str)> {
        let canonical = name.split_once(':');
        let shown = name.split_once(self.naming.separator.as_str());
        [canonical, shown]
            .into_iter()
            .flatten()
            .find_map(|(server, tool)| {
                let listing = self.listings.iter().find(|l| l.server.as_str() == server)?;
                Some((listing, tool))
            })
    }

    fn unknown(&self, what: Named, name: &str, policy: &Policy, who: &Who) -> ResolveError {
        let name = name.to_owned();
        match (self.naming.prefix, self.listings.as_slice()) {
            (Prefix::Never, [only]) if only.tools.is_none() => ResolveError::NeverSeen {
                server: only.server.clone(),
            },
            (Prefix::Never | Prefix::Step, _) => {
                let choices = match what {
                    Named::Tool => {
                        let tools = self.listed_to(policy, who);
                        tools.map(|tool| tool.shown.clone()).collect()
                    }
                    Named::Prompt => {
                        let prompts = self.items(ItemKind::Prompt, policy, Some(who));
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
                let servers = listings.iter().map(|l| l.server.to_string());
                let servers = servers
                    .filter(|server| who.grant.includes(server))
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
        n if n <= CHOICES_SHOWN => all.join(", "),
        n => format!(
            "{}, and {} more",
            all[..CHOICES_SHOWN].join(", "),
            n - CHOICES_SHOWN
        ),
    }
}
