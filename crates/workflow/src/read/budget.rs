//! Parses `budget`: what a state, or a whole run, may use.

use callgate_agent::Budget;

use super::field::Field;
use crate::Code;

pub(super) const KEY: &str = "budget";
pub(super) const KEYS: [&str; 4] = ["calls", "tokens", "cost", "time"];

/// The budget of a workflow or of a state. A limit that cannot be read is a finding, so nothing runs without it.
pub(super) fn read(around: &Field<'_>) -> Budget {
    let Some(field) = around.get(KEY) else {
        return Budget::default();
    };
    // Strict, like `mcp_proxy`: a mistyped limit would be no limit.
    field.only(&KEYS, Code::Malformed);
    let count = |key| {
        let field: Field<'_> = field.get(key)?;
        field.whole(1, u32::MAX).map(u64::from)
    };
    Budget {
        calls: count("calls"),
        tokens: count("tokens"),
        cost_usd: field.get("cost").and_then(|field| cost(&field)),
        time: field.get("time").and_then(|field| field.span()),
    }
}

/// A sum of dollars.
fn cost(field: &Field<'_>) -> Option<f64> {
    let cost = field.number()?;
    if cost <= 0.0 {
        let what = "expected a sum of dollars above 0".to_owned();
        field.finding(Code::Malformed, what);
        return None;
    }
    Some(cost)
}
