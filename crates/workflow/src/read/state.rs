//! Parses what all kinds of states have in common.

use callgate_agent::Budget;

use super::{
    budget,
    field::Field,
    hooks,
    kinds::{self, ParsedKind},
    loops, proxy,
};
use crate::{
    Backoff, Code, Ending, Kind, Retry, State, Status, Target, Transition,
    model::{Capture, EACH, StateHooks},
    template::Template,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Command,
    Agent,
    Terminal,
    Parallel,
    ForEach,
    While,
    Operation,
    Call,
}

pub(super) const TYPES: [(&str, Type); 9] = [
    ("step", Type::Command),
    ("command", Type::Command),
    ("agent", Type::Agent),
    ("terminal", Type::Terminal),
    ("parallel", Type::Parallel),
    ("for_each", Type::ForEach),
    ("while", Type::While),
    ("operation", Type::Operation),
    ("call_workflow", Type::Call),
];

/// The keys that all states have.
pub(super) const COMMON: [&str; 21] = [
    "name",
    "type",
    "description",
    "timeout",
    "retry",
    "transitions",
    "on_success",
    "on_failure",
    "on_complete",
    "continue_on_error",
    "dir",
    "depends_on",
    "mcp_proxy",
    "when",
    "loop",
    "hooks",
    "pre_hook",
    "post_hook",
    "capture",
    "budget",
    "tools",
];

pub(super) const STATUSES: [(&str, Status); 2] =
    [("success", Status::Success), ("failure", Status::Failure)];

/// The keys of `retry`.
pub(super) const RETRY: [&str; 7] = [
    "max_attempts",
    "initial_delay",
    "max_delay",
    "backoff",
    "multiplier",
    "jitter",
    "retryable_exit_codes",
];
pub(super) const BACKOFFS: [(&str, Backoff); 3] = [
    ("constant", Backoff::Constant),
    ("linear", Backoff::Linear),
    ("exponential", Backoff::Exponential),
];

/// A state, and the states that are defined inside of it.
pub(super) fn read(name: &str, field: &Field<'_>) -> Option<Vec<State>> {
    field.members()?;
    check_name(name, field);
    let kind = kind(field)?;
    let mut known = COMMON.to_vec();
    known.extend(kinds::keys(kind, field));
    field.only(&known, Code::UnknownKey);
    // Parsing continues after a finding, so that one pass reports all of them.
    let (kind, inner) = match kinds::read(kind, field) {
        Some(ParsedKind { kind, inner }) => (kind, inner),
        None => (unreadable(), Vec::new()),
    };
    let state = State {
        name: name.to_owned(),
        timeout: field
            .get("timeout")
            .or_else(|| field.get("call_workflow")?.get("timeout"))
            .and_then(|field| field.span())
            .filter(|span| !span.is_zero()),
        budget: budget::read(field),
        retry: field
            .get("retry")
            .map(|field| retry(&field))
            .unwrap_or_default(),
        transitions: transitions(field),
        on_success: target(field, "on_success", Status::Success)
            .or_else(|| target(field, "on_complete", Status::Success)),
        on_failure: target(field, "on_failure", Status::Failure),
        continue_on_error: flag(field, "continue_on_error"),
        dir: field.get("dir").and_then(|field| field.template()),
        depends_on: texts(field, "depends_on"),
        when: field.get("when").and_then(|field| field.late_condition()),
        hooks: hooks::of_state(field),
        capture: capture(field),
        proxy: proxy::of_state(field, matches!(kind, Kind::Agent(_))),
        place: field.node.place,
        file_place: file_place(field),
        path: field.path.clone(),
        kind,
    };
    let states = match field.get("loop") {
        Some(repeated) => each(state, &repeated),
        None => vec![state],
    };
    Some(states.into_iter().chain(inner).collect())
}

fn file_place(field: &Field<'_>) -> callgate_gate::Place {
    const KEYS: [&str; 3] = ["prompt_file", "script_file", "workflow"];
    let inside = field.either(&["agent", "call_workflow"]);
    let found = field.either(&KEYS).or_else(|| inside?.either(&KEYS));
    found.map_or(field.node.place, |found| found.node.place)
}

/// Stands for a kind with findings, which keep the workflow from running.
fn unreadable() -> Kind {
    Kind::Terminal(Ending {
        status: Status::Failure,
        message: None,
        exit_code: None,
    })
}

/// A state with `loop`: a loop whose body is the state itself.
fn each(state: State, field: &Field<'_>) -> Vec<State> {
    let Some(kind) = loops::repeated(&state.name, field) else {
        return vec![state];
    };
    let inner = State {
        name: format!("{}{EACH}", state.name),
        transitions: Vec::new(),
        on_success: None,
        on_failure: None,
        when: None,
        depends_on: Vec::new(),
        ..state.clone()
    };
    let outer = State {
        kind,
        timeout: None,
        retry: Retry::default(),
        hooks: StateHooks::default(),
        capture: Capture::default(),
        proxy: None,
        dir: None,
        budget: Budget::default(),
        ..state
    };
    vec![outer, inner]
}

fn capture(field: &Field<'_>) -> Capture {
    let Some(field) = field.get("capture") else {
        return Capture::default();
    };
    field.only(
        &["stdout", "stderr", "max_size", "encoding"],
        Code::UnknownKey,
    );
    let name = |key| field.get(key).and_then(|field: Field<'_>| field.text());
    if let Some(encoding) = field.get("encoding") {
        let text = encoding.text().unwrap_or_default().to_lowercase();
        if !["utf-8", "utf8"].contains(&text.as_str()) {
            let what = format!("`{text}` is ignored: outputs are read as UTF-8");
            encoding.warning(Code::IgnoredKey, what);
        }
    }
    Capture {
        stdout: name("stdout"),
        stderr: name("stderr"),
        max_bytes: field.get("max_size").and_then(|field| size(&field)),
    }
}

/// A number of bytes, such as `10MB`.
fn size(field: &Field<'_>) -> Option<usize> {
    const UNITS: [(&str, usize); 4] = [("KB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("B", 1)];
    let text = field.text()?.to_uppercase();
    let (digits, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((&text, 1));
    let bytes = digits.trim().parse::<usize>().ok();
    let bytes = bytes.and_then(|bytes| bytes.checked_mul(factor));
    if bytes.is_none() {
        let what = "ignored: expected a size such as `64KB` or `10MB`".to_owned();
        field.warning(Code::IgnoredKey, what);
    }
    bytes
}

fn texts(field: &Field<'_>, key: &str) -> Vec<String> {
    field
        .get(key)
        .map(|field| field.texts())
        .unwrap_or_default()
}

/// Refuses names that would make the keys of visits ambiguous, and warns of those that templates cannot spell.
fn check_name(name: &str, field: &Field<'_>) {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.contains(['/', '#', '@']) || name.contains(char::is_control) {
        let what = format!("`{name}` is not a valid state name: use letters, digits, `_` and `-`");
        field.finding(Code::Malformed, what);
    } else if !name.chars().all(is_part) {
        let what =
            format!("templates cannot name the state `{name}`: use letters, digits, `_` and `-`");
        field.warning(Code::BadTemplate, what);
    }
}

fn kind(field: &Field<'_>) -> Option<Type> {
    let written = match field.get("type") {
        Some(kind) => kind.one_of_any_case(&TYPES)?,
        None if field.get("agent").is_some() || field.get("provider").is_some() => Type::Agent,
        None if field.get("command").is_some() => Type::Command,
        None if field.get("script_file").is_some() => Type::Command,
        None if field.get("operation").is_some() => Type::Operation,
        None if field.either(&["workflow", "call_workflow"]).is_some() => Type::Call,
        None => {
            field.finding(Code::Malformed, "`type` is missing".to_owned());
            return None;
        }
    };
    // `type: step` with `agent` in it is an agent state.
    match written {
        Type::Command if field.get("agent").is_some() => Some(Type::Agent),
        Type::Command
        | Type::Agent
        | Type::Terminal
        | Type::Parallel
        | Type::ForEach
        | Type::While
        | Type::Operation
        | Type::Call => Some(written),
    }
}

fn flag(field: &Field<'_>, key: &str) -> bool {
    field.get(key).and_then(|field| field.yes_or_no()) == Some(true)
}

fn retry(field: &Field<'_>) -> Retry {
    field.only(&RETRY, Code::UnknownKey);
    let default = Retry::default();
    let span = |key| field.get(key).and_then(|field: Field<'_>| field.span());
    let bounded = |key: &str, least: f64, most: f64| {
        let field = field.get(key)?;
        let number = field.number()?;
        if (least..=most).contains(&number) {
            return Some(number);
        }
        let what = match most {
            f64::MAX => format!("expected a number from {least}"),
            most => format!("expected a number from {least} to {most}"),
        };
        field.finding(Code::Malformed, what);
        None
    };
    let codes = field.get("retryable_exit_codes");
    let codes = codes.and_then(|field| field.items()).unwrap_or_default();
    Retry {
        max_attempts: field
            .get("max_attempts")
            .and_then(|field| field.whole(1, u32::MAX))
            .unwrap_or(default.max_attempts),
        initial_delay: span("initial_delay").unwrap_or(default.initial_delay),
        max_delay: span("max_delay").unwrap_or(default.max_delay),
        backoff: field
            .get("backoff")
            .and_then(|field| field.one_of(&BACKOFFS))
            .unwrap_or_default(),
        multiplier: bounded("multiplier", 0.0, f64::MAX).unwrap_or(default.multiplier),
        jitter: bounded("jitter", 0.0, 1.0).unwrap_or(default.jitter),
        retryable_exit_codes: codes.iter().filter_map(Field::integer).collect(),
    }
}

fn transitions(field: &Field<'_>) -> Vec<Transition> {
    let Some(list) = field.get("transitions") else {
        return Vec::new();
    };
    let items = list.items().unwrap_or_default();
    let one = |item: &Field<'_>| {
        item.only(&["when", "goto"], Code::UnknownKey);
        let when = item.get("when");
        let read = when.as_ref().and_then(Field::condition);
        let goto = item.must("goto")?.text()?;
        // A transition with an invalid condition is dropped. Without its condition it would always be taken.
        if when.is_some() && read.is_none() {
            return None;
        }
        Some(Transition { when: read, goto })
    };
    items.iter().filter_map(one).collect()
}

/// The name of the next state, or an inline end with a message.
fn target(field: &Field<'_>, key: &str, default: Status) -> Option<Target> {
    let field = field.get(key)?;
    if field.node.get("message").is_none() && field.node.get("status").is_none() {
        let name = match key {
            // As AWF, which takes any other key for a text.
            "on_failure" => field.word(),
            _ => field.text(),
        };
        return name.map(Target::State);
    }
    field.only(&["message", "status"], Code::UnknownKey);
    if default == Status::Failure && field.get("message").is_none() {
        field.finding(Code::Malformed, "`message` is missing".to_owned());
    }
    // A number is the exit code of a failure.
    let code = field.get("status").filter(Field::is_number);
    let Some(code) = code else {
        return Some(Target::End(ending(&field, default)));
    };
    let exit_code = code.integer().and_then(|code| u8::try_from(code).ok());
    if exit_code.is_none() {
        let what = "ignored: an exit code is a number from 0 to 255".to_owned();
        code.warning(Code::IgnoredKey, what);
    }
    Some(Target::End(Ending {
        status: Status::Failure,
        message: field.get("message").and_then(|field| field.template()),
        exit_code: exit_code.filter(|code| *code > 0),
    }))
}

pub(super) fn ending(field: &Field<'_>, default: Status) -> Ending {
    let message: Option<Template> = field.get("message").and_then(|field| field.template());
    let status = field.get("status");
    let status = status.and_then(|field| match field.path.ends_with("on_failure.status") {
        // AWF reads only numbers there.
        true => field.known(&STATUSES),
        false => field.one_of(&STATUSES),
    });
    Ending {
        status: status.unwrap_or(default),
        message,
        exit_code: None,
    }
}
