//! Policies: the language of policy files, the built-in policies, and their evaluation.
//!
//! [`Rules::read`] compiles a file once and reports every problem with its position. A [`Policy`] is what
//! a gateway runs on: one or two layers (the user's and a project's) and the tool lists of the
//! configuration. It is pure: it declares the facts that a call needs ([`Policy::needs`]), and a missing
//! fact never allows a call.

use std::{collections::HashMap, sync::Arc};

use crate::{Call, CallerIdentity, Digest, Facts, Item, ItemKind, Needs, ServerName, Target, Tool};
use callgate_wire::methods;

mod address;
mod builtin;
mod carried;
mod check_subject;
mod compile;
mod domain;
mod explain;
mod expression;
mod glob;
mod index;
mod judge;
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

pub use address::{AmbiguousHost, embedded_ipv4, hosts};
pub(crate) use builtin::looks_destructive;
pub use builtin::{Builtin, ToolFilter};
pub use check_subject::CheckSubject;
pub use explain::{Explained, ExplainedRule, ExplainedScope, ExplainedSubject};
pub use glob::CompileContext;
pub(crate) use judge::{COST_KEYS, arguments};
pub use limits::{Cost, RateLimit};
pub use path::PathBase;
pub use pattern::Pattern;
pub(crate) use pattern::looks;
#[cfg(test)]
pub(crate) use projection::{is_command_key, is_path_key};
pub use protected::{Protected, ProtectedCandidates, Reach};
pub use range::AddressRange;
pub use rule_set::RATE_LIMITED;
pub use rules::Rules;

/// A rule's verdict, from the most lenient to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Allow,
    /// The user should confirm it.
    Confirm,
    /// An approver, who is not the caller, must approve it.
    RequireApproval,
    Deny,
}

/// How much of a call is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The name, and the arguments in the scope that the tool is mapped to.
    #[default]
    Strict,
    /// Only the name.
    Fast,
}

/// The verdict of one scope on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub scope: String,
    pub kind: Kind,
    /// The id of the rule that decided.
    pub rule: String,
    /// The reason, in one sentence.
    pub reason: String,
    /// A digest of the rule's definition: two rules can have the same id.
    pub hash: Digest,
    /// The part of the arguments that decided. Boxed: most checks are about the name alone.
    pub judged: Option<Box<CheckSubject>>,
}

/// One of the policies in force; the strictest verdict counts.
#[derive(Debug, Clone)]
pub enum Layer {
    Builtin(Builtin),
    Rules(Arc<Rules>),
}

/// The compiled policy that [`decide`](crate::decide) evaluates.
#[derive(Debug, Clone)]
pub struct Policy {
    layers: Vec<Layer>,
    mode: Mode,
    filters: HashMap<ServerName, ToolFilter>,
    /// Resolves relative paths, except for the servers in `folders`.
    ground: PathBase,
    /// The working folders of servers that have their own.
    folders: HashMap<ServerName, PathBase>,
    /// Whether a guard decides in place of the rules.
    guarded: bool,
    /// The files that govern the gateway: calls that lead there need a person, whatever the layers decide.
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

    /// Whether the verdict restricts: then unknowns count as a match.
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
        let ground = PathBase {
            home: None,
            // Until `ground` is called relative paths resolve below the root, so they are still checked.
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

    /// Lets a guard decide in place of the rules. The file's `tool_scope_map` still selects the questions.
    pub fn guarded(mut self) -> Self {
        self.guarded = true;
        self
    }

    /// Sets the protected places: calls that lead there need a person.
    pub fn protecting(mut self, protected: Arc<Protected>) -> Self {
        self.protected = protected;
        self
    }

    pub fn protected(&self) -> &Arc<Protected> {
        &self.protected
    }

    /// Sets the policies of other tenants.
    pub fn tenants(mut self, tenants: HashMap<String, Arc<Self>>) -> Self {
        self.tenants = tenants;
        self
    }

    /// Whether the tenant exists.
    pub fn knows_tenant(&self, tenant: &str) -> bool {
        self.of_tenant(tenant).is_some()
    }

    /// The policy of a tenant; `None` for an unknown one.
    fn of_tenant(&self, tenant: &str) -> Option<&Self> {
        match tenant {
            // Before the map: an entry of that name must not replace the gateway's own policy.
            FIRST_TENANT => Some(self),
            other => self.tenants.get(other).map(|policy| &**policy),
        }
    }

    /// Sets how much of a call is checked.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the folders that relative paths start from: the default, and those of servers with their own.
    pub fn ground(mut self, ground: PathBase, folders: HashMap<ServerName, String>) -> Self {
        let home = ground.home.clone();
        let of_server = |(server, folder)| {
            let home = home.clone();
            (server, PathBase { home, folder })
        };
        self.folders = folders.into_iter().map(of_server).collect();
        self.ground = ground;
        self
    }

    /// The policies in it.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Whether hosts may see `tool` under the rules for everyone.
    pub fn shows(&self, tool: &Tool) -> bool {
        self.shows_by(tool, None)
    }

    /// Whether this caller may see `tool`. A tool that is denied for all arguments is hidden.
    pub fn shows_to(&self, tool: &Tool, identity: &CallerIdentity) -> bool {
        self.shows_by(tool, Some(identity))
    }

    /// Whether this caller, or everyone, may see a prompt, resource or template: whether some request for it
    /// can be allowed.
    pub fn shows_item(&self, item: &Item, identity: Option<&CallerIdentity>) -> bool {
        let method = match item.kind {
            ItemKind::Prompt => methods::PROMPTS_GET,
            ItemKind::Resource | ItemKind::Template => methods::RESOURCES_READ,
        };
        let Some(policy) =
            self.of_tenant(identity.map_or(FIRST_TENANT, |identity| &identity.tenant))
        else {
            return false;
        };
        let is_for = identity.is_none_or(|identity| identity.grant.includes(item.server.as_str()));
        let shown_by = |layer: &Layer| match layer {
            Layer::Builtin(_) => true,
            Layer::Rules(rules) => {
                rules.shows(item.kind.scope(), &item.canonical(), identity)
                    && rules.shows("mcp_method", &format!("{}:{method}", item.server), identity)
            }
        };
        // A guard is not asked while listing: that would be a request per tool and list.
        is_for && (policy.guarded || policy.layers.iter().all(shown_by))
    }

    /// Why the configuration disables a `tool` that this caller could see otherwise. `None` for tools that rules
    /// hide.
    pub fn leaves_out(&self, tool: &Tool, identity: &CallerIdentity) -> Option<String> {
        let check = self.filters.get(&tool.server)?.check(tool)?;
        // Naming a tool that rules hide from this caller would disclose it.
        self.rules_show(tool, Some(identity))
            .then_some(check.reason)
    }

    /// Every check of a call; [`Ruling::strictest`](crate::Ruling::strictest) picks the one that counts.
    pub fn judge(&self, call: &Call, facts: &Facts) -> Vec<Check> {
        match self.of_tenant(&call.attempt.host.identity.tenant) {
            Some(policy) => judge::judge(policy, call, facts),
            None => vec![Check::unknown_tenant()],
        }
    }

    /// The verdict of one scope that a guard question names, about `name`.
    pub fn judge_scope(&self, call: &Call, scope: (&str, &str), facts: &Facts) -> Vec<Check> {
        match self.of_tenant(&call.attempt.host.identity.tenant) {
            Some(policy) => judge::judge_scope(policy, call, scope, facts),
            None => vec![Check::unknown_tenant()],
        }
    }

    /// The facts that [`Self::judge_scope`] needs.
    pub fn needs_of_scope(&self, call: &Call, scope: &str) -> Needs {
        let policy = self.of_tenant(&call.attempt.host.identity.tenant);
        policy.map_or_else(Needs::default, |policy| {
            judge::needs_of_scope(policy, call, scope)
        })
    }

    /// The facts that [`Self::judge`] needs.
    pub fn needs(&self, call: &Call) -> Needs {
        let policy = self.of_tenant(&call.attempt.host.identity.tenant);
        policy.map_or_else(Needs::default, |policy| judge::needs(policy, call))
    }

    /// Why a call gets its verdict, rule by rule.
    pub fn explain(&self, call: &Call, facts: &Facts) -> Explained {
        explain::explain(self, call, facts)
    }

    /// Whether some rule has `conditions`, so that calls must be remembered.
    pub fn remembers(&self) -> bool {
        self.layers.iter().any(|layer| match layer {
            Layer::Builtin(_) => false,
            Layer::Rules(rules) => rules.asks_for_prior(),
            // One history serves all tenants' policies, so it is kept as soon as any of them needs it.
        }) || self.tenants.values().any(|policy| policy.remembers())
    }

    fn shows_by(&self, tool: &Tool, identity: Option<&CallerIdentity>) -> bool {
        let filter = self.filters.get(&tool.server);
        filter.and_then(|filter| filter.check(tool)).is_none() && self.rules_show(tool, identity)
    }

    fn rules_show(&self, tool: &Tool, identity: Option<&CallerIdentity>) -> bool {
        let Some(policy) =
            self.of_tenant(identity.map_or(FIRST_TENANT, |identity| &identity.tenant))
        else {
            return false;
        };
        let shown_by = |layer: &Layer| match layer {
            Layer::Builtin(_) => true,
            Layer::Rules(rules) => rules.shows("mcp_tool", &tool.canonical(), identity),
        };
        identity.is_none_or(|identity| identity.grant.refuses(tool).is_none())
            && (policy.guarded || policy.layers.iter().all(shown_by))
    }

    fn ground_of(&self, target: &Target) -> &PathBase {
        self.folders.get(target.server()).unwrap_or(&self.ground)
    }
}
