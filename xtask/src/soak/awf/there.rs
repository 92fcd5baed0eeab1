//! What AWF makes of a workflow file: its loader's rules, written down a second time and as plainly as possible. What
//! the names and comments of files promise does not count: AWF's own tests say that some of it is not so.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

pub(super) const SYNTAX: &str = "WORKFLOW.PARSE.YAML_SYNTAX";
pub(super) const STATE: &str = "WORKFLOW.VALIDATION.MISSING_STATE";

/// What AWF makes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum There {
    Valid,
    Refused {
        /// `None` where AWF defines no code.
        code: Option<&'static str>,
        why: Why,
    },
}

/// Why AWF refuses a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    Rule(String),
    /// A rule that Callgate leaves out on purpose: docs/workflows-awf.md has the reason.
    LeftOut(&'static str),
}

const TYPES: [&str; 9] = [
    "step",
    "command",
    "agent",
    "terminal",
    "parallel",
    "for_each",
    "while",
    "operation",
    "call_workflow",
];

/// `None` for a file that is neither a workflow nor a template.
pub(super) fn there(path: &Path, text: &str) -> Option<There> {
    let Ok(file) = serde_saphyr::from_str::<Value>(text) else {
        return text
            .contains("states:")
            .then(|| refused(Some(SYNTAX), "it is not YAML"));
    };
    if !file["states"].is_object() {
        return None;
    }
    if file.get("parameters").is_some() {
        return Some(template(path, &file));
    }
    let rule = form(&file)
        .or_else(|| references(&file))
        .or_else(|| proxies(&file));
    Some(rule.or_else(|| paths(&file)).unwrap_or(There::Valid))
}

fn refused(code: Option<&'static str>, why: impl Into<String>) -> There {
    There::Refused {
        code,
        why: Why::Rule(why.into()),
    }
}

fn left_out(why: &'static str) -> There {
    There::Refused {
        code: Some(SYNTAX),
        why: Why::LeftOut(why),
    }
}

fn template(path: &Path, file: &Value) -> There {
    if is_empty(&file["name"]) {
        return refused(Some(SYNTAX), "a template needs a name");
    }
    // Templates that use each other in a circle are refused once they are used.
    let (mut file, mut seen) = (file.clone(), BTreeSet::new());
    let used = |file: &Value| {
        let used = states(file).find_map(|(_, state)| state["use_template"].as_str());
        used.map(str::to_owned)
    };
    while let Some(next) = used(&file) {
        if !seen.insert(next.clone()) {
            return refused(None, "templates use each other in a circle");
        }
        let beside = path.with_file_name(format!("{next}.yaml"));
        let text = fs::read_to_string(beside).unwrap_or_default();
        file = serde_saphyr::from_str(&text).unwrap_or_default();
    }
    There::Valid
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn states(file: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let states = file["states"].as_object().into_iter().flatten();
    let states = states.map(|(name, state)| (name.as_str(), state));
    states.filter(|(name, _)| *name != "initial")
}

fn names(value: &Value) -> impl Iterator<Item = &str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The form of the file and of each state.
fn form(file: &Value) -> Option<There> {
    if !file["inputs"].is_null() && !file["inputs"].is_array() {
        return Some(refused(Some(SYNTAX), "`inputs` is not a list"));
    }
    let has_version = file.get("version").is_some();
    for (missing, why) in [
        (is_empty(&file["name"]), "no name"),
        (is_empty(&file["states"]["initial"]), "no initial state"),
        (
            !states(file).any(|(_, state)| state["type"] == "terminal"),
            "no terminal state",
        ),
    ] {
        if missing {
            let rule = refused(Some(SYNTAX), why);
            return Some(if has_version { rule } else { left_out(why) });
        }
    }
    states(file).find_map(|(name, state)| {
        let why = state_form(state)?;
        Some(refused(Some(SYNTAX), format!("`{name}`: {why}")))
    })
}

fn state_form(state: &Value) -> Option<&'static str> {
    let kind = state["type"].as_str().unwrap_or_default().to_lowercase();
    let has = |key: &str| !is_empty(&state[key]);
    let word = |key: &str| state[key].as_str().unwrap_or_default();
    if !TYPES.contains(&kind.as_str()) {
        return (!has("use_template")).then_some("unknown type");
    }
    if let Some(retry) = state["retry"].as_object() {
        let backoff = retry
            .get("backoff")
            .and_then(Value::as_str)
            .unwrap_or("constant");
        let attempts = retry
            .get("max_attempts")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        if !["constant", "linear", "exponential"].contains(&backoff) || attempts < 1 {
            return Some("`retry`");
        }
    }
    let failure = &state["on_failure"];
    if failure.is_object() && is_empty(&failure["message"]) {
        return Some("`on_failure` without a message");
    }
    let wrong = match kind.as_str() {
        "step" | "command" => has("command") == has("script_file"),
        "agent" => {
            let mode = word("mode").trim().to_lowercase();
            let is_talk = mode == "conversation";
            !has("provider")
                || word("provider").trim() == "custom"
                || !["", "single", "conversation"].contains(&mode.as_str())
                || has("prompt") == has("prompt_file")
                || (is_talk && has("prompt_file"))
        }
        "terminal" => !["", "success", "failure"].contains(&word("status")),
        "parallel" => {
            let strategies = ["", "all_succeed", "any_succeed", "best_effort"];
            names(&state["parallel"]).next().is_none() || !strategies.contains(&word("strategy"))
        }
        "for_each" => state["items"].is_null() || names(&state["body"]).next().is_none(),
        "while" => !has("while") || names(&state["body"]).next().is_none(),
        "operation" => !has("operation"),
        _ => !has("workflow") && !state["call_workflow"].is_object(),
    };
    wrong.then_some("a key of its type is missing or wrong")
}

/// References to states.
fn references(file: &Value) -> Option<There> {
    let known: BTreeSet<&str> = states(file).map(|(name, _)| name).collect();
    let bodies: BTreeSet<&str> = states(file)
        .flat_map(|(_, state)| names(&state["body"]))
        .collect();
    let branches: BTreeSet<&str> = states(file)
        .flat_map(|(_, state)| names(&state["parallel"]))
        .collect();
    let unknown = |name: &str| refused(Some(STATE), format!("unknown state `{name}`"));
    let initial = file["states"]["initial"].as_str().unwrap_or_default();
    if !known.contains(initial) {
        return Some(unknown(initial));
    }
    for (name, state) in states(file) {
        let transitions = state["transitions"].as_array();
        let gotos = transitions
            .into_iter()
            .flatten()
            .filter_map(|one| one["goto"].as_str());
        let gotos = gotos.filter(|_| !bodies.contains(name));
        let targets = ["on_success", "on_failure", "on_complete"];
        let targets = targets.into_iter().filter_map(|key| state[key].as_str());
        let mut all = gotos.chain(targets).chain(names(&state["body"]));
        if let Some(missing) = all.find(|target| !known.contains(target)) {
            return Some(unknown(missing));
        }
        let earlier = &state["conversation"]["continue_from"];
        if earlier
            .as_str()
            .is_some_and(|earlier| !known.contains(earlier))
        {
            return Some(refused(Some(SYNTAX), "`continue_from` an unknown state"));
        }
        let leads_on = ["on_success", "on_failure", "transitions"]
            .iter()
            .any(|key| !state[*key].is_null());
        let is_command = state["type"] == "step" || state["type"] == "command";
        if is_command && !leads_on && !branches.contains(name) {
            let why = "a command without a successor";
            return Some(match file.get("version") {
                Some(_) if !bodies.contains(name) => refused(Some(SYNTAX), why),
                _ => left_out(why),
            });
        }
    }
    None
}

fn proxies(file: &Value) -> Option<There> {
    const KEYS: [&str; 3] = ["enable", "intercept_builtins", "plugin_tools"];
    states(file).find_map(|(_, state)| {
        let proxy = state["mcp_proxy"].as_object()?;
        if proxy.keys().any(|key| !KEYS.contains(&key.as_str())) {
            return Some(refused(
                Some("USER.MCP_PROXY.UNKNOWN_KEY"),
                "an unknown key",
            ));
        }
        if proxy.get("enable") != Some(&Value::Bool(true)) {
            return None;
        }
        let tools = proxy.get("plugin_tools").and_then(Value::as_array);
        let plugins: Vec<&str> = tools
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["plugin"].as_str())
            .collect();
        let distinct: BTreeSet<&str> = plugins.iter().copied().collect();
        if plugins.is_empty() && proxy.get("intercept_builtins") == Some(&Value::Bool(false)) {
            return Some(refused(Some("USER.MCP_PROXY.EMPTY_PROXY"), "no tools"));
        }
        if distinct.len() < plugins.len() {
            let code = Some("USER.MCP_PROXY.NAME_COLLISION");
            return Some(refused(code, "one plugin twice"));
        }
        let why = "the plugin is not installed";
        (!plugins.is_empty()).then(|| refused(Some("USER.MCP_PROXY.UNKNOWN_PLUGIN"), why))
    })
}

/// The values that the commands, folders, hooks and loops of states use. AWF looks at no other text.
fn paths(file: &Value) -> Option<There> {
    let inputs: BTreeSet<&str> = file["inputs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|input| input["name"].as_str())
        .collect();
    let known: BTreeSet<&str> = states(file).map(|(name, _)| name).collect();
    states(file).find_map(|(name, state)| {
        let own = [
            "command",
            "dir",
            "max_iterations",
            "items",
            "while",
            "break_when",
        ];
        let own = own.iter().filter_map(|key| state[*key].as_str());
        let hooks = ["pre", "post"].into_iter().flat_map(|when| {
            let actions = state["hooks"][when].as_array().into_iter().flatten();
            actions.filter_map(|action| action["log"].as_str().or(action["command"].as_str()))
        });
        let is_wrong = |path: &str, is_own: bool| {
            let parts: Vec<&str> = path.split('.').collect();
            match parts.as_slice() {
                ["inputs", input, ..] => !inputs.contains(input),
                ["error", ..] => true,
                ["states", other, member, ..] => {
                    !known.contains(other) || (is_own && *other == name) || LOWER.contains(member)
                }
                _ => false,
            }
        };
        let mut own = own.flat_map(used).map(|path| (path, true));
        let mut hooks = hooks.flat_map(used).map(|path| (path, false));
        let wrong = own.find(|(path, is_own)| is_wrong(path, *is_own));
        let wrong = wrong.or_else(|| hooks.find(|(path, is_own)| is_wrong(path, *is_own)));
        let wrong = wrong.map(|(path, _)| path);
        wrong.map(|path| refused(None, format!("`{name}` uses `{path}`")))
    })
}

/// Members of states in lower case, which never had a value.
const LOWER: [&str; 4] = ["output", "stderr", "exit_code", "status"];

/// The paths between the braces of a text.
fn used(text: &str) -> Vec<&str> {
    let inside = text
        .split("{{")
        .skip(1)
        .filter_map(|rest| rest.split_once("}}"));
    let words = inside.flat_map(|(inside, _)| inside.split([' ', '|', '(', ')']));
    words
        .map(|word| word.trim_start_matches('.'))
        .filter(|word| word.contains('.') && !word.starts_with(['"', '`']))
        .collect()
}
