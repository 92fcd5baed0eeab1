//! Policies: the language of policy files, the built-in ones, and what they say to a call.
//!
//! A file is read once ([`Rules::read`]), with everything that is wrong in it told at its place. A
//! [`Policy`] is what a gateway runs on: one or two layers (the user's and a project's) and the tool
//! lists of the configuration. It is pure: what it must know beyond the call it asks for
//! ([`Policy::needs`]), and what it is not told it never takes for a yes.

use std::{collections::HashMap, sync::Arc};

use crate::{Call, Digest, Facts, Item, ItemKind, Needs, ServerName, Target, Tool, Who};
use callgate_wire::methods;

mod address;
mod builtin;
mod carried;
mod compile;
mod domain;
mod explain;
mod expression;
mod glob;
mod index;
mod judge;
mod judged;
mod limits;
mod path;
mod pattern;
mod projection;
mod protected;
mod range;
mod resource;
mod rule;
mod rule_set;
mod rules;
mod scope;
mod verbs;
mod written;

pub(crate) use builtin::looks_destructive;
pub use builtin::{Builtin, ToolFilter};
pub use explain::{Explained, ExplainedRule, ExplainedScope, ExplainedSubject};
pub use glob::Surroundings;
pub(crate) use judge::{COST_KEYS, arguments};
pub use judged::Judged;
pub use limits::{Cost, RateLimit};
pub use path::Ground;
pub use pattern::Pattern;
pub(crate) use pattern::looks;
#[cfg(test)]
pub(crate) use projection::{is_command_key, is_path_key};
pub use protected::{Leads, Protected, Reach};
pub use rules::Rules;

/// What a rule says, from the most lenient to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It may go.
    Allow,
    /// The user should confirm it.
    Confirm,
    /// Somebody else must approve it.
    RequireApproval,
    /// It may not.
    Deny,
}

/// How much is asked about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Its name, and its arguments in the scope that its tool has.
    #[default]
    Strict,
    /// Its name alone.
    Fast,
}

/// What one scope said to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The scope that was asked.
    pub scope: String,
    /// What it said.
    pub kind: Kind,
    /// The rule that said it.
    pub rule: String,
    /// Why, in one sentence.
    pub reason: String,
    /// What the rule is, so that another rule of the same name is not taken for it.
    pub hash: Digest,
    /// What in the arguments it was about. Boxed: most checks are about the name alone.
    pub judged: Option<Box<Judged>>,
}

/// One policy of those that a gateway runs on; the strictest counts.
#[derive(Debug, Clone)]
pub enum Layer {
    /// A built-in one.
    Builtin(Builtin),
    /// A file.
    Rules(Arc<Rules>),
}

/// The compiled policy that [`decide`](crate::decide) asks.
#[derive(Debug, Clone)]
pub struct Policy {
    layers: Vec<Layer>,
    mode: Mode,
    filters: HashMap<ServerName, ToolFilter>,
    /// What paths in arguments mean, where the server does not start elsewhere.
    ground: Ground,
    /// Where servers start that start elsewhere.
    folders: HashMap<ServerName, Ground>,
    /// Whether another gateway is asked in place of the rules.
    guarded: bool,
    /// What governs the gateway: calls that lead there need a person, whatever the layers say.
    protected: Arc<Protected>,
    /// The policies of other tenants than the first.
    tenants: HashMap<String, Arc<Policy>>,
}

/// The tenant that every gateway has, and whose policy is the gateway's own.
pub const FIRST_TENANT: &str = "local";

impl Default for Policy {
    fn default() -> Self {
        Self::new(Builtin::Default, HashMap::new())
    }
}

impl Kind {
    /// As it is written in a policy.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Confirm => "confirm",
            Self::RequireApproval => "require_approval",
            Self::Deny => "deny",
        }
    }

    /// Whether it stands in the way: then what cannot be known counts as a match.
    pub(crate) fn restricts(self) -> bool {
        match self {
            Self::Allow => false,
            Self::Confirm | Self::RequireApproval | Self::Deny => true,
        }
    }
}

impl Policy {
    /// A built-in policy together with the servers' tool lists.
    pub fn new(builtin: Builtin, filters: HashMap<ServerName, ToolFilter>) -> Self {
        Self::of(vec![Layer::Builtin(builtin)], filters)
    }

    /// Several policies at once, of which the strictest counts.
    pub fn of(layers: Vec<Layer>, filters: HashMap<ServerName, ToolFilter>) -> Self {
        let ground = Ground {
            home: None,
            folder: "/".to_owned(),
        };
        Self {
            layers,
            mode: Mode::default(),
            filters,
            ground,
            folders: HashMap::new(),
            guarded: false,
            protected: Arc::default(),
            tenants: HashMap::new(),
        }
    }

    /// The same, with another gateway asked in place of its rules. What the file maps to which scope still
    /// says what is asked.
    pub fn guarded(mut self) -> Self {
        self.guarded = true;
        self
    }

    /// The same, with places that a call leads to only when a person says so.
    pub fn protecting(mut self, protected: Arc<Protected>) -> Self {
        self.protected = protected;
        self
    }

    /// The places that a call leads to only when a person says so.
    pub fn protected(&self) -> &Arc<Protected> {
        &self.protected
    }

    /// The same, with policies for other tenants.
    pub fn tenants(mut self, tenants: HashMap<String, Arc<Self>>) -> Self {
        self.tenants = tenants;
        self
    }

    /// Whether there is such a tenant.
    pub fn knows_tenant(&self, tenant: &str) -> bool {
        self.of_tenant(tenant).is_some()
    }

    /// The policy of a tenant; nothing for one that is not known.
    fn of_tenant(&self, tenant: &str) -> Option<&Self> {
        match tenant {
            FIRST_TENANT => Some(self),
            other => self.tenants.get(other).map(|policy| &**policy),
        }
    }

    /// The same, asking as much as `mode` says.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The same, with what paths in arguments mean: for most servers, and for those that start in a
    /// folder of their own.
    pub fn ground(mut self, ground: Ground, folders: HashMap<ServerName, String>) -> Self {
        let home = ground.home.clone();
        let of_server = |(server, folder)| {
            let home = home.clone();
            (server, Ground { home, folder })
        };
        self.folders = folders.into_iter().map(of_server).collect();
        self.ground = ground;
        self
    }

    /// The policies in it.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Whether hosts may see `tool`, as far as the rules for everyone go.
    pub fn shows(&self, tool: &Tool) -> bool {
        self.shows_by(tool, None)
    }

    /// Whether this caller may see `tool`. What is refused whatever the arguments are is not shown.
    pub fn shows_to(&self, tool: &Tool, who: &Who) -> bool {
        self.shows_by(tool, Some(who))
    }

    /// Whether this caller, or everyone, may see a prompt, resource or template: whether asking for it
    /// is not refused whatever is asked.
    pub fn shows_item(&self, item: &Item, who: Option<&Who>) -> bool {
        let method = match item.kind {
            ItemKind::Prompt => methods::PROMPTS_GET,
            ItemKind::Resource | ItemKind::Template => methods::RESOURCES_READ,
        };
        let Some(policy) = self.of_tenant(who.map_or(FIRST_TENANT, |who| &who.tenant)) else {
            return false;
        };
        let is_for = who.is_none_or(|who| who.grant.includes(item.server.as_str()));
        let shown_by = |layer: &Layer| match layer {
            Layer::Builtin(_) => true,
            Layer::Rules(rules) => {
                rules.shows(item.kind.scope(), &item.canonical(), who)
                    && rules.shows("mcp_method", &format!("{}:{method}", item.server), who)
            }
        };
        is_for && (policy.guarded || policy.layers.iter().all(shown_by))
    }

    /// Why the configuration leaves out a `tool` that this caller could see otherwise. What the rules hide
    /// stays hidden.
    pub fn leaves_out(&self, tool: &Tool, who: &Who) -> Option<String> {
        let check = self.filters.get(&tool.server)?.check(tool)?;
        self.rules_show(tool, Some(who)).then_some(check.reason)
    }

    /// What the policy says to a call: every check that was made, the strictest first in line to
    /// speak.
    pub fn judge(&self, call: &Call, facts: &Facts) -> Vec<Check> {
        match self.of_tenant(&call.attempt.host.who.tenant) {
            Some(policy) => judge::judge(policy, call, facts),
            None => vec![Check::unknown_tenant()],
        }
    }

    /// What one scope says when it is asked directly about what is called `name` there.
    pub fn judge_scope(&self, call: &Call, scope: (&str, &str), facts: &Facts) -> Vec<Check> {
        match self.of_tenant(&call.attempt.host.who.tenant) {
            Some(policy) => judge::judge_scope(policy, call, scope, facts),
            None => vec![Check::unknown_tenant()],
        }
    }

    /// What must be looked up before a scope can be asked directly.
    pub fn needs_of_scope(&self, call: &Call, scope: &str) -> Needs {
        let policy = self.of_tenant(&call.attempt.host.who.tenant);
        policy.map_or_else(Needs::default, |policy| {
            judge::needs_of_scope(policy, call, scope)
        })
    }

    /// What must be looked up before a call can be judged.
    pub fn needs(&self, call: &Call) -> Needs {
        let policy = self.of_tenant(&call.attempt.host.who.tenant);
        policy.map_or_else(Needs::default, |policy| judge::needs(policy, call))
    }

    /// Why a call gets its verdict, rule by rule.
    pub fn explain(&self, call: &Call, facts: &Facts) -> Explained {
        explain::explain(self, call, facts)
    }

    /// Whether some rule asks for earlier calls, so that calls must be remembered.
    pub fn remembers(&self) -> bool {
        self.layers.iter().any(|layer| match layer {
            Layer::Builtin(_) => false,
            Layer::Rules(rules) => rules.asks_for_prior(),
        }) || self.tenants.values().any(|policy| policy.remembers())
    }

    fn shows_by(&self, tool: &Tool, who: Option<&Who>) -> bool {
        let filter = self.filters.get(&tool.server);
        filter.and_then(|filter| filter.check(tool)).is_none() && self.rules_show(tool, who)
    }

    fn rules_show(&self, tool: &Tool, who: Option<&Who>) -> bool {
        let Some(policy) = self.of_tenant(who.map_or(FIRST_TENANT, |who| &who.tenant)) else {
            return false;
        };
        let shown_by = |layer: &Layer| match layer {
            Layer::Builtin(_) => true,
            Layer::Rules(rules) => rules.shows("mcp_tool", &tool.canonical(), who),
        };
        who.is_none_or(|who| who.grant.refuses(tool).is_none())
            && (policy.guarded || policy.layers.iter().all(shown_by))
    }

    fn ground_of(&self, target: &Target) -> &Ground {
        self.folders.get(target.server()).unwrap_or(&self.ground)
    }
}
