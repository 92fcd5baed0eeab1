//! Parses hooks: what runs before and after a workflow and its states.

use super::field::Field;
use crate::{
    Code,
    model::{Hook, StateHooks, WorkflowHooks},
    tree::Tree,
};

pub(super) fn of_workflow(root: &Field<'_>) -> WorkflowHooks {
    const KEYS: [&str; 4] = [
        "workflow_start",
        "workflow_end",
        "workflow_error",
        "workflow_cancel",
    ];
    let Some(field) = root.get("hooks") else {
        return WorkflowHooks::default();
    };
    field.only(&KEYS, Code::UnknownKey);
    WorkflowHooks {
        start: actions(&field, "workflow_start"),
        end: actions(&field, "workflow_end"),
        error: actions(&field, "workflow_error"),
        cancel: actions(&field, "workflow_cancel"),
    }
}

/// The hooks of a state: below `hooks`, or as `pre_hook` and `post_hook`.
pub(super) fn of_state(state: &Field<'_>) -> StateHooks {
    let mut hooks = StateHooks {
        pre: actions(state, "pre_hook"),
        post: actions(state, "post_hook"),
    };
    if let Some(field) = state.get("hooks") {
        field.only(&["pre", "post"], Code::UnknownKey);
        hooks.pre.extend(actions(&field, "pre"));
        hooks.post.extend(actions(&field, "post"));
    }
    hooks
}

/// One action, or a list of them.
fn actions(field: &Field<'_>, key: &str) -> Vec<Hook> {
    let Some(written) = field.get(key) else {
        return Vec::new();
    };
    match &written.node.tree {
        Tree::Map(_) => action(&written).into_iter().collect(),
        Tree::List(_) | Tree::Leaf(_) => {
            let items = written.items().unwrap_or_default();
            items.iter().filter_map(action).collect()
        }
    }
}

fn action(field: &Field<'_>) -> Option<Hook> {
    field.only(&["log", "command"], Code::UnknownKey);
    match (field.get("log"), field.get("command")) {
        (Some(log), None) => log.template().map(Hook::Log),
        (None, Some(command)) => command.template().map(Hook::Command),
        (Some(log), Some(command)) => {
            let what = "ignored: an action with `log` runs no command".to_owned();
            command.warning(Code::IgnoredKey, what);
            log.template().map(Hook::Log)
        }
        (None, None) => {
            let what = "the action does nothing: it has no `log` or `command`".to_owned();
            field.warning(Code::IgnoredKey, what);
            None
        }
    }
}
