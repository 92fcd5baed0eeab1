//! Inspects a parsed expression: the names it uses, how its loops nest, and whether its functions are known.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::{BadExpression, matching};
use crate::problem::nearest;

/// The deepest allowed nesting of loops.
// Three nested loops over 1,000 values would run 10⁹ steps.
const MAX_LOOPS: usize = 2;

/// The deepest allowed nesting of brackets, which bounds the parser's stack.
pub(super) const MAX_NESTING: usize = 40;
/// Chains of operators nest too but need less stack: this many count as one bracket.
const OPERATORS: usize = 10;
/// Names of types, for comparisons with `type(x)`.
const TYPES: [&str; 10] = [
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
];
// An allow-list, so that an update of the CEL crate cannot add functions of unknown cost.
const FUNCTIONS: [&str; 14] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "string",
    "int",
    "uint",
    "double",
    "bytes",
    "bool",
    "type",
    "dyn",
    "has",
];

/// The result of an inspection.
#[derive(Debug, Default)]
pub(super) struct Inspected {
    pub(super) names: Vec<Vec<String>>,
    pub(super) loops: usize,
    pub(super) builds: bool,
}

/// An upper bound of a text's nesting, without parsing it.
pub(super) fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest, mut operators) = (0_usize, 0, 0_usize);
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        // Characters inside string literals count as well: an overestimate is safe.
        operators += usize::from("!-+*/%?.=<>&|[(".contains(c));
    }
    deepest.max(operators / OPERATORS)
}

/// Looks through an expression.
pub(super) fn inspect(expression: &IdedExpr) -> Result<Inspected, BadExpression> {
    let mut inspection = Inspection::default();
    inspection.look(expression)?;
    Ok(inspection.found)
}

#[derive(Default)]
struct Inspection {
    found: Inspected,
    /// The names that the enclosing loops bind.
    bound: Vec<String>,
    loops: usize,
}

impl Inspection {
    fn look(&mut self, expression: &IdedExpr) -> Result<(), BadExpression> {
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(_) | Expr::Select(_) => self.name(expression),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let is_literal = |part: &IdedExpr| matches!(part.expr, Expr::Literal(_));
                self.found.builds |= !list.elements.iter().all(is_literal);
                list.elements.iter().try_for_each(|part| self.look(part))
            }
            Expr::Map(map) => {
                self.found.builds = true;
                let entries = map.entries.iter().map(|entry| &entry.expr);
                entries.into_iter().try_for_each(|entry| self.entry(entry))
            }
            Expr::Struct(_) => Err(BadExpression::new(
                "an expression cannot construct messages",
            )),
            Expr::Comprehension(comprehension) => {
                self.look(&comprehension.iter_range)?;
                self.look(&comprehension.accu_init)?;
                self.loops += 1;
                self.found.loops = self.found.loops.max(self.loops);
                if self.loops > MAX_LOOPS {
                    return Err(BadExpression::new("loops nest deeper than two levels"));
                }
                let before = self.bound.len();
                self.bound.push(comprehension.iter_var.clone());
                self.bound.extend(comprehension.iter_var2.clone());
                self.bound.push(comprehension.accu_var.clone());
                self.look(&comprehension.loop_cond)?;
                self.look(&comprehension.loop_step)?;
                self.look(&comprehension.result)?;
                self.bound.truncate(before);
                self.loops -= 1;
                Ok(())
            }
        }
    }

    fn name(&mut self, expression: &IdedExpr) -> Result<(), BadExpression> {
        let mut fields = Vec::new();
        let mut rest = &expression.expr;
        while let Expr::Select(select) = rest {
            fields.push(select.field.clone());
            rest = &select.operand.expr;
            if !matches!(rest, Expr::Ident(_) | Expr::Select(_)) {
                // The field of a computed value has no static name; only its operand can be checked.
                return self.look(&select.operand);
            }
        }
        if let Expr::Ident(name) = rest
            && !self.bound.contains(name)
            && !TYPES.contains(&name.as_str())
        {
            fields.push(name.clone());
            fields.reverse();
            self.found.names.push(fields);
        }
        Ok(())
    }

    fn call(&mut self, call: &CallExpr) -> Result<(), BadExpression> {
        let name = call.func_name.as_str();
        let is_operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_operator && !FUNCTIONS.contains(&name) {
            return Err(BadExpression {
                what: format!("unknown function `{name}`"),
                help: Some(nearest(name, &FUNCTIONS)),
            });
        }
        // A loop's step adds to its accumulator, the only name that begins with `@`; that is not construction.
        let accumulates =
            |part: &IdedExpr| matches!(&part.expr, Expr::Ident(name) if name.starts_with('@'));
        self.found.builds |= name == operators::ADD && !call.args.first().is_some_and(accumulates);
        if name == "matches" {
            regular_expression(call)?;
        }
        if let Some(target) = &call.target {
            self.look(target)?;
        }
        call.args
            .iter()
            .try_for_each(|argument| self.look(argument))
    }

    fn entry(&mut self, entry: &EntryExpr) -> Result<(), BadExpression> {
        match entry {
            EntryExpr::StructField(field) => self.look(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.look(&entry.key)?;
                self.look(&entry.value)
            }
        }
    }
}

/// Requires a literal pattern for `matches`, so that a bad one is found at load and compiled once.
fn regular_expression(call: &CallExpr) -> Result<(), BadExpression> {
    let Some(Expr::Literal(LiteralValue::String(pattern))) = call.args.last().map(|a| &a.expr)
    else {
        return Err(BadExpression::new(
            "the pattern of `matches` must be a string literal",
        ));
    };
    matching::compiled(pattern.inner())
        .map(|_| ())
        .map_err(|error| BadExpression::new(format!("bad regular expression: {error}")))
}
