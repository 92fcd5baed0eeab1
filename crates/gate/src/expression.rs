//! CEL as policies and workflows share it: parsed at load, bounded in length and nesting, with known functions only.
//!
//! Which names an expression may use, and how much data it may see, is up to its user.

use cel::{Env, Program};

mod inspect;
mod matching;

/// The longest expression, in bytes.
pub const MAX_TEXT: usize = 4096;

/// An expression that was parsed and inspected.
#[derive(Debug)]
pub struct Parsed {
    /// What is executed.
    pub program: Program,
    /// Each variable with the fields selected from it: `args.a.b` is `[args, a, b]`. The user checks these.
    pub names: Vec<Vec<String>>,
    /// How deep loops nest.
    pub loops: usize,
    /// Whether it makes texts, lists or maps of its own, which loops could multiply.
    pub builds: bool,
}

/// Why a text is not an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadExpression {
    /// What is wrong.
    pub what: String,
    /// What to do about it, where that is known.
    pub help: Option<String>,
}

/// The standard functions, with a `matches` that keeps what it compiled.
pub fn environment() -> Env {
    let mut environment = Env::stdlib();
    matching::declare(&mut environment);
    environment
}

/// Refuses a text that is too long or nests too deep to be parsed.
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
