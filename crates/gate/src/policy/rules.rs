//! A compiled policy file: everyone's rules, agents' rules, and the scopes of tools.

use std::sync::Arc;

use foldhash::HashMap;

use super::{
    compile::{Compiler, EarlierPatterns, overridden},
    glob::CompileContext,
    pattern::{Lookalike, Pattern},
    rule_set::RuleSet,
    scope::Scope,
    written::{OverrideMode, WrittenAgents, WrittenMapping, WrittenPolicy},
};
use crate::{BuiltinTool, CallerIdentity, Digest, Place, Problem};

/// The only supported version of the policy language.
const VERSION: &str = "1";
/// The largest file that is read.
const MAX_TEXT: usize = 1 << 20;
/// The prefix of built-in tools' canonical names.
const BUILTIN: &str = "builtin:";

/// A policy file, ready for evaluation.
#[derive(Debug)]
pub struct Rules {
    name: Option<String>,
    digest: Digest,
    base: Scopes,
    agents: Vec<(Pattern, Scopes)>,
    map: Vec<(Lookalike, Scope)>,
    /// Whether no rule set ever needs a fact.
    needs_nothing: bool,
    /// Whether some rule has `conditions`.
    asks_for_prior: bool,
}

/// The rule sets for one group of callers, by scope.
// Shared, because an agent has everyone's rules in the scopes that it does not override.
#[derive(Debug, Clone)]
pub(super) struct Scopes(HashMap<String, Arc<RuleSet>>);

impl Rules {
    /// Compiles a policy file. On failure returns every problem, in file order.
    pub fn read(text: &str, around: CompileContext<'_>) -> Result<Self, Vec<Problem>> {
        let nowhere = |what: &str| Problem::at(Place::default(), what);
        if text.trim().is_empty() {
            return Err(vec![
                nowhere("the file is empty").help("begin with `version: \"1\"`"),
            ]);
        }
        // Checked before parsing, so that a huge file costs neither time nor memory.
        if text.len() > MAX_TEXT {
            return Err(vec![nowhere("the file is larger than 1 MiB")]);
        }
        let written: WrittenPolicy =
            serde_saphyr::from_str(text).map_err(|error| vec![Problem::found(&error)])?;
        let mut compiler = Compiler {
            around,
            problems: Vec::new(),
        };
        if written.version.value.0 != VERSION {
            let what = format!("unsupported version `{}`", written.version.value.0);
            let problem = Problem::at(Place::of(&written.version.referenced), what);
            compiler
                .problems
                .push(problem.help("write `version: \"1\"`"));
        }
        let joined = compiler.joined(&written.rules);
        let base = Scopes::of(joined.iter().map(|joined| compiler.rule_set(joined)));
        let map = mappings(&written.tool_scope_map, &mut compiler.problems);
        let agents = agents(written.agents, (&joined[..], &base), &mut compiler);
        let mut problems = compiler.problems;
        if problems.is_empty() {
            let all = agents.iter().map(|(_, scopes)| scopes).chain([&base]);
            let sets: Vec<_> = all.flat_map(|scopes| scopes.0.values()).collect();
            return Ok(Self {
                // Computed once at load, because every call asks.
                needs_nothing: !sets.iter().any(|set| set.needs_facts()),
                asks_for_prior: sets.iter().any(|set| set.asks_for_prior()),
                name: written.name,
                digest: Digest::of(text.as_bytes()),
                base,
                agents,
                map,
            });
        }
        // Compiled in several passes, but authors fix a file from top to bottom.
        problems.sort_by_key(|problem| problem.place);
        problems.dedup();
        Err(problems)
    }

    /// The name that the file gives itself.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The digest of the file.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How many rules there are for everyone.
    pub fn count(&self) -> usize {
        self.base.0.values().map(|set| set.rules.len()).sum()
    }

    /// Warnings for the author; the file is valid.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.base.get("mcp_tool").is_none() {
            notes.push(
                "the policy has no rules for scope `mcp_tool`, so every tool call is denied"
                    .to_owned(),
            );
        }
        for (pattern, scope) in &self.map {
            let known = |scopes: &Scopes| scopes.get(scope.as_str()).is_some();
            if !known(&self.base) && !self.agents.iter().any(|(_, scopes)| known(scopes)) {
                notes.push(format!(
                    "`{}` is mapped to scope `{}`, which has no rules: the mapping adds nothing",
                    pattern.pattern().as_str(),
                    scope.as_str()
                ));
            }
        }
        notes
    }

    /// The rules for a caller. A self-declared agent name never widens: then everyone's rules apply too, and the
    /// stricter verdict counts.
    pub(super) fn scopes_for(&self, identity: &CallerIdentity) -> (&Scopes, Option<&Scopes>) {
        let own = self
            .agents
            .iter()
            // The first matching pattern in file order wins; `mappings` and `agents` reject patterns behind it.
            .find(|(name, _)| name.matches(&identity.agent));
        match own {
            None => (&self.base, None),
            Some((_, own)) if identity.has_authenticated_name() => (own, None),
            Some((_, own)) => (own, Some(&self.base)),
        }
    }

    /// Whether no call needs a fact.
    pub(super) fn needs_nothing(&self) -> bool {
        self.needs_nothing
    }

    /// Whether a caller, or everyone, may see a name in a scope. Without rules tools are hidden and everything
    /// else is shown.
    pub(super) fn shows(&self, scope: &str, name: &str, identity: Option<&CallerIdentity>) -> bool {
        let (own, base) = match identity {
            Some(identity) => self.scopes_for(identity),
            None => (&self.base, None),
        };
        let refuses = |scopes: &Scopes| {
            let set = scopes.get(scope);
            set.map_or(scope == "mcp_tool", |set| set.refuses_outright(name))
        };
        !refuses(own) && !base.is_some_and(refuses)
    }

    /// Whether some rule has `conditions`.
    pub(super) fn asks_for_prior(&self) -> bool {
        self.asks_for_prior
    }

    /// The scope that the file itself maps a tool to.
    pub(super) fn mapped(&self, name: &str) -> Option<&str> {
        // A mapping adds checks, so look-alikes match too: renaming a tool must not drop its scope.
        let mapped = self.map.iter().find(|(pattern, _)| pattern.resembles(name));
        mapped.map(|(_, scope)| scope.as_str())
    }

    /// The scope in which a tool's arguments are judged.
    pub(super) fn scope_of(&self, name: &str) -> Option<&str> {
        match name.strip_prefix(BUILTIN).and_then(BuiltinTool::named) {
            // Fixed, not configurable: a file that forgets `builtin:Bash` would otherwise not judge its commands.
            Some(tool) => Some(tool.scope()),
            None => self.mapped(name),
        }
    }
}

impl Scopes {
    fn of(sets: impl Iterator<Item = RuleSet>) -> Self {
        Self(
            sets.map(|set| (set.scope.as_str().to_owned(), Arc::new(set)))
                .collect(),
        )
    }

    /// The rules of a scope, where it has any.
    pub(super) fn get(&self, scope: &str) -> Option<&RuleSet> {
        self.0.get(scope).map(|set| &**set)
    }
}

fn mappings(
    written: &[serde_saphyr::Spanned<WrittenMapping>],
    problems: &mut Vec<Problem>,
) -> Vec<(Lookalike, Scope)> {
    let mut earlier = EarlierPatterns::default();
    let mut all = Vec::new();
    for mapping in written {
        let WrittenMapping { pattern, scope } = &mapping.value;
        let place = Place::of(&scope.referenced);
        match Scope::read(&scope.value) {
            Some(
                Scope::McpTool
                | Scope::McpPrompt
                | Scope::McpResource
                | Scope::McpMethod
                | Scope::Cost,
            )
            | None => {
                let what = format!("a tool cannot be mapped to the scope `{}`", scope.value);
                problems.push(Problem::at(place, what));
            }
            Some(scope) => all.push((Lookalike::new(&pattern.value), scope)),
        }
        let place = Place::of(&pattern.referenced);
        let own = Lookalike::new(&pattern.value).folded().clone();
        if !pattern.value.contains(':') && pattern.value != "*" {
            let what = format!(
                "`{}` can never match: tools are called `server:tool`",
                pattern.value
            );
            problems.push(Problem::at(place, what));
        // An error and not a warning: a rule that cannot match is usually a restriction that its author relies on.
        } else if earlier.cover(&own) {
            let what = format!(
                "`{}` can never match: an earlier pattern covers it",
                pattern.value
            );
            problems.push(Problem::at(place, what));
        }
        earlier.add(own);
    }
    all
}

fn agents(
    written: WrittenAgents,
    (joined, base): (&[super::compile::ScopeRules], &Scopes),
    compiler: &mut Compiler<'_>,
) -> Vec<(Pattern, Scopes)> {
    let mut earlier = EarlierPatterns::default();
    let mut all = Vec::new();
    for (name, place, agent) in written.0 {
        let pattern = Pattern::new(&name);
        if name.is_empty() || earlier.cover(&pattern) {
            let what = format!("agents `{name}` can never match");
            compiler.problems.push(Problem::at(place, what));
        }
        if agent.rules.is_empty() {
            let what = format!("`override` of agents `{name}` is empty");
            compiler.problems.push(Problem::at(place, what));
        }
        let own = compiler.joined(&agent.rules);
        for own in &own {
            compiler.rule_set(own);
        }
        let replaces = match agent.override_mode {
            OverrideMode::Merge => false,
            OverrideMode::Replace => true,
        };
        // Both parts were compiled above, so problems found again here would be reported twice.
        let mut silent = Compiler {
            around: compiler.around,
            problems: Vec::new(),
        };
        let mut scopes = base.clone();
        for own in own {
            let set = silent.rule_set(&overridden(joined, own, replaces));
            let scope = set.scope.as_str().to_owned();
            scopes.0.insert(scope, Arc::new(set));
        }
        earlier.add(pattern.clone());
        all.push((pattern, scopes));
    }
    all
}
