//! What a scope limits beyond its rules: how often, and how much may be spent.

use std::time::Duration;

use super::Kind;

/// At most so many requests in any stretch of time of that length, per scope, tenant and token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RateLimit {
    /// The scope whose requests are counted.
    pub scope: String,
    /// How many there may be.
    pub max_requests: u64,
    /// In how long.
    pub window: Duration,
}

/// What may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct CostLimits {
    pub(super) max_per_action: Option<f64>,
    pub(super) max_per_session: Option<f64>,
    pub(super) alert_threshold: Option<f64>,
}

/// What a host says that a call will cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cost {
    /// Nothing was said, which counts as nothing.
    Unsaid,
    /// So much.
    Of(f64),
    /// Something that is no number.
    Unreadable,
}

/// What the limits say to a cost: the verdict, the end of the rule's id, and why.
pub(super) type Spoken = (Kind, &'static str, String);

impl CostLimits {
    /// The lower of each limit.
    pub(super) fn with(self, other: Self) -> Self {
        let lower = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            max_per_action: lower(self.max_per_action, other.max_per_action),
            max_per_session: lower(self.max_per_session, other.max_per_session),
            alert_threshold: lower(self.alert_threshold, other.alert_threshold),
        }
    }

    /// What these limits say to a call that costs `cost` of a token that has spent `spent`.
    pub(super) fn judge(&self, cost: Cost, spent: f64) -> Spoken {
        let cost = match cost {
            Cost::Unsaid => 0.0,
            Cost::Of(cost) => cost,
            Cost::Unreadable => {
                let why = "the estimated cost is not a number".to_owned();
                return (Kind::Deny, "unreadable_value", why);
            }
        };
        if cost < 0.0 {
            let why = "the estimated cost is negative".to_owned();
            return (Kind::Deny, "negative_value", why);
        }
        if let Some(max) = self.max_per_action.filter(|max| cost > *max) {
            let why = format!("the estimated cost {cost} is more than {max} for one call");
            return (Kind::Deny, "max_per_action", why);
        }
        let total = spent + cost;
        if let Some(max) = self.max_per_session.filter(|max| total > *max) {
            let why =
                format!("the token would have spent {total} in 24 hours, which is more than {max}");
            return (Kind::Deny, "max_per_session", why);
        }
        if let Some(threshold) = self.alert_threshold.filter(|threshold| cost > *threshold) {
            let why = format!("the estimated cost {cost} is more than {threshold}");
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
