//! Checks of the workflow as a whole: references to unknown states, unreachable states, unknown paths in templates and
//! conditions, values of states that cannot have run yet.

use std::collections::BTreeSet;

use super::{
    field::{Field, Findings},
    place::Places,
    used::{self, Role, Used},
};
use crate::{
    Code, Finding, Kind, State, Target, Workflow,
    model::{Hook, public_name},
    outcome::{MEMBERS, right_case},
};

pub(super) fn workflow(workflow: &Workflow, places: &Places<'_>, findings: &Findings) {
    let checked = Checked {
        workflow,
        places,
        findings,
    };
    for state in &workflow.states {
        checked.names(state);
        for used in used::of_state(state) {
            checked.used(state, &used);
        }
        if depends_on_itself(workflow, state) {
            let what = format!("`{}` depends on itself", state.name);
            checked.found(state, "depends_on", Code::Malformed, what);
        }
    }
    checked.hooks();
    checked.outputs();
    unreachable(workflow, findings);
}

/// What the full form of a workflow, with a version, must have.
pub(super) fn full_form(workflow: &Workflow, states: &Field<'_>) {
    let is_end = |state: &State| matches!(state.kind, Kind::Terminal(_));
    if !workflow.states.iter().any(is_end) {
        let what = "a workflow with a version needs a terminal state".to_owned();
        states.finding(Code::Malformed, what);
    }
    let inner: BTreeSet<&str> = workflow
        .states
        .iter()
        .flat_map(|state| state.kind.inner())
        .map(String::as_str)
        .collect();
    for state in &workflow.states {
        let leads_on = state.on_success.is_some()
            || state.on_failure.is_some()
            || !state.transitions.is_empty();
        let is_command = matches!(state.kind, Kind::Command(_));
        if is_command && !leads_on && !inner.contains(state.name.as_str()) {
            let what = format!(
                "`{}` needs `on_success`, `on_failure` or `transitions`: the workflow has a version",
                state.name
            );
            states
                .at(&state.name, state.place)
                .finding(Code::Malformed, what);
        }
    }
}

struct Checked<'a> {
    workflow: &'a Workflow,
    places: &'a Places<'a>,
    findings: &'a Findings,
}

impl Checked<'_> {
    fn found(&self, state: &State, member: &str, code: Code, message: String) {
        self.findings
            .push(self.finding(state, member, code, message));
    }

    fn finding(&self, state: &State, member: &str, code: Code, message: String) -> Finding {
        let (member, place) = self.places.of_member(state, member);
        let path = format!("states.{}.{member}", public_name(&state.name));
        Finding::new(code, path, place, message)
    }

    /// The names of other states.
    fn names(&self, state: &State) {
        let is_body = self.workflow.states.iter().any(
            |around| matches!(&around.kind, Kind::Loop(inner) if inner.body.contains(&state.name)),
        );
        for (member, name) in named(state) {
            if self.workflow.state(&name).is_some() {
                continue;
            }
            let what = format!("unknown state `{name}`");
            let is_of = |key: &str| member.starts_with(key);
            let code = match is_of("conversation") {
                true => Code::Malformed,
                false => Code::UnknownState,
            };
            let finding = self.finding(state, &member, code, what);
            // In a loop such a transition is passed over, so that the round goes on. The others fail the run once it
            // gets there.
            let is_late =
                (is_body && is_of("transitions")) || is_of("branches") || is_of("depends_on");
            self.findings
                .push(if is_late { finding.warning() } else { finding });
        }
    }

    /// A path in a template or condition.
    fn used(&self, state: &State, used: &Used) {
        let code = if used.role.is_condition() {
            Code::BadExpression
        } else {
            Code::BadTemplate
        };
        let mut what = self.why_unknown(&used.path, used.role);
        if what.is_none() && used.role.is_before() && self.is_too_early(state, &used.path) {
            let name = &used.path[1];
            what = Some(format!(
                "state `{name}` cannot have run before `{}`",
                public_name(&state.name)
            ));
        }
        let Some(what) = what else {
            return;
        };
        let mut finding = self.finding(state, &used.key, code, what);
        self.refine(&mut finding, &used.path);
        self.findings.push(if used.role.is_strict() {
            finding
        } else {
            finding.warning()
        });
    }

    /// Moves a finding to the path that it is about.
    fn refine(&self, finding: &mut Finding, path: &[String]) {
        let place = callgate_gate::Place {
            line: finding.line,
            column: finding.column,
        };
        let place = self.places.of_word(place, &path.join("."));
        (finding.line, finding.column) = (place.line, place.column);
    }

    /// The hooks of the workflow.
    fn hooks(&self) {
        let hooks = &self.workflow.hooks;
        for (key, hooks, role) in [
            ("workflow_start", &hooks.start, Role::Before),
            ("workflow_end", &hooks.end, Role::Before),
            ("workflow_error", &hooks.error, Role::Later),
            ("workflow_cancel", &hooks.cancel, Role::Before),
        ] {
            for (at, hook) in hooks.iter().enumerate() {
                let path = format!("hooks.{key}[{at}].{}", used::hook_key(hook));
                self.hook(&path, hook, role);
            }
        }
    }

    fn hook(&self, path: &str, hook: &Hook, role: Role) {
        for used in hook.paths() {
            if let Some(what) = self.why_unknown(used, role) {
                let place = self.places.of_path(path);
                let mut finding = Finding::new(Code::BadTemplate, path, place, what);
                self.refine(&mut finding, used);
                self.findings.push(finding);
            }
        }
    }

    fn outputs(&self) {
        for (at, output) in self.workflow.outputs.iter().enumerate() {
            if let Some(what) = self.why_unknown(&output.from, Role::Before) {
                let path = format!("outputs[{at}].from");
                let place = self.places.of_path(&path);
                let finding = Finding::new(Code::BadTemplate, path, place, what);
                self.findings.push(finding.warning());
            }
        }
    }

    /// Why a path can never have a value; `None` if it can.
    fn why_unknown(&self, path: &[String], role: Role) -> Option<String> {
        if let Some(right) = lower_case(path) {
            return Some(format!(
                "unknown path `.{}`; write `.{right}`",
                path.join(".")
            ));
        }
        let second = path.get(1).map(String::as_str);
        match (path[0].as_str(), second) {
            ("inputs", Some(name)) => {
                let mut inputs = self.workflow.inputs.iter();
                let is_known = inputs.any(|input| input.name == name);
                (!is_known).then(|| format!("unknown input `{name}`"))
            }
            ("states", Some(name)) => self.why_unknown_state(name, path),
            ("parameters", Some(name)) => {
                let is_known = self.workflow.parameters.iter().any(|known| known == name);
                (!is_known).then(|| format!("unknown parameter `{name}`"))
            }
            ("error", Some("Message" | "State" | "ExitCode" | "Type")) => {
                let has_error = role != Role::Before;
                (!has_error).then(|| {
                    "`error` has values in conditions, in prompts, in messages and in the hook `workflow_error`".to_owned()
                })
            }
            ("workflow", Some(member)) if WORKFLOW.contains(&member) => None,
            ("context", Some("WorkingDir" | "User" | "Hostname")) => None,
            ("loop", Some(member)) if is_loop_member(member) => None,
            ("awf", Some(member)) if member.ends_with("_dir") => None,
            ("env" | "vars", Some(_)) => None,
            _ => Some(format!(
                "unknown path `.{}`; a path begins with inputs, states, env, vars, workflow.id, workflow.name, loop, error or context",
                path.join(".")
            )),
        }
    }

    fn why_unknown_state(&self, name: &str, path: &[String]) -> Option<String> {
        if self.workflow.state(name).is_none() {
            return Some(format!("unknown state `{name}`"));
        }
        let members = MEMBERS.join(", ");
        match path.get(2).map(String::as_str) {
            Some(member) if MEMBERS.contains(&member) => None,
            Some(member) => Some(format!(
                "a state has no member `{member}`; members: {members}"
            )),
            None => Some(format!(
                "`.{}` is a whole state; its members: {members}",
                path.join(".")
            )),
        }
    }

    /// Whether a path names a state that only runs after this one has run: every way to it leads through this one.
    fn is_too_early(&self, state: &State, path: &[String]) -> bool {
        let (Some("states"), Some(name)) = (path.first().map(String::as_str), path.get(1)) else {
            return false;
        };
        let reachable = reachable(self.workflow, None);
        if !reachable.contains(name.as_str()) || !reachable.contains(state.name.as_str()) {
            return false;
        }
        !reachable_without(self.workflow, &state.name).contains(name.as_str())
    }
}

const WORKFLOW: [&str; 9] = [
    "id",
    "name",
    "duration",
    "ID",
    "Name",
    "CurrentState",
    "StartedAt",
    "Duration",
    "Duration()",
];

fn is_loop_member(member: &str) -> bool {
    const MEMBERS: [&str; 7] = [
        "item", "index", "index1", "first", "last", "length", "parent",
    ];
    let mut letters = member.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    let lower: String = first.into_iter().chain(letters).collect();
    MEMBERS.contains(&lower.as_str())
}

/// The right spelling of a path that is written in lower case.
fn lower_case(path: &[String]) -> Option<String> {
    let text = |path: &[&str]| path.join(".");
    match path
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["states", name, member, ..] => {
            right_case(member).map(|right| text(&["states", name, right]))
        }
        ["error", member, ..] => match *member {
            "message" => Some("error.Message".to_owned()),
            "state" => Some("error.State".to_owned()),
            "exit_code" => Some("error.ExitCode".to_owned()),
            "type" => Some("error.Type".to_owned()),
            _ => None,
        },
        ["context", member, ..] => match *member {
            "working_dir" => Some("context.WorkingDir".to_owned()),
            "user" => Some("context.User".to_owned()),
            "hostname" => Some("context.Hostname".to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a state depends on itself through `depends_on`. Such branches would wait for each other for ever.
fn depends_on_itself(workflow: &Workflow, state: &State) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = state.depends_on.iter().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if name == state.name {
            return true;
        }
        if seen.insert(name)
            && let Some(needed) = workflow.state(name)
        {
            open.extend(needed.depends_on.iter().map(String::as_str));
        }
    }
    false
}

/// The names of all states that a state refers to, with their paths in the state.
fn named(state: &State) -> Vec<(String, String)> {
    let mut named = Vec::new();
    for (at, transition) in state.transitions.iter().enumerate() {
        named.push((format!("transitions[{at}].goto"), transition.goto.clone()));
    }
    for (key, target) in [
        ("on_success", &state.on_success),
        ("on_failure", &state.on_failure),
    ] {
        if let Some(Target::State(name)) = target {
            named.push((key.to_owned(), name.clone()));
        }
    }
    for (at, name) in state.depends_on.iter().enumerate() {
        named.push((format!("depends_on[{at}]"), name.clone()));
    }
    let key = if matches!(state.kind, Kind::Parallel(_)) {
        "branches"
    } else {
        "body"
    };
    for (at, name) in state.kind.inner().iter().enumerate() {
        named.push((format!("{key}[{at}]"), name.clone()));
    }
    if let Kind::Agent(agent) = &state.kind
        && let Some(earlier) = &agent.continue_from
    {
        named.push(("conversation.continue_from".to_owned(), earlier.clone()));
    }
    named
}

impl Kind {
    /// The states inside of a state.
    fn inner(&self) -> &[String] {
        match self {
            Self::Parallel(parallel) => &parallel.branches,
            Self::Loop(inner) => &inner.body,
            Self::Command(_)
            | Self::Agent(_)
            | Self::Terminal(_)
            | Self::Operation(_)
            | Self::Call(_) => &[],
        }
    }
}

fn reachable_without<'a>(workflow: &'a Workflow, left_out: &str) -> BTreeSet<&'a str> {
    reachable(workflow, Some(left_out))
}

/// The states that the initial one leads to, without a state.
fn reachable<'a>(workflow: &'a Workflow, left_out: Option<&str>) -> BTreeSet<&'a str> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open = vec![workflow.initial.as_str()];
    while let Some(name) = open.pop() {
        let Some(state) = workflow.state(name).filter(|_| Some(name) != left_out) else {
            continue;
        };
        if seen.insert(&state.name) {
            let names = named(state).into_iter().map(|(_, name)| name);
            let states = names.filter_map(|name| workflow.state(&name));
            open.extend(states.map(|state| state.name.as_str()));
        }
    }
    seen
}

/// Warns of unreachable states, which are probably mistakes.
fn unreachable(workflow: &Workflow, findings: &Findings) {
    if workflow.state(&workflow.initial).is_none() {
        return;
    }
    let seen = reachable(workflow, None);
    for state in &workflow.states {
        if !seen.contains(state.name.as_str()) {
            let path = format!("states.{}", state.name);
            let what = format!("no state leads to `{}`", state.name);
            findings.push(Finding::new(Code::Unreachable, path, state.place, what));
        }
    }
}
