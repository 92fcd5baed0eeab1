//! Prepares a script for the interpreter: checks it, then rewrites it where the interpreter's Python differs from
//! the Python that agents write. Every rewrite keeps line numbers, so errors name the lines of the author.
//!
//! - `sites[0].name` becomes a call of a function that reads a key of a dict too.
//! - A top-level `return` becomes a call that ends the run.
//! - A tool call that is awaited, or passed to `asyncio.gather`, is marked: it returns a future.
//! - Functions and top-level names of a local pack are mangled, because all packs share one namespace.

mod bombs;
mod names;
mod refused;
mod rewrite;

use std::collections::HashSet;

use ruff_python_ast::{Expr, ModModule, Stmt};
use ruff_python_parser::{Parsed, parse_module};
use ruff_text_size::{Ranged, TextSize};

use crate::{Form, Limits, LocalPack};
use names::Names;
use rewrite::{Context, rewritten};

/// The prefix of generated names. Scripts cannot use it.
pub(crate) const OURS: &str = "_cg_";
/// Reads an attribute, or a key.
pub(crate) const ATTRIBUTE: &str = "_cg_attribute";
/// The variable by which a script chooses its result format.
const FORMAT: &str = "__format__";
/// Ends the run.
pub(crate) const RETURN: &str = "_cg_return";
/// The suffix of a tool's name whose call returns a future.
pub(crate) const LATER: &str = "__cg_later";
/// Separates a tool's name from the local pack that calls it.
pub(crate) const VIA: &str = "__cg_via_";

/// Python code that is run before every script.
pub(crate) const PRELUDE: &str = r#"
def _cg_attribute(value, name):
    if isinstance(value, dict):
        if name in value:
            return value[name]
        if hasattr(value, name):
            return getattr(value, name)
        keys = ", ".join([str(key) for key in list(value)[:20]])
        raise AttributeError("no `" + name + "` in this object; it has: " + keys)
    return getattr(value, name)
"#;

/// A script that passed all checks.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) code: String,
    /// Whether its last statement is an expression, whose value is the result.
    pub(crate) ends_with_value: bool,
    /// The names that it assigns at the top level, in order.
    pub(crate) assigned: Vec<String>,
    /// The result format from `__format__`.
    pub(crate) format: Option<Form>,
}

/// Why a script was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptRefused {
    pub(crate) message: String,
    pub(crate) line: Option<u32>,
}

/// A local pack that passed all checks.
#[derive(Debug)]
pub(crate) struct PreparedPack {
    pub(crate) name: String,
    pub(crate) code: String,
    /// Function names, as scripts call them.
    pub(crate) functions: HashSet<String>,
}

/// Checks and rewrites a script.
pub(crate) fn script(
    source: &str,
    packs: &[String],
    local: &[PreparedPack],
    limits: &Limits,
) -> Result<Prepared, ScriptRefused> {
    let parsed = checked_and_parsed(source, packs, limits)?;
    let names = Names::of(parsed.suite());
    let context = Context {
        source,
        names: &names,
        packs,
        local,
        own: None,
    };
    let code = rewritten(&parsed, &context);
    Ok(Prepared {
        format: format(source, parsed.suite())?,
        code,
        ends_with_value: matches!(parsed.suite().last(), Some(Stmt::Expr(_))),
        assigned: names.assigned,
    })
}

/// Checks and rewrites local packs. An error carries the name of its pack.
pub(crate) fn packs(
    written: &[LocalPack],
    packs: &[String],
    limits: &Limits,
) -> Result<Vec<PreparedPack>, (String, ScriptRefused)> {
    let mut prepared: Vec<PreparedPack> = Vec::new();
    let mut parsed = Vec::new();
    for pack in written {
        let wrong = |refused| (pack.name.clone(), refused);
        let tree = checked_and_parsed(&pack.source, packs, limits).map_err(wrong)?;
        let names = Names::of(tree.suite());
        prepared.push(PreparedPack {
            name: pack.name.clone(),
            code: String::new(),
            functions: names.functions.iter().cloned().collect(),
        });
        parsed.push((tree, names));
    }
    for (at, (tree, names)) in parsed.iter().enumerate() {
        let context = Context {
            source: &written[at].source,
            names,
            packs,
            local: &prepared,
            own: Some(&written[at].name),
        };
        let code = rewritten(tree, &context);
        prepared[at].code = code;
    }
    Ok(prepared)
}

/// The format from a top-level `__format__ = "..."`.
fn format(source: &str, suite: &[Stmt]) -> Result<Option<Form>, ScriptRefused> {
    let mut form = None;
    for stmt in suite {
        let Stmt::Assign(assign) = stmt else { continue };
        let is_format =
            |target: &Expr| matches!(target, Expr::Name(name) if name.id.as_str() == FORMAT);
        if !assign.targets.iter().any(is_format) {
            continue;
        }
        let word = match &*assign.value {
            Expr::StringLiteral(text) => text.value.to_str(),
            _ => "",
        };
        form = Some(Form::of(word).ok_or_else(|| ScriptRefused {
            message: format!("`{FORMAT}` can be \"json\", \"json_h\", \"yml\" or \"raw\""),
            line: Some(line_of(source, stmt.start())),
        })?);
    }
    Ok(form)
}

fn checked_and_parsed(
    source: &str,
    packs: &[String],
    limits: &Limits,
) -> Result<Parsed<ModModule>, ScriptRefused> {
    bombs::check(source, limits)?;
    let parsed = parse_module(source).map_err(|error| ScriptRefused {
        message: format!("SyntaxError: {}", error.error),
        line: Some(line_of(source, error.location.start())),
    })?;
    refused::check(source, parsed.suite(), packs, limits)?;
    Ok(parsed)
}

/// The line of an offset, counted from 1.
fn line_of(source: &str, offset: TextSize) -> u32 {
    let before = source.as_bytes().iter().take(offset.to_usize());
    let breaks = before.filter(|byte| **byte == b'\n').count();
    u32::try_from(breaks + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
