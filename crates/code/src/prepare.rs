//! Makes of a script what the interpreter gets: looked at first, then changed where the interpreter's Python is
//! not the one that agents write. Every change keeps the lines where they are.
//!
//! - `sites[0].name` becomes a call of a function that reads a key of a dict too.
//! - A top-level `return` becomes a call that ends the run.
//! - A call of a tool that is awaited, or handed to `asyncio.gather`, is marked: it gives a future.
//! - A local pack's functions, and its own names, get names that nothing else has.

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

/// What our own names in a script begin with; scripts cannot use such.
pub(crate) const OURS: &str = "_cg_";
/// Reads an attribute, or a key.
pub(crate) const ATTRIBUTE: &str = "_cg_attribute";
/// Says how the result is shown.
const FORMAT: &str = "__format__";
/// Ends the run.
pub(crate) const RETURN: &str = "_cg_return";
/// Marks a tool's name: the call gives a future.
pub(crate) const LATER: &str = "__cg_later";
/// Marks a tool's name: what follows is the local pack that calls it.
pub(crate) const VIA: &str = "__cg_via_";

/// What every script can use besides packs.
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

/// A script that can be run.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) code: String,
    /// Whether its last statement is an expression, whose value is the result.
    pub(crate) ends_with_value: bool,
    /// The names it assigns at the top, in order.
    pub(crate) assigned: Vec<String>,
    /// How it wants its result shown, by its `__format__`.
    pub(crate) format: Option<Form>,
}

/// Why a script is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) message: String,
    pub(crate) line: Option<u32>,
}

/// A local pack that can be used.
#[derive(Debug)]
pub(crate) struct PreparedPack {
    pub(crate) name: String,
    pub(crate) code: String,
    /// Its functions, as scripts call them.
    pub(crate) functions: HashSet<String>,
}

/// Looks at a script and changes it.
pub(crate) fn script(
    source: &str,
    packs: &[String],
    local: &[PreparedPack],
    limits: &Limits,
) -> Result<Prepared, Refused> {
    let parsed = looked_at(source, packs, limits)?;
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

/// The same for local packs. One that is broken says so when it is used, so here it is an error of its own.
pub(crate) fn packs(
    written: &[LocalPack],
    packs: &[String],
    limits: &Limits,
) -> Result<Vec<PreparedPack>, (String, Refused)> {
    let mut prepared: Vec<PreparedPack> = Vec::new();
    let mut parsed = Vec::new();
    for pack in written {
        let wrong = |refused| (pack.name.clone(), refused);
        let tree = looked_at(&pack.source, packs, limits).map_err(wrong)?;
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

/// What a top-level `__format__ = "..."` says.
fn format(source: &str, suite: &[Stmt]) -> Result<Option<Form>, Refused> {
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
        form = Some(Form::of(word).ok_or_else(|| Refused {
            message: format!("`{FORMAT}` can be \"json\", \"json_h\", \"yml\" or \"raw\""),
            line: Some(line_of(source, stmt.start())),
        })?);
    }
    Ok(form)
}

fn looked_at(
    source: &str,
    packs: &[String],
    limits: &Limits,
) -> Result<Parsed<ModModule>, Refused> {
    bombs::look(source, limits)?;
    let parsed = parse_module(source).map_err(|error| Refused {
        message: format!("SyntaxError: {}", error.error),
        line: Some(line_of(source, error.location.start())),
    })?;
    refused::look(source, parsed.suite(), packs, limits)?;
    Ok(parsed)
}

/// The line that an offset is in, from 1.
fn line_of(source: &str, offset: TextSize) -> u32 {
    let before = source.as_bytes().iter().take(offset.to_usize());
    let breaks = before.filter(|byte| **byte == b'\n').count();
    u32::try_from(breaks + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
