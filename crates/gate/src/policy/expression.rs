//! `when`: CEL expressions over `tool`, `args`, `intent`, `agent` and `session`.
//!
//! They are parsed and inspected at load. At run time they see the bytes that the server will see; arguments
//! that parsers read differently make the expression fail.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
};

use callgate_wire::{Json, JsonKind};
use cel::{
    Context, Env, Program, Value,
    common::value::{CowVal, Val},
    context::VariableResolver,
    objects::{Key, Map},
};

use super::{builtin::looks_destructive, projection::Action};
use crate::{
    CallerIdentity, DeclaredIntent, Hints, Target,
    expression::{self, BadExpression},
    problem::nearest,
};

/// Larger integers are rounded by parsers that only have floating-point numbers.
const EXACT: i64 = 1 << 53;
/// The most values in the arguments, by the nesting depth of the expression's loops.
const MAX_VALUES: [usize; 3] = [10_000, 10_000, 1000];
/// The most bytes of arguments, likewise.
const MAX_BYTES: [usize; 3] = [4 << 20, 1 << 20, 64 << 10];

/// The names that an expression may use.
const VARIABLES: [&str; 5] = ["tool", "args", "intent", "agent", "session"];
/// The fields of `tool`.
const TOOL_FIELDS: [&str; 5] = ["server", "name", "destructive", "read_only", "annotated"];
/// The fields of `intent`.
const INTENT_FIELDS: [&str; 4] = ["operation_type", "inferred", "data_sensitivity", "reason"];
/// The sensitivity of a call that declares none.
const UNSAID_SENSITIVITY: &str = "unknown";

pub(super) struct Expression {
    text: String,
    program: Program,
    uses_arguments: bool,
    /// The nesting depth of its loops.
    loops: usize,
}

/// Why an expression has no value for a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoValue {
    /// Two keys differ only in case.
    #[error("two keys of the arguments differ only in case")]
    Twins,
    /// A text that readers can read differently.
    #[error("a text in the arguments has half of a surrogate pair")]
    Unreadable,
    /// A number that readers round differently.
    #[error("a number in the arguments has no exact representation")]
    Inexact,
    /// More values or bytes than the expression may see.
    #[error("the arguments are too large for an expression")]
    TooLarge,
    /// The result is not a boolean.
    #[error("the expression does not return a boolean")]
    NotBoolean,
    /// It failed, for example over a missing key.
    #[error("the expression failed: {0}")]
    Failed(String),
}

/// The variables of an expression for one call, computed on first use.
pub(super) struct CallVariables<'a> {
    target: &'a Target,
    identity: &'a CallerIdentity,
    declared: Option<&'a DeclaredIntent>,
    arguments: Option<Json<'a>>,
    values: OnceLock<Result<Arguments, NoValue>>,
    others: OnceLock<CallValues>,
}

struct Arguments {
    value: Box<dyn Val>,
    values: usize,
}

struct CallValues {
    tool: Box<dyn Val>,
    intent: Box<dyn Val>,
    agent: Box<dyn Val>,
    session: Box<dyn Val>,
}

impl Expression {
    /// Parses an expression and checks that all its names are known.
    pub(super) fn read(text: &str) -> Result<Self, BadExpression> {
        if text.trim().is_empty() {
            return Err(BadExpression::new("an empty expression can never match"));
        }
        let parsed = expression::parse(text, environment())?;
        parsed
            .names
            .iter()
            .try_for_each(|name| check_variable(name))?;
        let expression = Self {
            text: text.to_owned(),
            uses_arguments: parsed.names.iter().any(|name| name[0] == "args"),
            loops: parsed.loops,
            program: parsed.program,
        };
        if parsed.names.is_empty() {
            expression.check_constant()?;
        }
        Ok(expression)
    }

    /// Evaluates the expression for a call.
    pub(super) fn holds(&self, seen: &CallVariables<'_>) -> Result<bool, NoValue> {
        if self.uses_arguments {
            let values = seen.arguments()?.values;
            let bytes = seen.arguments.map_or(0, |json| json.bytes().len());
            // `inspect` refuses deeper loops; the bound only protects the index.
            let loops = self.loops.min(MAX_VALUES.len() - 1);
            // Two nested loops over n values run n² steps, so the limit shrinks with the depth of loops.
            if values > MAX_VALUES[loops] || bytes > MAX_BYTES[loops] {
                return Err(NoValue::TooLarge);
            }
        }
        let mut context = Context::with_env(environment().clone());
        // A resolver and not five variables: converting the arguments is expensive, and many expressions
        // do not use them.
        context.set_variable_resolver(seen);
        match self.program.execute(&context) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err(NoValue::NotBoolean),
            Err(error) => Err(NoValue::Failed(error.to_string())),
        }
    }

    /// Evaluates an expression without variables: its result is the same for every call.
    fn check_constant(&self) -> Result<(), BadExpression> {
        let context = Context::with_env(environment().clone());
        let what = match self.program.execute(&context) {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(Value::Bool(false)) => "the expression is never true, so the rule can never match",
            Ok(_) => "the expression does not return a boolean",
            Err(_) => "the expression always fails",
        };
        Err(BadExpression::new(what))
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl<'a> CallVariables<'a> {
    pub(super) fn new(
        target: &'a Target,
        identity: &'a CallerIdentity,
        arguments: Option<Json<'a>>,
    ) -> Self {
        Self {
            target,
            identity,
            declared: None,
            arguments,
            values: OnceLock::new(),
            others: OnceLock::new(),
        }
    }

    /// Adds the declared intent.
    pub(super) fn declaring(mut self, declared: Option<&'a DeclaredIntent>) -> Self {
        self.declared = declared;
        self
    }

    /// The action by the verb in the tool's name; `None` without one.
    pub(super) fn action(&self) -> Option<Action> {
        match self.target {
            Target::Tool(tool) => Action::of_name(&tool.name),
            Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) => Some(Action::Read),
            Target::Method { .. } => None,
        }
    }

    fn arguments(&self) -> Result<&Arguments, NoValue> {
        let read = || Arguments::read(self.arguments);
        self.values.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    fn others(&self) -> &CallValues {
        self.others.get_or_init(|| CallValues::of(self))
    }
}

impl fmt::Debug for CallVariables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallVariables")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl VariableResolver for CallVariables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let value = match variable {
            // Unreadable arguments were already reported by `holds`, so an absent value is never evaluated.
            "args" => &self.arguments().ok()?.value,
            "tool" => &self.others().tool,
            "intent" => &self.others().intent,
            "agent" => &self.others().agent,
            "session" => &self.others().session,
            _ => return None,
        };
        Some(CowVal::Borrowed(value.as_ref()))
    }
}

impl Arguments {
    fn read(arguments: Option<Json<'_>>) -> Result<Self, NoValue> {
        let mut count = 0;
        let value = match arguments {
            Some(arguments) => value(arguments, &mut count)?,
            None => map([]),
        };
        Ok(Self {
            value: boxed(value),
            values: count,
        })
    }
}

impl CallValues {
    fn of(seen: &CallVariables<'_>) -> Self {
        let (destructive, hints) = match seen.target {
            Target::Tool(tool) => (looks_destructive(tool).is_some(), tool.hints),
            Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) => {
                (false, Hints::reading())
            }
            Target::Method { .. } => (false, Hints::default()),
        };
        let text = |text: &str| Value::String(Arc::new(text.to_owned()));
        let tool = map([
            ("server", text(seen.target.server().as_str())),
            ("name", text(seen.target.name())),
            ("destructive", Value::Bool(destructive)),
            // A missing hint is false, so that expressions need no null checks; `annotated` tells silence apart.
            ("read_only", Value::Bool(hints.read_only == Some(true))),
            ("annotated", Value::Bool(!hints.is_silent())),
        ]);
        let declared = seen.declared;
        let operation = declared.map_or_else(|| hints.operation(), DeclaredIntent::operation);
        let inferred = declared.is_none_or(|declared| declared.inferred);
        let sensitivity = declared.and_then(|declared| declared.data_sensitivity.as_deref());
        let reason = declared.and_then(|declared| declared.reason.as_deref());
        let intent = map([
            ("operation_type", text(operation.as_str())),
            ("inferred", Value::Bool(inferred)),
            (
                "data_sensitivity",
                text(sensitivity.unwrap_or(UNSAID_SENSITIVITY)),
            ),
            ("reason", text(reason.unwrap_or_default())),
        ]);
        Self {
            tool: boxed(tool),
            intent: boxed(intent),
            agent: boxed(text(&seen.identity.agent)),
            session: boxed(text(&seen.identity.session)),
        }
    }
}

fn environment() -> &'static Arc<Env> {
    static ENVIRONMENT: OnceLock<Arc<Env>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| Arc::new(expression::environment()))
}

/// Checks a variable and the first field selected from it.
fn check_variable(name: &[String]) -> Result<(), BadExpression> {
    let variable = name[0].as_str();
    let fields: &[&str] = match variable {
        "tool" => &TOOL_FIELDS,
        "intent" => &INTENT_FIELDS,
        _ => &[],
    };
    let (what, word, known) = match name.get(1) {
        _ if !VARIABLES.contains(&variable) => (
            format!("unknown name `{variable}`"),
            variable,
            &VARIABLES[..],
        ),
        // The fields of `args` depend on the tool, so they cannot be checked at load.
        Some(field) if !fields.is_empty() && !fields.contains(&field.as_str()) => {
            let what = format!("unknown field `{variable}.{field}`");
            (what, field.as_str(), fields)
        }
        _ => return Ok(()),
    };
    Err(BadExpression {
        what,
        help: Some(nearest(word, known)),
    })
}

fn boxed(value: Value) -> Box<dyn Val> {
    value
        .try_into()
        .expect("strings, numbers, lists and maps are values")
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    let entry = |(key, value): (&str, Value)| (Key::String(Arc::new(key.to_owned())), value);
    Value::Map(Map {
        map: Arc::new(entries.into_iter().map(entry).collect()),
    })
}

fn value(json: Json<'_>, count: &mut usize) -> Result<Value, NoValue> {
    *count += 1;
    if *count > MAX_VALUES[0] {
        return Err(NoValue::TooLarge);
    }
    Ok(match json.kind() {
        JsonKind::Null => Value::Null,
        JsonKind::Bool => Value::Bool(json.as_bool().unwrap_or_default()),
        JsonKind::Number => number(json.as_text())?,
        JsonKind::String => {
            let text = json.as_str().ok_or(NoValue::Unreadable)?.into_owned();
            Value::String(Arc::new(text))
        }
        JsonKind::Array => {
            let values: Result<Vec<Value>, NoValue> = json
                .elements()
                .map(|element| value(element, count))
                .collect();
            Value::List(Arc::new(values?))
        }
        JsonKind::Object => object(json, count)?,
    })
}

fn object(json: Json<'_>, count: &mut usize) -> Result<Value, NoValue> {
    let mut map = HashMap::new();
    let mut folded = Vec::new();
    for (key, member) in json.members() {
        let key = key.as_str().unwrap_or_default().into_owned();
        folded.push(key.to_lowercase());
        map.insert(Key::String(Arc::new(key)), value(member, count)?);
    }
    folded.sort_unstable();
    // Some servers match keys without case: `{"path": "/ok", "Path": "/etc"}` would show policy only one.
    if folded.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(NoValue::Twins);
    }
    Ok(Value::Map(Map { map: Arc::new(map) }))
}

fn number(text: &str) -> Result<Value, NoValue> {
    if let Ok(whole) = text.parse::<i64>() {
        let exact = (-EXACT..=EXACT).contains(&whole);
        return exact.then_some(Value::Int(whole)).ok_or(NoValue::Inexact);
    }
    let number: f64 = text.parse().map_err(|_| NoValue::Inexact)?;
    let is_whole = !text.contains(['.', 'e', 'E']);
    // Integers beyond i64 would become floats here and something else in the server.
    if !number.is_finite() || is_whole {
        return Err(NoValue::Inexact);
    }
    Ok(Value::Float(number))
}

#[cfg(test)]
mod tests {
    use callgate_wire::Strictness;

    use super::*;

    fn holds(expression: &str, arguments: &str) -> Result<bool, NoValue> {
        let json = Json::validate(arguments.as_bytes(), Strictness::Full).expect("it is JSON");
        let descriptor = r#"{"name":"push","annotations":{"destructiveHint":true}}"#;
        let server = crate::ServerName::new("github").expect("it is a name");
        let tool = crate::Tool::from_descriptor(&server, descriptor.into()).expect("it is a tool");
        let target = Target::Tool(Arc::new(tool));
        let identity = CallerIdentity {
            tenant: "local".into(),
            principal: "p".into(),
            agent: "ci-1".into(),
            session: "s1".into(),
            grant: crate::Grant::default(),
        };
        let seen = CallVariables::new(&target, &identity, Some(json));
        Expression::read(expression)
            .expect("it is right")
            .holds(&seen)
    }

    #[test]
    fn expressions_read_tool_arguments_and_intent() {
        let arguments = r#"{"repo":"acme/x","n":5,"f":1.5,"tags":["a","b"],"o":{"k":null}}"#;
        for expression in [
            r#"args.repo.startsWith("acme/")"#,
            "tool.destructive && !tool.read_only && tool.annotated",
            r#"tool.server == "github" && tool.name == "push""#,
            r#"intent.operation_type == "destructive" && intent.inferred"#,
            r#"agent.startsWith("ci-") && session == "s1""#,
            "args.n > 4 && args.n >= 5.0 && args.f < 2",
            r#""a" in args.tags && args.tags.exists(t, t == "b")"#,
            "has(args.repo) && !has(args.missing)",
            "args.o.k == null && size(args.tags) == 2",
            r#"args.repo.matches("^acme/[a-z]+$")"#,
            r#"args["repo"] == "acme/x""#,
            "tool.destructive || args.missing",
            "args.missing || tool.destructive",
        ] {
            assert_eq!(holds(expression, arguments), Ok(true), "{expression}");
        }
        assert_eq!(holds("args.n == 6", arguments), Ok(false));
        assert!(matches!(
            holds("args.missing == 1", arguments),
            Err(NoValue::Failed(_))
        ));
        assert!(matches!(
            holds("args.n.startsWith('a')", arguments),
            Err(NoValue::Failed(_))
        ));
        assert_eq!(holds("args.n", arguments), Err(NoValue::NotBoolean));
    }

    #[test]
    fn ambiguous_arguments_are_expression_errors() {
        for (arguments, why) in [
            (r#"{"path":1,"Path":2}"#, NoValue::Twins),
            (r#"{"a":[{"x":1,"X":2}]}"#, NoValue::Twins),
            (r#"{"n":9007199254740993}"#, NoValue::Inexact),
            (r#"{"n":-9007199254740993}"#, NoValue::Inexact),
            (r#"{"n":1e400}"#, NoValue::Inexact),
            (r#"{"n":99999999999999999999}"#, NoValue::Inexact),
        ] {
            assert_eq!(holds("size(args) >= 0", arguments), Err(why), "{arguments}");
            assert_eq!(
                holds("tool.destructive", arguments),
                Ok(true),
                "{arguments}"
            );
        }
        let many = format!("[{}0]", "0,".repeat(2000));
        let arguments = format!(r#"{{"l":{many}}}"#);
        assert_eq!(holds("args.l.exists(x, x == 0)", &arguments), Ok(true));
        let nested = "args.l.exists(x, args.l.exists(y, x != y))";
        assert_eq!(holds(nested, &arguments), Err(NoValue::TooLarge));
    }

    #[test]
    fn unknown_names_in_expressions_are_reported_at_load() {
        let cases = [
            ("", "empty"),
            ("args.x ==", "bad expression"),
            ("tol.destructive", "unknown name `tol`"),
            ("tool.destrutive", "unknown field `tool.destrutive`"),
            ("intent.x == 1", "unknown field `intent.x`"),
            ("arg.x == 1", "unknown name `arg`"),
            ("args.x.startWith('a')", "unknown function `startWith`"),
            ("args.x.matches('(')", "bad regular expression"),
            ("args.x.matches(args.y)", "must be a string literal"),
            ("false", "never true"),
            ("1 == 2", "never true"),
            ("1 + 1", "does not return a boolean"),
            ("1 / 0 == 1", "always fails"),
            (
                "args.a.exists(x, args.b.exists(y, args.c.exists(z, x == z)))",
                "nest",
            ),
        ];
        for (text, expected) in cases {
            let what = Expression::read(text).expect_err(text).what;
            assert!(what.contains(expected), "{text}: {what}");
        }
        let deep = format!("{}true{}", "(".repeat(500), ")".repeat(500));
        assert!(Expression::read(&deep).is_err());
        assert!(Expression::read(&"!".repeat(1000)).is_err());
        for (part, count) in [
            ("1 + ", 390),
            ("- ", 390),
            ("true && ", 190),
            ("1 == ", 190),
        ] {
            // Whatever it says of them, it says it without running out of stack.
            let _ = Expression::read(&format!("{}1", part.repeat(count)));
        }
        let _ = Expression::read(&format!("args{} == 1", "[0]".repeat(390)));
        assert!(Expression::read("type(args.x) == int").is_ok());
        assert!(Expression::read("args.l.all(x, x.y > 1)").is_ok());
    }
}
