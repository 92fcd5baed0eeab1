//! A policy file, compiled: everyone's rules, those of some agents, and which scopes tools have.

use foldhash::HashMap;

use super::{
    compile::{Compiler, is_behind, overridden},
    glob::Surroundings,
    pattern::{Lookalike, Pattern},
    rule_set::RuleSet,
    scope::Scope,
    written::{OverrideMode, WrittenAgents, WrittenMapping, WrittenPolicy},
};
use crate::{BuiltinTool, Digest, Place, Problem, Who};

/// The version of the language.
const VERSION: &str = "1";
/// The largest file that is read.
const MAX_TEXT: usize = 1 << 20;
/// What the names of built-in tools begin with.
const BUILTIN: &str = "builtin:";

/// A policy file that can be asked.
#[derive(Debug)]
pub struct Rules {
    name: Option<String>,
    digest: Digest,
    everyones: Scopes,
    agents: Vec<(Pattern, Scopes)>,
    map: Vec<(Lookalike, Scope)>,
    /// Whether no rule set ever needs a fact.
    needs_nothing: bool,
    /// Whether some rule asks for earlier calls.
    asks_for_prior: bool,
}

/// The rule sets that hold for someone.
#[derive(Debug)]
pub(super) struct Scopes(HashMap<String, RuleSet>);

impl Rules {
    /// Reads a policy file. Every problem is told, in the order of the file.
    pub fn read(text: &str, around: Surroundings<'_>) -> Result<Self, Vec<Problem>> {
        let nowhere = |what: &str| Problem::at(Place::default(), what);
        if text.trim().is_empty() {
            return Err(vec![
                nowhere("the file is empty").help("it begins with `version: \"1\"`"),
            ]);
        }
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
            let what = format!("version `{}` is not known", written.version.value.0);
            let problem = Problem::at(Place::of(&written.version.referenced), what);
            compiler
                .problems
                .push(problem.help("write `version: \"1\"`"));
        }
        let joined = compiler.joined(&written.rules);
        let everyones = Scopes::of(joined.iter().map(|joined| compiler.rule_set(joined)));
        let map = mappings(&written.tool_scope_map, &mut compiler.problems);
        let agents = agents(written.agents, &joined, &mut compiler);
        let mut problems = compiler.problems;
        if problems.is_empty() {
            let all = agents.iter().map(|(_, scopes)| scopes).chain([&everyones]);
            let sets: Vec<_> = all.flat_map(|scopes| scopes.0.values()).collect();
            return Ok(Self {
                needs_nothing: !sets.iter().any(|set| set.needs_facts()),
                asks_for_prior: sets.iter().any(|set| set.asks_for_prior()),
                name: written.name,
                digest: Digest::of(text.as_bytes()),
                everyones,
                agents,
                map,
            });
        }
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
        self.everyones.0.values().map(|set| set.rules.len()).sum()
    }

    /// What the author should know, though it is not wrong.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.everyones.get("mcp_tool").is_none() {
            notes.push(
                "there are no rules for the scope `mcp_tool`, so every tool call is denied"
                    .to_owned(),
            );
        }
        for (pattern, scope) in &self.map {
            let known = |scopes: &Scopes| scopes.get(scope.as_str()).is_some();
            if !known(&self.everyones) && !self.agents.iter().any(|(_, scopes)| known(scopes)) {
                notes.push(format!(
                    "`{}` is mapped to the scope `{}`, which has no rules and adds nothing",
                    pattern.pattern().as_str(),
                    scope.as_str()
                ));
            }
        }
        notes
    }

    /// The rules that someone's calls are judged by. A name that nobody vouches for never widens:
    /// then everyone's rules are asked too, and the stricter answer counts.
    pub(super) fn for_whom(&self, who: &Who) -> (&Scopes, Option<&Scopes>) {
        let own = self
            .agents
            .iter()
            .find(|(name, _)| name.matches(&who.agent));
        match own {
            None => (&self.everyones, None),
            Some((_, own)) if who.is_vouched_for() => (own, None),
            Some((_, own)) => (own, Some(&self.everyones)),
        }
    }

    /// Whether no call needs a fact.
    pub(super) fn needs_nothing(&self) -> bool {
        self.needs_nothing
    }

    /// Whether a caller, or everyone, may see what has this name in a scope. Without rules no tool may
    /// be called, and everything else may.
    pub(super) fn shows(&self, scope: &str, name: &str, who: Option<&Who>) -> bool {
        let (own, everyones) = match who {
            Some(who) => self.for_whom(who),
            None => (&self.everyones, None),
        };
        let refuses = |scopes: &Scopes| {
            let set = scopes.get(scope);
            set.map_or(scope == "mcp_tool", |set| set.refuses_outright(name))
        };
        !refuses(own) && !everyones.is_some_and(refuses)
    }

    /// Whether some rule asks for earlier calls.
    pub(super) fn asks_for_prior(&self) -> bool {
        self.asks_for_prior
    }

    /// The scope that the file itself maps a tool to.
    pub(super) fn mapped(&self, name: &str) -> Option<&str> {
        let mapped = self.map.iter().find(|(pattern, _)| pattern.resembles(name));
        mapped.map(|(_, scope)| scope.as_str())
    }

    /// The scope that a tool's arguments are looked at in.
    pub(super) fn scope_of(&self, name: &str) -> Option<&str> {
        match name.strip_prefix(BUILTIN).and_then(BuiltinTool::named) {
            Some(tool) => Some(tool.scope()),
            None => self.mapped(name),
        }
    }
}

impl Scopes {
    fn of(sets: impl Iterator<Item = RuleSet>) -> Self {
        Self(
            sets.map(|set| (set.scope.as_str().to_owned(), set))
                .collect(),
        )
    }

    /// The rules of a scope, where it has any.
    pub(super) fn get(&self, scope: &str) -> Option<&RuleSet> {
        self.0.get(scope)
    }
}

fn mappings(
    written: &[serde_saphyr::Spanned<WrittenMapping>],
    problems: &mut Vec<Problem>,
) -> Vec<(Lookalike, Scope)> {
    let mut earlier: Vec<Pattern> = Vec::new();
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
        } else if is_behind(&own, &earlier) {
            let what = format!(
                "`{}` can never match: an earlier pattern takes all of it",
                pattern.value
            );
            problems.push(Problem::at(place, what));
        }
        earlier.push(own);
    }
    all
}

fn agents(
    written: WrittenAgents,
    everyones: &[super::compile::Joined],
    compiler: &mut Compiler<'_>,
) -> Vec<(Pattern, Scopes)> {
    let mut earlier: Vec<Pattern> = Vec::new();
    let mut all = Vec::new();
    for (name, place, agent) in written.0 {
        let pattern = Pattern::new(&name);
        if name.is_empty() || is_behind(&pattern, &earlier) {
            let what = format!("agents `{name}` can never match");
            compiler.problems.push(Problem::at(place, what));
        }
        if agent.rules.is_empty() {
            let what = format!("`override` of agents `{name}` is empty");
            compiler.problems.push(Problem::at(place, what));
        }
        let own = compiler.joined(&agent.rules);
        for joined in &own {
            compiler.rule_set(joined);
        }
        let replaces = match agent.override_mode {
            OverrideMode::Merge => false,
            OverrideMode::Replace => true,
        };
        // Each part has been looked at already, so that what is wrong is told once.
        let mut silent = Compiler {
            around: compiler.around,
            problems: Vec::new(),
        };
        let joined = overridden(everyones, own, replaces);
        let scopes = Scopes::of(joined.iter().map(|joined| silent.rule_set(joined)));
        earlier.push(pattern.clone());
        all.push((pattern, scopes));
    }
    all
}
