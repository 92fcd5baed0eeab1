//! Parses the kinds of states: the keys that each has beyond the common ones.

use callgate_agent::{AgentKind, Options};

use super::{
    field::Field,
    state::{self, Type, ending},
};
use crate::{
    Agent, Code, Kind, Loop, Operation, OutputFormat, Parallel, State, Status, Strategy,
    model::{Command, Inputs, Item, Items, LoopOver, Prompt},
    template::Template,
    tree::{Node, Tree},
};

/// The limit of `max_concurrent`, and its default.
const MAX_CONCURRENT: u32 = 64;
/// The default of `max_iterations`.
const ITERATIONS: u32 = 100;
/// The limit of `max_iterations`.
const MAX_ITERATIONS: u32 = 10_000;

const FORMATS: [(&str, OutputFormat); 2] =
    [("text", OutputFormat::Text), ("json", OutputFormat::Json)];
const STRATEGIES: [(&str, Strategy); 3] = [
    ("all_succeed", Strategy::AllSucceed),
    ("any_succeed", Strategy::AnySucceed),
    ("best_effort", Strategy::BestEffort),
];
/// The keys of an agent, on the state itself or below `agent`.
const AGENT: [&str; 5] = [
    "provider",
    "prompt",
    "prompt_file",
    "options",
    "output_format",
];
/// Options that are templates.
const TEXTS: [&str; 7] = [
    "model",
    "permission_mode",
    "approval_mode",
    "sandbox",
    "base_url",
    "api_key",
    "system_prompt",
];
const OTHERS: [&str; 6] = [
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
pub(super) fn keys(kind: Type, field: &Field<'_>) -> Vec<&'static str> {
    match kind {
        Type::Command => vec!["command", "output_format"],
        Type::Agent if field.get("agent").is_some() => vec!["agent"],
        Type::Agent => AGENT.to_vec(),
        Type::Terminal => vec!["status", "message"],
        Type::Parallel => vec![
            "parallel",
            "branches",
            "steps",
            "strategy",
            "max_concurrent",
        ],
        Type::ForEach => vec!["items", "body", "max_iterations", "break_when"],
        Type::While => vec!["while", "body", "max_iterations", "break_when"],
        Type::Operation => vec!["plugin", "operation", "inputs"],
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
    }
}

fn command(field: &Field<'_>) -> Option<Kind> {
    let command = field.must("command").and_then(|field| field.template());
    let output_format = output_format(field);
    Some(Kind::Command(Command {
        command: command?,
        output_format,
    }))
}

fn output_format(field: &Field<'_>) -> OutputFormat {
    let format = field.get("output_format");
    format
        .and_then(|field| field.one_of(&FORMATS))
        .unwrap_or_default()
}

fn agent(field: &Field<'_>) -> Option<Kind> {
    let provider = field.must("provider").and_then(|field| provider(&field));
    let prompt = match (field.get("prompt"), field.get("prompt_file")) {
        (Some(prompt), None) => prompt.template().map(Prompt::Text),
        (None, Some(file)) => file.template().map(Prompt::File),
        (Some(_), Some(file)) => {
            let what = "use either `prompt` or `prompt_file`, not both".to_owned();
            file.finding(Code::WrongType, what);
            None
        }
        (None, None) => {
            field.finding(Code::Missing, "`prompt` is missing".to_owned());
            None
        }
    };
    let (options, texts) = field
        .get("options")
        .map(|field| options(&field))
        .unwrap_or_default();
    let output_format = output_format(field);
    Some(Kind::Agent(Box::new(Agent {
        provider: provider?,
        prompt: prompt?,
        options,
        texts,
        output_format,
    })))
}

fn provider(field: &Field<'_>) -> Option<AgentKind> {
    let read = field.text()?.parse::<AgentKind>();
    read.map_err(|error| field.finding(Code::WrongType, error.to_string()))
        .ok()
}

type Texts = Vec<(&'static str, Template)>;

fn options(field: &Field<'_>) -> (Options, Texts) {
    let known: Vec<&str> = TEXTS.into_iter().chain(OTHERS).collect();
    field.only(&known, Code::UnknownKey);
    let text = |key: &'static str| Some((key, field.get(key)?.template()?));
    let texts = TEXTS.into_iter().filter_map(text).collect();
    let number = |key| field.get(key).and_then(|field: Field<'_>| field.number());
    let whole = |key, most| {
        field
            .get(key)
            .and_then(|field: Field<'_>| field.whole(1, most))
    };
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
        max_completion_tokens: whole("max_completion_tokens", u32::MAX).map(u64::from),
        stream: field.get("stream").and_then(|field| field.yes_or_no()),
        ..Options::default()
    };
    (options, texts)
}

fn parallel(field: &Field<'_>) -> Option<ParsedKind> {
    let list = ["parallel", "branches", "steps"]
        .into_iter()
        .find_map(|key| field.get(key));
    let strategy = field
        .get("strategy")
        .and_then(|field| field.one_of(&STRATEGIES))
        .unwrap_or_default();
    let most = field.get("max_concurrent");
    let most = most.and_then(|field| field.whole(1, MAX_CONCURRENT));
    let Some(list) = list else {
        field.finding(Code::Missing, "`branches` is missing".to_owned());
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
            Code::Missing,
            "a parallel state needs at least one branch".to_owned(),
        );
    }
    let most = most.unwrap_or(MAX_CONCURRENT);
    Some(ParsedKind {
        kind: Kind::Parallel(Parallel {
            branches,
            strategy,
            max_concurrent: usize::try_from(most).unwrap_or(usize::MAX),
        }),
        inner,
    })
}

fn for_each(field: &Field<'_>) -> Option<Kind> {
    let items = field
        .must("items")
        .and_then(|items| match &items.node.tree {
            Tree::List(_) => {
                let read: Option<Vec<Item>> = items.items()?.iter().map(item).collect();
                Some(Items::List(read?))
            }
            Tree::Leaf(_) | Tree::Map(_) => items.template().map(Items::Template),
        });
    around(field, items.map(LoopOver::Items))
}

fn item(field: &Field<'_>) -> Option<Item> {
    match &field.node.tree {
        Tree::Leaf(serde_json::Value::String(_)) => field.template().map(Item::Template),
        Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => Some(Item::Value(field.node.to_value())),
    }
}

fn while_holds(field: &Field<'_>) -> Option<Kind> {
    let condition = field.must("while").and_then(|field| field.condition());
    around(field, condition.map(LoopOver::While))
}

fn around(field: &Field<'_>, over: Option<LoopOver>) -> Option<Kind> {
    let body = field.must("body").map(|field| field.texts());
    let most = field.get("max_iterations");
    let most = most.and_then(|field| field.whole(1, MAX_ITERATIONS));
    let stop = field.get("break_when");
    let break_when = stop.as_ref().and_then(Field::condition);
    if stop.is_some() && break_when.is_none() {
        return None;
    }
    Some(Kind::Loop(Loop {
        over: over?,
        body: body?,
        max_iterations: most.unwrap_or(ITERATIONS),
        break_when,
    }))
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
                operation.finding(Code::WrongType, what);
                return None;
            }
        },
    };
    let given = field.get("inputs");
    let inputs = match &given {
        Some(given) => {
            given.members()?;
            templates(given, given.node)?
        }
        None => Inputs::Map(Vec::new()),
    };
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
