//! A second evaluator of policies, written from the reference and from nothing else: no index, no
//! compiled form, no code of the gate. It is slow and plain, and the gate must agree with it.
//!
//! It reads a policy as JSON, which is YAML too. Arguments use a small set of keys whose meaning is
//! beyond doubt ([`arguments`]); the finer points of what looks like a path are tested by tables.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub mod arguments;
pub mod expression;

pub use expression::Expr;

/// A verdict and the rule that gave it.
pub type Answer = (String, String);

/// A call, and what is known about the world around it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The server.
    pub server: String,
    /// The tool's own name.
    pub tool: String,
    /// `destructiveHint`.
    pub destructive: Option<bool>,
    /// `readOnlyHint`.
    pub read_only: Option<bool>,
    /// The arguments, an object.
    pub arguments: Value,
    /// The agent's name.
    pub agent: String,
    /// Whether the name is that of the token.
    pub vouched_for: bool,
    /// Patterns of earlier calls that count as met.
    pub met: BTreeSet<String>,
    /// Scopes whose rate limit is used up.
    pub used_up: BTreeSet<String>,
    /// What the call is said to cost.
    pub cost: Option<f64>,
    /// What the session has spent.
    pub spent: f64,
    /// Where links lead: a folder and the folder it means.
    pub links: BTreeMap<String, String>,
}

/// What a rule set is asked about.
enum Subject {
    Name(String),
    Text(String),
    Host(String),
    Path {
        spelled: String,
        real: String,
    },
    /// It cannot be judged, and is refused under this name.
    Unclear(&'static str),
    Nothing,
}

/// Everything that decides, side by side.
#[derive(Debug)]
pub struct Naive<'a> {
    /// The policy file.
    pub policy: &'a Value,
    /// The expressions in it by their text.
    pub expressions: &'a BTreeMap<String, Expr>,
    /// Whether mapped scopes are asked.
    pub strict: bool,
    /// The folder that relative paths start from.
    pub folder: &'a str,
    /// The home folder.
    pub home: &'a str,
}

impl Naive<'_> {
    /// The verdict on a call.
    pub fn answer(&self, case: &Case) -> Answer {
        let base = list(self.policy, "rules");
        let own = self.own_rules(case);
        let mut answers = Vec::new();
        match own {
            None => self.answers(&base, case, &mut answers),
            Some(own) => {
                self.answers(&own, case, &mut answers);
                if !case.vouched_for {
                    self.answers(&base, case, &mut answers);
                }
            }
        }
        strictest(answers)
    }

    /// The rule sets that an agent has, where it has any of its own.
    fn own_rules(&self, case: &Case) -> Option<Vec<Value>> {
        let agents = self.policy.get("agents")?.as_object()?;
        let (_, agent) = agents.iter().find(|(name, _)| wild(name, &case.agent))?;
        let own = list(agent, "override");
        let named: BTreeSet<&str> = own.iter().map(|set| text(set, "scope")).collect();
        let base = list(self.policy, "rules");
        if agent.get("override_mode").and_then(Value::as_str) == Some("replace") {
            let kept = base
                .into_iter()
                .filter(|set| !named.contains(text(set, "scope")));
            let kept: Vec<Value> = kept.collect();
            return Some(kept.into_iter().chain(own).collect());
        }
        Some(base.into_iter().chain(own).collect())
    }

    fn answers(&self, sets: &[Value], case: &Case, answers: &mut Vec<Answer>) {
        let name = format!("{}:{}", case.server, case.tool);
        answers.push(self.scope(sets, "mcp_tool", case));
        if !self.strict {
            return;
        }
        let map = list(self.policy, "tool_scope_map");
        let mapped = map
            .iter()
            .find(|entry| in_any_case(text(entry, "pattern"), &name));
        if let Some(scope) = mapped.map(|entry| text(entry, "scope"))
            && sets.iter().any(|set| text(set, "scope") == scope)
        {
            answers.push(self.scope(sets, scope, case));
        }
        answers.extend(cost(sets, case));
    }

    fn scope(&self, sets: &[Value], scope: &str, case: &Case) -> Answer {
        let sets: Vec<&Value> = sets
            .iter()
            .filter(|set| text(set, "scope") == scope)
            .collect();
        let subjects = self.subjects(scope, case);
        let first = |subject| self.first(&sets, scope, subject, case);
        let said = strictest(subjects.iter().map(first).collect());
        let limited = sets.iter().any(|set| set.get("rate_limit").is_some());
        if said.0 != "deny" && limited && case.used_up.contains(scope) {
            return ("deny".into(), format!("deny:ratelimit:{scope}"));
        }
        said
    }

    fn subjects(&self, scope: &str, case: &Case) -> Vec<Subject> {
        let mut subjects: Vec<Subject> = match scope {
            "filesystem" => {
                let mut subjects = Vec::new();
                for path in arguments::paths(&case.arguments) {
                    match arguments::readings(&path, self.folder, self.home) {
                        None => subjects.push(Subject::Unclear("path_traversal")),
                        Some(readings) => subjects.extend(readings.into_iter().map(|spelled| {
                            let real = arguments::real(&spelled, &case.links);
                            Subject::Path { spelled, real }
                        })),
                    }
                }
                subjects
            }
            "shell" => arguments::under(&case.arguments, &["command", "cmd", "script"])
                .into_iter()
                .map(Subject::Text)
                .collect(),
            "data" => arguments::under(&case.arguments, &["value", "content", "text", "data"])
                .into_iter()
                .map(Subject::Text)
                .collect(),
            "network" | "browser" => arguments::addresses(&case.arguments)
                .iter()
                .flat_map(|address| match arguments::hosts(address) {
                    Some(hosts) => hosts.into_iter().map(Subject::Host).collect(),
                    None => vec![Subject::Unclear("unclear_address")],
                })
                .collect(),
            _ => vec![Subject::Name(format!("{}:{}", case.server, case.tool))],
        };
        if subjects.is_empty() {
            subjects.push(Subject::Nothing);
        }
        subjects
    }

    fn first(&self, sets: &[&Value], scope: &str, subject: &Subject, case: &Case) -> Answer {
        if let Subject::Unclear(what) = subject {
            return ("deny".into(), format!("deny:{scope}:{what}"));
        }
        for kind in ["deny", "require_approval", "confirm", "allow"] {
            for set in sets {
                for rule in list(set, kind) {
                    if let Some(label) = self.matches(kind, &rule, subject, case) {
                        return (kind.into(), format!("{kind}:{scope}:{label}"));
                    }
                }
            }
        }
        ("deny".into(), "deny:default".into())
    }

    /// What a rule is called when it matches.
    fn matches(&self, kind: &str, rule: &Value, subject: &Subject, case: &Case) -> Option<String> {
        let restricts = kind != "allow";
        let mut label = None;
        if let Some(actions) = rule.get("action") {
            label = Some(action_label(&words(actions), case, restricts)?);
        }
        if let Some(domains) = rule.get("domains").or_else(|| rule.get("domain")) {
            label = Some(domain_label(&words(domains), subject)?);
        }
        if let Some(paths) = rule.get("paths") {
            label = Some(self.path_label(&words(paths), subject, restricts)?);
        }
        if let Some(pattern) = rule.get("pattern").and_then(Value::as_str) {
            let matched = pattern_matches(pattern, subject, restricts);
            label = Some(matched.then(|| pattern.to_owned())?);
        }
        if let Some(when) = rule.get("when").and_then(Value::as_str)
            && !self.holds(when, case, restricts)
        {
            return None;
        }
        let conditions = list(rule, "conditions");
        if !conditions.is_empty() {
            let met = conditions
                .iter()
                .all(|c| case.met.contains(text(c, "require_prior")));
            if met == restricts {
                return None;
            }
        }
        Some(label.unwrap_or_else(|| "*".into()))
    }

    /// The first of a rule's paths that matches. What restricts matches either spelling of a path.
    fn path_label(&self, paths: &[String], subject: &Subject, restricts: bool) -> Option<String> {
        let Subject::Path { spelled, real } = subject else {
            return None;
        };
        let hit = |path: &str| {
            let glob = |glob: &&String| arguments::glob(glob, path, self.folder, self.home);
            paths.iter().find(glob).cloned()
        };
        if restricts {
            hit(spelled).or_else(|| hit(real))
        } else {
            hit(real)
        }
    }

    /// Whether an expression holds. One that cannot be judged holds only where it restricts.
    fn holds(&self, when: &str, case: &Case, restricts: bool) -> bool {
        let expression = self
            .expressions
            .get(when)
            .expect("every expression is known");
        expression.judge(case).unwrap_or(restricts)
    }
}

/// The actions of a rule, if the tool's is among them. An unknown action matches what restricts.
fn action_label(actions: &[String], case: &Case, restricts: bool) -> Option<String> {
    let matched = match arguments::action(&case.tool) {
        Some(action) => actions.contains(&action.to_owned()),
        None => restricts,
    };
    matched.then(|| actions.join(","))
}

/// The first of a rule's domains that the host is in.
fn domain_label(domains: &[String], subject: &Subject) -> Option<String> {
    let Subject::Host(host) = subject else {
        return None;
    };
    domains
        .iter()
        .find(|d| arguments::is_in(&d.to_lowercase(), host))
        .cloned()
}

/// Whether a pattern matches a name or a text. What restricts matches in any case and any spacing.
fn pattern_matches(pattern: &str, subject: &Subject, restricts: bool) -> bool {
    match subject {
        Subject::Name(name) if restricts => in_any_case(pattern, name),
        Subject::Name(name) => wild(pattern, name),
        Subject::Text(text) if restricts => {
            let spaced = text.split_whitespace().collect::<Vec<_>>().join(" ");
            in_any_case(pattern, text) || in_any_case(pattern, &spaced)
        }
        Subject::Text(text) => wild(pattern, text),
        Subject::Host(_) | Subject::Path { .. } | Subject::Unclear(_) | Subject::Nothing => false,
    }
}

/// What the limits on cost say.
fn cost(sets: &[Value], case: &Case) -> Option<Answer> {
    let sets: Vec<&Value> = sets
        .iter()
        .filter(|set| text(set, "scope") == "cost")
        .collect();
    if sets.is_empty() {
        return None;
    }
    let limit = |name: &str| {
        let limits = sets
            .iter()
            .filter_map(|set| set.get("limits")?.get(name)?.as_f64());
        limits.fold(f64::INFINITY, f64::min)
    };
    let said = case.cost.unwrap_or(0.0);
    let (kind, what) = if said < 0.0 {
        ("deny", "negative_value")
    } else if said > limit("max_per_action") {
        ("deny", "max_per_action")
    } else if case.spent + said > limit("max_per_session") {
        ("deny", "max_per_session")
    } else if said > limit("alert_threshold") {
        ("require_approval", "alert_threshold")
    } else if case.cost.is_some() {
        ("allow", "limits")
    } else {
        return None;
    };
    Some((kind.into(), format!("{kind}:cost:{what}")))
}

/// The strictest answer; the first of those that are as strict.
fn strictest(answers: Vec<Answer>) -> Answer {
    for kind in ["deny", "require_approval", "confirm"] {
        if let Some(answer) = answers.iter().find(|(said, _)| said == kind) {
            return answer.clone();
        }
    }
    answers.into_iter().next().expect("something was asked")
}

/// Whether a pattern matches: `*` is any run.
pub fn wild(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| wild(rest, &text[at..]))
        }),
    }
}

/// The same in any case.
fn in_any_case(pattern: &str, text: &str) -> bool {
    wild(&pattern.to_lowercase(), &text.to_lowercase())
}

fn list(value: &Value, key: &str) -> Vec<Value> {
    let list = value.get(key).and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(word) => vec![word.clone()],
        Value::Array(words) => words
            .iter()
            .filter_map(|w| Some(w.as_str()?.to_owned()))
            .collect(),
        _ => Vec::new(),
    }
}
