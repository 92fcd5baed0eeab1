//! Conditions: CEL over `inputs`, `states`, `env`, `vars`, `workflow`, `loop`, `error` and `context`.
//!
//! Evaluating a path without a value fails the whole condition, whatever its other parts are; only `has` tests for
//! one. Variables that are not set and inputs without a value are `null`. Every path becomes a variable of its own, so CEL sees no more of a run than the paths name.

use std::sync::{Arc, OnceLock};

use callgate_gate::expression::{self, BadExpression};
use cel::{
    Context, Env, ExecutionError, Program,
    common::{
        types::{CelBool, DYN_TYPE, LIST_TYPE},
        value::{CowVal, Val},
    },
    context::VariableResolver,
    objects::{Key, Map},
};
use serde_json::Value;

use crate::template::Lookup;

mod translation;

use translation::{PathUse, Translated};

/// The most input for a condition that has a loop or builds values: text counts by its bytes, and each value as
/// [`VALUE_WEIGHT`]. Other conditions run in time linear in their input and have no limit.
const MAX_WEIGHT: usize = 64 << 10;
const VALUE_WEIGHT: usize = 64;
/// Longer error texts are cut: they may quote whole values.
const MAX_ERROR_CHARS: usize = 200;

#[derive(Debug, Clone)]
pub(crate) struct Expression {
    text: String,
    /// Why there is no program, for a condition that may stay in a workflow until it is needed.
    program: Result<Arc<Program>, ExpressionError>,
    uses: Vec<PathUse>,
    /// The prefix of the variables' names; their number in `uses` follows.
    prefix: String,
    is_limited: bool,
}

/// Why a condition does not compile, or cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionError {
    #[error("the condition is empty")]
    Empty,
    #[error("{0}")]
    Bad(String),
    #[error("`{0}` has no value")]
    Missing(String),
    #[error("a condition that loops or builds values can see at most {} KiB", MAX_WEIGHT >> 10)]
    TooLarge,
    #[error("the condition must be true or false, but its value has type {0}")]
    NotBoolean(String),
    #[error("the condition failed: {0}")]
    Failed(String),
}

/// The values of a condition's paths during one evaluation.
struct ConditionValues<'a> {
    prefix: &'a str,
    values: Vec<Option<Box<dyn Val>>>,
    /// The first evaluated path without a value. CEL's own error would be lost in `missing || true`.
    missing: OnceLock<usize>,
}

impl Expression {
    pub(crate) fn read(text: &str) -> Result<Self, ExpressionError> {
        if text.trim().is_empty() {
            return Err(ExpressionError::Empty);
        }
        expression::check_bounds(text)?;
        let Translated { cel, prefix, uses } = translation::translate(text);
        let parsed = expression::parse(&cel, environment()).map_err(|mut bad| {
            for (at, used) in uses.iter().enumerate().rev() {
                let path = used.path.join(".");
                bad.what = bad.what.replace(&format!("{prefix}{at}"), &path);
            }
            bad
        })?;
        if let Some(name) = parsed
            .names
            .iter()
            .find(|name| !name[0].starts_with(&prefix))
        {
            let name = name.join(".");
            return Err(ExpressionError::Bad(format!(
                "unknown name `{name}`; names are inputs.NAME, states.NAME.Output, env.NAME, vars.NAME, workflow.id, loop.item, error.Message and context.User"
            )));
        }
        if parsed.loops > 1 || (parsed.loops > 0 && parsed.builds) {
            let what = "loops cannot nest, and a condition with a loop cannot use `map`, `filter` or `+`, nor build lists and maps";
            return Err(ExpressionError::Bad(what.to_owned()));
        }
        Ok(Self {
            text: text.trim().to_owned(),
            program: Ok(Arc::new(parsed.program)),
            uses,
            prefix,
            is_limited: parsed.loops > 0 || parsed.builds,
        })
    }

    /// A condition that does not compile: it fails whenever it is evaluated.
    pub(crate) fn unreadable(text: &str, why: ExpressionError) -> Self {
        Self {
            text: text.trim().to_owned(),
            program: Err(why),
            uses: Vec::new(),
            prefix: String::new(),
            is_limited: false,
        }
    }

    pub(crate) fn holds(&self, scope: &dyn Lookup) -> Result<bool, ExpressionError> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        let mut lacks_value = false;
        let look_up = |used: &PathUse| match scope.look_up(&used.path) {
            found if used.is_tested => Some(Value::Bool(found.is_some())),
            None if is_optional(&used.path) => {
                lacks_value = true;
                Some(Value::Null)
            }
            found => found,
        };
        let values: Vec<Option<Value>> = self.uses.iter().map(look_up).collect();
        if self.is_limited && values.iter().flatten().map(weight).sum::<usize>() > MAX_WEIGHT {
            return Err(ExpressionError::TooLarge);
        }
        let seen = ConditionValues {
            prefix: &self.prefix,
            values: values.into_iter().map(|value| value.map(boxed)).collect(),
            missing: OnceLock::new(),
        };
        let mut context = Context::with_env(Arc::clone(environment()));
        context.set_variable_resolver(&seen);
        let result = program.execute(&context);
        if let Some(at) = seen.missing.get() {
            return Err(ExpressionError::Missing(self.uses[*at].path.join(".")));
        }
        match result {
            Ok(cel::Value::Bool(holds)) => Ok(holds),
            // Nothing has an order, a part or a length.
            Err(_) if lacks_value => Ok(false),
            Ok(other) => Err(ExpressionError::NotBoolean(other.type_of().to_string())),
            Err(error) => {
                let text = error.to_string().chars().take(MAX_ERROR_CHARS).collect();
                Err(ExpressionError::Failed(text))
            }
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn paths(&self) -> Vec<&[String]> {
        self.uses.iter().map(|used| used.path.as_slice()).collect()
    }
}

/// Whether a value may be absent without a mistake in the file: variables of the environment, and inputs without a
/// value. It is `null` then.
fn is_optional(path: &[String]) -> bool {
    matches!(path, [root, _] if root == "env" || root == "inputs")
}

impl From<BadExpression> for ExpressionError {
    fn from(bad: BadExpression) -> Self {
        let help = bad.help.map(|help| format!("; {help}")).unwrap_or_default();
        Self::Bad(format!("{}{help}", bad.what))
    }
}

impl VariableResolver for ConditionValues<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let at: usize = variable.strip_prefix(self.prefix)?.parse().ok()?;
        let value = self.values.get(at)?.as_deref();
        if value.is_none() {
            self.missing.get_or_init(|| at);
        }
        value.map(CowVal::Borrowed)
    }
}

/// The CEL functions of the policy language, and `contains` for lists.
fn environment() -> &'static Arc<Env> {
    static ENVIRONMENT: OnceLock<Arc<Env>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = expression::environment();
        environment
            .add_member_overload(
                "contains",
                "list_contains",
                LIST_TYPE,
                vec![DYN_TYPE],
                list_contains,
            )
            .expect("the standard `contains` is about texts");
        Arc::new(environment)
    })
}

fn list_contains<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let [list, item] = arguments.as_slice() else {
        return Err(ExecutionError::invalid_argument_count(2, arguments.len()));
    };
    let list = list
        .as_container()
        .ok_or(ExecutionError::MissingArgumentOrTarget)?;
    let holds = list.contains(item.as_ref())?;
    Ok(CowVal::owned(CelBool::from(holds)))
}

fn weight(value: &Value) -> usize {
    VALUE_WEIGHT
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(members) => members
                .iter()
                .map(|(key, value)| key.len() + weight(value))
                .sum(),
        }
}

fn boxed(value: Value) -> Box<dyn Val> {
    converted(value)
        .try_into()
        .expect("strings, numbers, lists and maps are values")
}

/// Not `cel::to_value`: it makes every non-negative integer unsigned, and then `n + 1` fails.
fn converted(value: Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(truth) => cel::Value::Bool(truth),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => cel::Value::Int(whole),
            (None, Some(whole)) => cel::Value::UInt(whole),
            (None, None) => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => cel::Value::String(Arc::new(text)),
        Value::Array(items) => {
            cel::Value::List(Arc::new(items.into_iter().map(converted).collect()))
        }
        Value::Object(members) => {
            let entry = |(key, value)| (Key::String(Arc::new(key)), converted(value));
            cel::Value::Map(Map {
                map: Arc::new(members.into_iter().map(entry).collect()),
            })
        }
    }
}

#[cfg(test)]
mod tests;
