//! The values that a state's templates and conditions use.

use crate::{
    Kind, State,
    model::{Hook, Inputs, Item, Items, Limit, LoopOver, Prompt, Script, public_name},
};

/// A path in a template or condition.
#[derive(Debug)]
pub(super) struct Used {
    /// The key in the state, such as `transitions[0].when`.
    pub(super) key: String,
    pub(super) path: Vec<String>,
    pub(super) role: Role,
}

/// When a value is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Before the state runs.
    Before,
    /// Before the state runs, in a text that AWF does not check. A value that never exists is only a warning there: the
    /// state fails once it is reached.
    Lenient,
    /// Once the state has run.
    Later,
    /// Once the state has run, in a text that AWF does not check.
    LenientLater,
    /// A condition, before the state runs.
    Condition,
    /// A condition once the state has run, or several times.
    LaterCondition,
}

impl Role {
    pub(super) fn is_condition(self) -> bool {
        matches!(self, Self::Condition | Self::LaterCondition)
    }

    /// Whether the value must exist before the state runs for the first time.
    pub(super) fn is_before(self) -> bool {
        matches!(self, Self::Before | Self::Lenient | Self::Condition)
    }

    /// Whether a value that never exists keeps the workflow from running.
    pub(super) fn is_strict(self) -> bool {
        matches!(self, Self::Before | Self::Later)
    }
}

/// All value paths in a state's templates and conditions, with their keys.
pub(super) fn of_state(state: &State) -> Vec<Used> {
    let mut used = Vec::new();
    let mut note = |key: &str, role: Role, paths: Vec<&[String]>| {
        used.extend(paths.into_iter().map(|path| Used {
            key: key.to_owned(),
            path: path.to_vec(),
            role,
        }));
    };
    if let Some(dir) = &state.dir {
        note("dir", Role::Before, dir.paths());
    }
    if let Some(when) = &state.when {
        note("when", Role::Condition, when.paths());
    }
    for (at, transition) in state.transitions.iter().enumerate() {
        if let Some(when) = &transition.when {
            let key = format!("transitions[{at}].when");
            note(&key, Role::LaterCondition, when.paths());
        }
    }
    for (key, role, hooks) in [
        ("hooks.pre", Role::Before, &state.hooks.pre),
        ("hooks.post", Role::Later, &state.hooks.post),
    ] {
        for (at, hook) in hooks.iter().enumerate() {
            note(
                &format!("{key}[{at}].{}", hook_key(hook)),
                role,
                hook.paths(),
            );
        }
    }
    of_kind(&state.kind, &mut note);
    used
}

pub(super) fn hook_key(hook: &Hook) -> &'static str {
    match hook {
        Hook::Log(_) => "log",
        Hook::Command(_) => "command",
    }
}

impl Hook {
    pub(super) fn paths(&self) -> Vec<&[String]> {
        match self {
            Self::Log(template) | Self::Command(template) => template.paths(),
        }
    }
}

type Note<'n> = &'n mut dyn FnMut(&str, Role, Vec<&[String]>);

fn of_kind(kind: &Kind, note: Note<'_>) {
    match kind {
        Kind::Command(command) => match &command.script {
            Script::Text(template) => note("command", Role::Before, template.paths()),
            Script::File(template) => note("script_file", Role::Lenient, template.paths()),
        },
        Kind::Agent(agent) => {
            match &agent.prompt {
                Prompt::Text(template) => note("prompt", Role::Lenient, template.paths()),
                Prompt::File(template) => note("prompt_file", Role::Lenient, template.paths()),
            }
            if let Some(role) = &agent.before.role {
                note("role", Role::Lenient, role.paths());
            }
            for (key, template) in &agent.texts {
                note(&format!("options.{key}"), Role::Lenient, template.paths());
            }
        }
        Kind::Terminal(ending) => {
            if let Some(message) = &ending.message {
                note("message", Role::LenientLater, message.paths());
            }
        }
        Kind::Loop(inner) => of_loop(inner, note),
        Kind::Operation(operation) => of_inputs("inputs", &operation.inputs, note),
        Kind::Call(call) => of_inputs("inputs", &call.inputs, note),
        Kind::Parallel(_) => {}
    }
}

fn of_loop(inner: &crate::Loop, note: Note<'_>) {
    // AWF knows no `loop` on a state.
    let is_on_state = inner.body.iter().any(|name| public_name(name) != name);
    let before = if is_on_state {
        Role::Lenient
    } else {
        Role::Before
    };
    match &inner.over {
        LoopOver::While(condition) => note("while", Role::LaterCondition, condition.paths()),
        LoopOver::Items(Items::Template(template)) => {
            note("items", before, template.paths());
        }
        LoopOver::Items(Items::List(items)) => {
            for (at, item) in items.iter().enumerate() {
                if let Item::Template(template) = item {
                    note(&format!("items[{at}]"), before, template.paths());
                }
            }
        }
    }
    match &inner.max_iterations {
        Limit::Fixed(_) => {}
        Limit::Computed(sum) => note("max_iterations", before, sum.paths()),
        Limit::Template(template) => note("max_iterations", before, template.paths()),
    }
    if let Some(condition) = &inner.break_when {
        note("break_when", Role::LaterCondition, condition.paths());
    }
}

fn of_inputs(path: &str, inputs: &Inputs, note: Note<'_>) {
    match inputs {
        Inputs::Value(_) => {}
        Inputs::Text(template) => note(path, Role::Lenient, template.paths()),
        Inputs::List(items) => {
            for (at, item) in items.iter().enumerate() {
                of_inputs(&format!("{path}[{at}]"), item, note);
            }
        }
        Inputs::Map(members) => {
            for (key, member) in members {
                of_inputs(&format!("{path}.{key}"), member, note);
            }
        }
    }
}
