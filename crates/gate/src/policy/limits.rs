//! Limits of a scope beyond its rules: rate and cost.

use std::time::Duration;

use super::Kind;

/// At most `max_requests` in any period of length `window`, per scope, tenant and token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RateLimit {
    /// The scope whose requests are counted.
    pub scope: String,
    /// The allowed number of requests.
    pub max_requests: u64,
    pub window: Duration,
}

/// Cost limits, in the unit of the host's estimates.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct CostLimits {
    pub(super) max_per_action: Option<f64>,
    pub(super) max_per_session: Option<f64>,
    pub(super) alert_threshold: Option<f64>,
}

/// The declared cost of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cost {
    /// Not declared; counts as zero.
    Unsaid,
    Of(f64),
    /// Not a finite number; the call is denied.
    Unreadable,
}

/// The verdict of the limits, the last part of the rule id, and the reason.
pub(super) type LimitVerdict = (Kind, &'static str, String);

impl CostLimits {
    /// The lower of each limit.
    pub(super) fn with(self, other: Self) -> Self {
        let lower = |a: Option<f64>, b: Option<f64>| match (a, b) {
            // Merging an agent's limits with everyone's may only tighten them.
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            max_per_action: lower(self.max_per_action, other.max_per_action),
            max_per_session: lower(self.max_per_session, other.max_per_session),
            alert_threshold: lower(self.alert_threshold, other.alert_threshold),
        }
    }

    /// The verdict on a call that costs `cost`, for a token that has spent `spent`.
    pub(super) fn judge(&self, cost: Cost, spent: f64) -> LimitVerdict {
        let cost = match cost {
            // MCP does not require a host to declare a cost.
            Cost::Unsaid => 0.0,
            Cost::Of(cost) => cost,
            Cost::Unreadable => {
                let why = "the estimated cost is not a number".to_owned();
                return (Kind::Deny, "unreadable_value", why);
            }
        };
        // A negative cost would earn budget for later calls.
        if cost < 0.0 {
            let why = "the estimated cost is negative".to_owned();
            return (Kind::Deny, "negative_value", why);
        }
        if let Some(max) = self.max_per_action.filter(|max| cost > *max) {
            let why = format!("the estimated cost {cost} exceeds `max_per_action` ({max})");
            return (Kind::Deny, "max_per_action", why);
        }
        // `spent` comes from the token's ledger, not from the session: a new session must not be a new budget.
        let total = spent + cost;
        if let Some(max) = self.max_per_session.filter(|max| total > *max) {
            let why = format!(
                "the token would spend {total} in 24 hours, which exceeds `max_per_session` ({max})"
            );
            return (Kind::Deny, "max_per_session", why);
        }
        if let Some(threshold) = self.alert_threshold.filter(|threshold| cost > *threshold) {
            let why = format!("the estimated cost {cost} exceeds `alert_threshold` ({threshold})");
            return (Kind::RequireApproval, "alert_threshold", why);
        }
        (
            Kind::Allow,
            "limits",
            "the cost is within its limits".to_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_limits_are_checked_in_order() {
        let limits = CostLimits {
            max_per_action: Some(1.0),
            max_per_session: Some(20.0),
            alert_threshold: Some(0.5),
        };
        let cases = [
            (Cost::Unsaid, 0.0, Kind::Allow, "limits"),
            (Cost::Of(0.5), 0.0, Kind::Allow, "limits"),
            (Cost::Of(0.6), 0.0, Kind::RequireApproval, "alert_threshold"),
            (Cost::Of(1.0), 0.0, Kind::RequireApproval, "alert_threshold"),
            (Cost::Of(1.1), 0.0, Kind::Deny, "max_per_action"),
            (Cost::Of(-0.1), 0.0, Kind::Deny, "negative_value"),
            (Cost::Unreadable, 0.0, Kind::Deny, "unreadable_value"),
            (Cost::Of(0.4), 19.7, Kind::Deny, "max_per_session"),
            (Cost::Unsaid, 20.5, Kind::Deny, "max_per_session"),
        ];
        for (cost, spent, kind, id) in cases {
            let (said, rule, _) = limits.judge(cost, spent);
            assert_eq!((said, rule), (kind, id), "{cost:?} {spent}");
        }
    }
}
