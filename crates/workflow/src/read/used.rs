//! The values that a state's templates and conditions use.

use crate::{
    Kind, State,
    model::{Hook, Inputs, Item, Items, Limit, LoopOver, Prompt, Script},
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
    /// Before an agent runs. Prompts are for people, so lower case is only a warning there.
    Prompt,
    /// Once the state has run, or several times.
    Later,
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
        matches!(self, Self::Before | Self::Prompt | Self::Condition)
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
            Script::File(template) => note("script_file", Role::Before, template.paths()),
        },
        Kind::Agent(agent) => {
            match &agent.prompt {
                Prompt::Text(template) => note("prompt", Role::Prompt, template.paths()),
                Prompt::File(template) => note("prompt_file", Role::Before, template.paths()),
            }
            for (key, template) in &agent.texts {
                note(&format!("options.{key}"), Role::Prompt, template.paths());
            }
        }
        Kind::Terminal(ending) => {
            if let Some(message) = &ending.message {
                note("message", Role::Later, message.paths());
            }
        }
        Kind::Loop(inner) => of_loop(inner, note),
        Kind::Operation(operation) => of_inputs("inputs", &operation.inputs, note),
        Kind::Call(call) => of_inputs("inputs", &call.inputs, note),
        Kind::Parallel(_) => {}
    }
}

fn of_loop(inner: &crate::Loop, note: Note<'_>) {
    match &inner.over {
        LoopOver::While(condition) => note("while", Role::LaterCondition, condition.paths()),
        LoopOver::Items(Items::Template(template)) => {
            note("items", Role::Before, template.paths());
        }
        LoopOver::Items(Items::List(items)) => {
            for (at, item) in items.iter().enumerate() {
                if let Item::Template(template) = item {
                    note(&format!("items[{at}]"), Role::Before, template.paths());
                }
            }
        }
    }
    if let Limit::Computed(sum) = &inner.max_iterations {
        note("max_iterations", Role::Before, sum.paths());
    }
    if let Some(condition) = &inner.break_when {
        note("break_when", Role::LaterCondition, condition.paths());
    }
}

fn of_inputs(path: &str, inputs: &Inputs, note: Note<'_>) {
    match inputs {
        Inputs::Value(_) => {}
        Inputs::Text(template) => note(path, Role::Before, template.paths()),
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
