//! Parses what all kinds of states have in common.

use super::{
    field::Field,
    kinds::{self, ParsedKind},
    proxy,
};
use crate::{Backoff, Code, Ending, Retry, State, Status, Target, Transition, template::Template};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Command,
    Agent,
    Terminal,
    Parallel,
    ForEach,
    While,
    Operation,
}

const TYPES: [(&str, Type); 8] = [
    ("step", Type::Command),
    ("command", Type::Command),
    ("agent", Type::Agent),
    ("terminal", Type::Terminal),
    ("parallel", Type::Parallel),
    ("for_each", Type::ForEach),
    ("while", Type::While),
    ("operation", Type::Operation),
];

/// The keys that all states have.
const COMMON: [&str; 13] = [
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
];

/// The limit of `retry.max_attempts`.
const MAX_ATTEMPTS: u32 = 1000;

const STATUSES: [(&str, Status); 4] = [
    ("success", Status::Success),
    ("failure", Status::Failure),
    ("succeeded", Status::Success),
    ("failed", Status::Failure),
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
    let written = kinds::read(kind, field);
    let state = State {
        name: name.to_owned(),
        timeout: field
            .get("timeout")
            .and_then(|field| field.span())
            .filter(|span| !span.is_zero()),
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
        depends_on: field
            .get("depends_on")
            .map(|field| field.texts())
            .unwrap_or_default(),
        proxy: field
            .get("mcp_proxy")
            .map(|field| proxy::read(&field, kind == Type::Agent)),
        place: field.node.place,
        kind: match &written {
            Some(written) => written.kind.clone(),
            None => crate::Kind::Terminal(Ending {
                status: Status::Failure,
                message: None,
            }),
        },
    };
    let inner = written.map(|ParsedKind { inner, .. }| inner);
    Some(
        [state]
            .into_iter()
            .chain(inner.unwrap_or_default())
            .collect(),
    )
}

/// Restricts names to characters that are safe in paths and templates.
fn check_name(name: &str, field: &Field<'_>) {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || !name.chars().all(is_part) {
        let what = format!("`{name}` is not a valid state name: use letters, digits, `_` and `-`");
        field.finding(Code::WrongType, what);
    }
}

fn kind(field: &Field<'_>) -> Option<Type> {
    let written = match field.get("type") {
        Some(kind) => kind.one_of(&TYPES)?,
        None if field.get("agent").is_some() || field.get("provider").is_some() => Type::Agent,
        None if field.get("command").is_some() => Type::Command,
        None if field.get("operation").is_some() => Type::Operation,
        None => {
            field.finding(Code::Missing, "`type` is missing".to_owned());
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
        | Type::Operation => Some(written),
    }
}

fn flag(field: &Field<'_>, key: &str) -> bool {
    field.get(key).and_then(|field| field.yes_or_no()) == Some(true)
}

fn retry(field: &Field<'_>) -> Retry {
    const KEYS: [&str; 7] = [
        "max_attempts",
        "initial_delay",
        "max_delay",
        "backoff",
        "multiplier",
        "jitter",
        "retryable_exit_codes",
    ];
    const BACKOFFS: [(&str, Backoff); 3] = [
        ("constant", Backoff::Constant),
        ("linear", Backoff::Linear),
        ("exponential", Backoff::Exponential),
    ];
    field.only(&KEYS, Code::UnknownKey);
    let default = Retry::default();
    let span = |key| field.get(key).and_then(|field: Field<'_>| field.span());
    let bounded = |key: &str, least: f64, most: f64| {
        let field = field.get(key)?;
        let number = field.number()?;
        if (least..=most).contains(&number) {
            return Some(number);
        }
        let what = format!("expected a number from {least} to {most}");
        field.finding(Code::WrongType, what);
        None
    };
    let codes = field.get("retryable_exit_codes");
    let codes = codes.and_then(|field| field.items()).unwrap_or_default();
    Retry {
        max_attempts: field
            .get("max_attempts")
            .and_then(|field| field.whole(1, MAX_ATTEMPTS))
            .unwrap_or(default.max_attempts),
        initial_delay: span("initial_delay").unwrap_or(default.initial_delay),
        max_delay: span("max_delay").unwrap_or(default.max_delay),
        backoff: field
            .get("backoff")
            .and_then(|field| field.one_of(&BACKOFFS))
            .unwrap_or_default(),
        multiplier: bounded("multiplier", 1.0, 1000.0).unwrap_or(default.multiplier),
        jitter: bounded("jitter", 0.0, 1.0).unwrap_or(default.jitter),
        retryable_exit_codes: codes
            .iter()
            .filter_map(|field| field.whole(0, 255))
            .map(i64::from)
            .collect(),
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
        return field.text().map(Target::State);
    }
    field.only(&["message", "status"], Code::UnknownKey);
    Some(Target::End(ending(&field, default)))
}

pub(super) fn ending(field: &Field<'_>, default: Status) -> Ending {
    let status = field
        .get("status")
        .and_then(|field| field.one_of(&STATUSES));
    let message: Option<Template> = field.get("message").and_then(|field| field.template());
    Ending {
        status: status.unwrap_or(default),
        message,
    }
}
