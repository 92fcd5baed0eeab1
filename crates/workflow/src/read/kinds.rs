//! Parses the kinds of states: the keys that each has beyond the common ones.

use callgate_agent::{AgentKind, Options};

use super::{
    field::Field,
    loops::{for_each, while_holds},
    state::{self, Type, ending},
};
use crate::{
    Agent, Call, Code, Kind, Operation, OutputFormat, Parallel, State, Status, Strategy,
    model::{Command, Inputs, Prompt, Provider, Script},
    skills::{Before, Skill},
    template::Template,
    tree::{Node, Tree},
};

/// The limit of `max_concurrent`.
const MAX_CONCURRENT: u32 = 1000;
/// The default of `max_concurrent`.
const CONCURRENT: u32 = 64;

/// The modes of an agent: whether a person takes part.
const MODES: [(&str, bool); 2] = [("single", false), ("conversation", true)];
pub(super) const FORMATS: [(&str, OutputFormat); 2] =
    [("text", OutputFormat::Text), ("json", OutputFormat::Json)];
pub(super) const STRATEGIES: [(&str, Strategy); 3] = [
    ("all_succeed", Strategy::AllSucceed),
    ("any_succeed", Strategy::AnySucceed),
    ("best_effort", Strategy::BestEffort),
];
/// The keys of an agent, on the state itself or below `agent`.
pub(super) const AGENT: [&str; 11] = [
    "provider",
    "prompt",
    "prompt_file",
    "options",
    "output_format",
    "system_prompt",
    "mode",
    "conversation",
    "continue_from",
    "role",
    "skills",
];
/// A provider that AWF had, and refuses now.
const REMOVED: &str = "custom";
/// Options that are templates.
pub(super) const TEXTS: [&str; 7] = [
    "model",
    "permission_mode",
    "approval_mode",
    "sandbox",
    "base_url",
    "api_key",
    "system_prompt",
];
pub(super) const OTHERS: [&str; 7] = [
    "max_tokens",
    "allowed_tools",
    "max_rounds",
    "temperature",
    "top_p",
    "max_completion_tokens",
    "stream",
];

/// The kind of a state, and the states that are defined inside of it.
pub(super) struct ParsedKind {
    pub(super) kind: Kind,
    pub(super) inner: Vec<State>,
}

/// The keys that a kind adds to the common ones.
pub(super) fn keys(kind: Type, field: &Field<'_>) -> &'static [&'static str] {
    match kind {
        Type::Agent if field.get("agent").is_some() => &["agent"],
        kind => own_keys(kind),
    }
}

pub(super) fn own_keys(kind: Type) -> &'static [&'static str] {
    match kind {
        Type::Command => &["command", "script_file", "output_format"],
        Type::Agent => &AGENT,
        Type::Terminal => &["status", "message"],
        Type::Parallel => &[
            "parallel",
            "branches",
            "steps",
            "strategy",
            "max_concurrent",
        ],
        Type::ForEach => &["items", "body", "max_iterations", "break_when"],
        Type::While => &["while", "body", "max_iterations", "break_when"],
        Type::Operation => &["plugin", "operation", "inputs", "operation_inputs"],
        Type::Call => &["call_workflow", "workflow", "inputs", "outputs"],
    }
}

pub(super) fn read(kind: Type, field: &Field<'_>) -> Option<ParsedKind> {
    let alone = |kind| ParsedKind {
        kind,
        inner: Vec::new(),
    };
    match kind {
        Type::Command => command(field).map(alone),
        Type::Agent => match field.get("agent") {
            Some(inner) => {
                inner.only(&AGENT, Code::UnknownKey);
                agent(&inner).map(alone)
            }
            None => agent(field).map(alone),
        },
        Type::Terminal => Some(alone(Kind::Terminal(ending(field, Status::Success)))),
        Type::Parallel => parallel(field),
        Type::ForEach => for_each(field).map(alone),
        Type::While => while_holds(field).map(alone),
        Type::Operation => operation(field).map(alone),
        Type::Call => match field.get("call_workflow") {
            Some(inner) => {
                inner.only(
                    &["workflow", "inputs", "outputs", "timeout"],
                    Code::UnknownKey,
                );
                call(&inner).map(alone)
            }
            None => call(field).map(alone),
        },
    }
}

fn command(field: &Field<'_>) -> Option<Kind> {
    let output_format = field.get("output_format");
    let output_format = output_format.and_then(|format| format.known(&FORMATS));
    let output_format = output_format.unwrap_or_default();
    let script = match (field.get("command"), field.get("script_file")) {
        (Some(command), None) => command.template().map(Script::Text),
        (None, Some(file)) => file.template().map(Script::File),
        (Some(_), Some(file)) => {
            let what = "use either `command` or `script_file`, not both".to_owned();
            file.finding(Code::Malformed, what);
            None
        }
        (None, None) => {
            let what = "`command` or `script_file` is missing".to_owned();
            field.finding(Code::Malformed, what);
            None
        }
    };
    Some(Kind::Command(Command {
        script: script?,
        output_format,
    }))
}

fn call(field: &Field<'_>) -> Option<Kind> {
    let workflow = field.must("workflow")?;
    let name = workflow.text()?;
    if !is_workflow_name(&name) {
        let what = format!("`{name}` is not the name of a workflow, nor `PACK/NAME`");
        workflow.finding(Code::Malformed, what);
    }
    let outputs = field.get("outputs");
    let outputs = outputs.and_then(|outputs| outputs.members());
    let pair = |(name, field): (String, Field<'_>)| Some((name, field.text()?));
    Some(Kind::Call(Call {
        workflow: name,
        inputs: inputs(field, &["inputs"])?,
        outputs: outputs
            .unwrap_or_default()
            .into_iter()
            .filter_map(pair)
            .collect(),
    }))
}

/// Names are looked up beside the workflow, so they must not lead elsewhere.
fn is_workflow_name(name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let parts: Vec<&str> = name.split('/').collect();
    parts.len() <= 2
        && parts
            .iter()
            .all(|part| !part.is_empty() && !part.starts_with('.') && part.chars().all(is_part))
}

/// A map in which every string is a template; empty if it is missing.
fn inputs(field: &Field<'_>, keys: &[&str]) -> Option<Inputs> {
    match field.either(keys) {
        Some(given) => {
            given.members()?;
            templates(&given, given.node)
        }
        None => Some(Inputs::Map(Vec::new())),
    }
}

fn output_format(field: &Field<'_>) -> OutputFormat {
    let format = field.get("output_format");
    format
        .and_then(|field| field.one_of_any_case(&FORMATS))
        .unwrap_or_default()
}

fn agent(field: &Field<'_>) -> Option<Kind> {
    let provider = field.must("provider").and_then(|field| provider(&field));
    let prompt = prompt(field);
    let given = field.get("options");
    let (options, mut texts) = given.map(|field| options(&field)).unwrap_or_default();
    if let Some(system) = field.get("system_prompt") {
        texts.extend(system.template().map(|text| ("system_prompt", text)));
    }
    let mode = field.get("mode");
    let is_talk = mode.and_then(|mode| mode.one_of_any_case(&MODES)) == Some(true);
    if let (true, Some(file)) = (is_talk, field.get("prompt_file")) {
        let what = "`mode: conversation` needs `prompt` instead of `prompt_file`".to_owned();
        file.finding(Code::Malformed, what);
    }
    let conversation = field.get("conversation");
    if let Some(conversation) = &conversation {
        conversation.only(&["continue_from"], Code::UnknownKey);
    }
    let earlier = conversation.as_ref().unwrap_or(field).get("continue_from");
    let output_format = output_format(field);
    Some(Kind::Agent(Box::new(Agent {
        provider: provider?,
        prompt: prompt?,
        before: before(field),
        options,
        texts,
        output_format,
        continue_from: earlier.and_then(|earlier| earlier.text()),
        is_tracked: conversation.is_some(),
    })))
}

/// The role and the skills of an agent.
fn before(field: &Field<'_>) -> Before {
    let role = field.get("role");
    if let Some(role) = role.as_ref().filter(|role| role.has_text("..")) {
        let what = "a role cannot lead to a parent folder".to_owned();
        role.finding(Code::Malformed, what);
    }
    let skills = field.get("skills").and_then(|skills| skills.items());
    let one = |skill: &Field<'_>| match &skill.node.tree {
        Tree::Map(_) => Some(Skill::Path(skill.must("path")?.text()?)),
        Tree::Leaf(_) | Tree::List(_) => {
            let name = skill.text().filter(|name| !name.is_empty());
            if name.is_none() {
                skill.finding(
                    Code::Malformed,
                    "a skill needs a name or a `path`".to_owned(),
                );
            }
            name.map(Skill::Named)
        }
    };
    Before {
        skills: skills.unwrap_or_default().iter().filter_map(one).collect(),
        role: role.and_then(|role| role.template()),
    }
}

fn prompt(field: &Field<'_>) -> Option<Prompt> {
    match (field.get("prompt"), field.get("prompt_file")) {
        (Some(prompt), None) => prompt.template().map(Prompt::Text),
        (None, Some(file)) => file.template().map(Prompt::File),
        (Some(_), Some(file)) => {
            let what = "use either `prompt` or `prompt_file`, not both".to_owned();
            file.finding(Code::Malformed, what);
            None
        }
        (None, None) => {
            field.finding(Code::Malformed, "`prompt` is missing".to_owned());
            None
        }
    }
}

fn provider(field: &Field<'_>) -> Option<Provider> {
    let text = field.text()?;
    if text.contains("{{") {
        return field.template().map(Provider::Template);
    }
    let name = text.trim();
    match name.parse::<AgentKind>() {
        Ok(kind) => Some(Provider::Known(kind)),
        Err(error) if name.is_empty() || name == REMOVED => {
            field.finding(Code::Malformed, error.to_string());
            None
        }
        Err(error) => {
            field.finding(Code::ForeignAgent, error.to_string());
            Some(Provider::Foreign(name.to_owned()))
        }
    }
}

type Texts = Vec<(&'static str, Template)>;

fn options(field: &Field<'_>) -> (Options, Texts) {
    let known: Vec<&str> = TEXTS.into_iter().chain(OTHERS).collect();
    field.only(&known, Code::UnknownKey);
    let text = |key: &'static str| Some((key, field.get(key)?.template()?));
    let texts = TEXTS.into_iter().filter_map(text).collect();
    let number = |key| option(&field.get(key)?);
    let whole =
        |key, most: u32| option(&field.get(key)?).filter(|count| (1..=most).contains(count));
    let options = Options {
        allowed_tools: field
            .get("allowed_tools")
            .map(|field| match &field.node.tree {
                Tree::List(_) => field.texts(),
                Tree::Leaf(_) | Tree::Map(_) => field.text().into_iter().collect(),
            })
            .unwrap_or_default(),
        max_rounds: whole("max_rounds", 10_000),
        temperature: number("temperature"),
        top_p: number("top_p"),
        max_completion_tokens: whole("max_completion_tokens", u32::MAX)
            .or_else(|| whole("max_tokens", u32::MAX))
            .map(u64::from),
        stream: field.get("stream").and_then(|field| field.yes_or_no()),
        ..Options::default()
    };
    (options, texts)
}

/// A number among the options. Another value is left out, with a warning: options are the agent's.
fn option<T: std::str::FromStr>(field: &Field<'_>) -> Option<T> {
    let number = field.plain().and_then(|text| text.trim().parse().ok());
    if number.is_none() {
        field.warning(Code::IgnoredKey, "ignored: expected a number".to_owned());
    }
    number
}

fn parallel(field: &Field<'_>) -> Option<ParsedKind> {
    let list = field.either(&["parallel", "branches", "steps"]);
    let strategy = field
        .get("strategy")
        .and_then(|field| field.one_of(&STRATEGIES))
        .unwrap_or_default();
    let most = field.get("max_concurrent");
    let most = most.and_then(|field| field.whole(0, u32::MAX));
    let Some(list) = list else {
        field.finding(Code::Malformed, "`branches` is missing".to_owned());
        return None;
    };
    let (mut branches, mut inner) = (Vec::new(), Vec::new());
    for item in list.items()? {
        if let Tree::Map(_) = &item.node.tree {
            let name = item.must("name").and_then(|field| field.text());
            if let Some(name) = name {
                inner.extend(state::read(&name, &item).unwrap_or_default());
                branches.push(name);
            }
        } else {
            branches.extend(item.text());
        }
    }
    if branches.is_empty() {
        list.finding(
            Code::Malformed,
            "a parallel state needs at least one branch".to_owned(),
        );
    }
    let most = most.filter(|most| *most > 0).unwrap_or(CONCURRENT);
    let most = most.min(MAX_CONCURRENT);
    Some(ParsedKind {
        kind: Kind::Parallel(Parallel {
            branches,
            strategy,
            max_concurrent: usize::try_from(most).unwrap_or(usize::MAX),
        }),
        inner,
    })
}

fn operation(field: &Field<'_>) -> Option<Kind> {
    let operation = field.must("operation")?;
    let text = operation.text()?;
    let (plugin, name) = match field.get("plugin") {
        Some(plugin) => (plugin.text()?, text),
        None => match text.split_once(['.', ':']) {
            Some((plugin, name)) => (plugin.to_owned(), name.to_owned()),
            None => {
                let what = format!("`{text}` does not name a plugin: write `plugin.operation`");
                operation.warning(Code::UnknownPlugin, what);
                (String::new(), text)
            }
        },
    };
    let inputs = inputs(field, &["inputs", "operation_inputs"])?;
    Some(Kind::Operation(Operation {
        plugin,
        operation: name,
        inputs,
        place: operation.node.place,
    }))
}

/// Parses every string in a value as a template.
fn templates(field: &Field<'_>, node: &Node) -> Option<Inputs> {
    match &node.tree {
        Tree::Leaf(serde_json::Value::String(text)) => match Template::read(text) {
            Ok(template) => Some(Inputs::Text(template)),
            Err(error) => {
                field.finding(Code::BadTemplate, error.to_string());
                None
            }
        },
        Tree::Leaf(value) => Some(Inputs::Value(value.clone())),
        Tree::List(nodes) => {
            let read: Option<Vec<Inputs>> =
                nodes.iter().map(|node| templates(field, node)).collect();
            read.map(Inputs::List)
        }
        Tree::Map(members) => {
            let one = |member: &crate::tree::Member| {
                Some((member.key.clone(), templates(field, &member.node)?))
            };
            let read: Option<Vec<(String, Inputs)>> = members.iter().map(one).collect();
            read.map(Inputs::Map)
        }
    }
}
