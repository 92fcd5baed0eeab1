//! CEL as policies and workflows share it: parsed at load, bounded in length and nesting, with known functions only.
//!
//! The user decides which names an expression may use and how much data it may see.

use cel::{Env, Program};

mod inspect;
mod matching;

/// The longest expression, in bytes.
pub const MAX_TEXT: usize = 4096;

/// An expression that was parsed and inspected.
#[derive(Debug)]
pub struct Parsed {
    pub program: Program,
    /// Each variable with the fields selected from it: `args.a.b` is `[args, a, b]`. The user must check these.
    pub names: Vec<Vec<String>>,
    /// The nesting depth of its loops.
    pub loops: usize,
    /// Whether it constructs strings, lists or maps, which loops could multiply.
    pub builds: bool,
}

/// Why a text is not an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadExpression {
    pub what: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// The standard functions, with a `matches` that caches compiled patterns.
pub fn environment() -> Env {
    let mut environment = Env::stdlib();
    matching::declare(&mut environment);
    environment
}

/// Refuses a text that is too long or too deeply nested to parse.
pub fn check_bounds(text: &str) -> Result<(), BadExpression> {
    if text.len() > MAX_TEXT || inspect::nesting(text) > inspect::MAX_NESTING {
        return Err(BadExpression::new(format!(
            "the expression is longer than {MAX_TEXT} bytes or nests deeper than {}",
            inspect::MAX_NESTING
        )));
    }
    Ok(())
}

/// Parses an expression within the bounds and inspects it.
pub fn parse(text: &str, environment: &Env) -> Result<Parsed, BadExpression> {
    // Before parsing: the parser is recursive, and deep nesting would overflow its stack.
    check_bounds(text)?;
    let program = environment.compile(text).map_err(|errors| {
        let first = errors.errors.first();
        let why = first.map_or_else(|| errors.to_string(), |error| error.msg.clone());
        let why = why.lines().next().unwrap_or_default();
        BadExpression::new(format!("bad expression: {why}"))
    })?;
    let found = inspect::inspect(program.expression())?;
    Ok(Parsed {
        program,
        names: found.names,
        loops: found.loops,
        builds: found.builds,
    })
}

impl BadExpression {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            help: None,
        }
    }
}
