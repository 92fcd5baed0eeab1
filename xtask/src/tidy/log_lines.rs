//! A log line is written in one of two places: by an event in `crates/call/src/events/`, or by a function in its room's
//! `src/log.rs`. No other source of a room names a macro of `tracing` that writes one.

use super::{File, Tree};

/// The macros that write a line; spans are not lines.
const MACROS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "event"];

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let sources = tree.with_extension(".rs").filter(|file| is_closed(file));
    sources.flat_map(named).collect()
}

/// True for sources of rooms in which no log line stands.
fn is_closed(file: &File) -> bool {
    let parts: Vec<&str> = file.path.split('/').collect();
    match parts[..] {
        ["crates", _, "src", "log.rs"] | ["crates", "call", "src", "events", ..] => false,
        ["crates", _, "src", ..] => true,
        _ => false,
    }
}

/// The places that name such a macro. A macro that is called by its bare name is found where it is imported.
fn named(file: &File) -> Vec<String> {
    let line = |at: usize| file.text[..at].matches('\n').count() + 1;
    let mut found = Vec::new();
    for (at, word) in file.text.match_indices("tracing") {
        let before = &file.text[..at];
        let after = &file.text[at + word.len()..];
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        if before.ends_with(is_part) || after.starts_with(is_part) {
            continue;
        }
        let what = match after.trim_start().strip_prefix("::") {
            Some(path) => names(path.trim_start())
                .into_iter()
                .find(|name| is_line(name)),
            None => renames(before, after).then_some("tracing"),
        };
        if let Some(what) = what {
            found.push(format!(
                "{}:{}: `{what}` of tracing outside an event and the room's log.rs",
                file.path,
                line(at)
            ));
        }
    }
    found
}

/// True where the whole crate gets another name, or its macros come in without one.
fn renames(before: &str, after: &str) -> bool {
    after.trim_start().starts_with("as ") || before.ends_with("extern crate ")
}

/// The name behind `tracing::`, or all those in the braces of an import.
fn names(path: &str) -> Vec<&str> {
    let is_outside = |c: char| !(c.is_alphanumeric() || c == '_' || c == '*');
    match path.strip_prefix('{') {
        Some(group) => {
            let import = group.split(';').next().unwrap_or_default();
            import.split(is_outside).collect()
        }
        None => path.split(is_outside).take(1).collect(),
    }
}

/// `*` brings all macros, and `self` a way to them under another name.
fn is_line(name: &str) -> bool {
    MACROS.contains(&name) || matches!(name, "*" | "self")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
    }

    #[test]
    fn each_way_to_name_a_macro_is_found_with_its_line() {
        for (bad, what) in [
            ("fn a() {\n    tracing::warn!(x, \"y\");\n}", "warn"),
            ("\nuse tracing::warn;\nfn a() { warn!(\"y\"); }", "warn"),
            ("\nuse tracing::{Level, error as e};", "error"),
            (
                "\nuse tracing::{\n    field::{Field, Visit},\n    info,\n};",
                "info",
            ),
            ("\nuse tracing::*;", "*"),
            ("\nuse tracing::{self as t};", "self"),
            ("\nuse tracing as t;", "tracing"),
            ("#[macro_use]\nextern crate tracing;", "tracing"),
            ("\n::tracing::event!(Level::INFO, \"y\");", "event"),
        ] {
            let expected = format!(
                "crates/a/src/b.rs:2: `{what}` of tracing outside an event and the room's log.rs"
            );
            assert_eq!(found("crates/a/src/b.rs", bad), [expected], "{bad}");
        }
    }

    #[test]
    fn events_the_log_file_spans_and_subscribers_pass() {
        let line = "fn a() { tracing::warn!(\"y\"); }";
        for path in [
            "crates/a/src/log.rs",
            "crates/call/src/events/calls.rs",
            "crates/a/tests/it/main.rs",
            "xtask/src/a.rs",
        ] {
            assert_eq!(found(path, line), Vec::<String>::new(), "{path}");
        }
        for path in ["crates/a/src/b/log.rs", "crates/a/src/events/b.rs"] {
            assert_eq!(found(path, line).len(), 1, "{path}");
        }
        for good in [
            "use tracing::{Event, Level, field::{Field, Visit}};",
            "use tracing::field::debug;",
            "let span = tracing::info_span!(\"x\");",
            "use tracing_subscriber::fmt;",
            "my_tracing::warn!();",
        ] {
            assert_eq!(
                found("crates/a/src/b.rs", good),
                Vec::<String>::new(),
                "{good}"
            );
        }
    }
}
