//! Budgets: how much a step, or all steps of a run, may use.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::Tokens;

/// Limits; `None` means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// Calls of the gate's tools.
    pub calls: Option<u64>,
    /// Input and output tokens together, as the agent reports them.
    pub tokens: Option<u64>,
    /// In dollars, as the agent reports it.
    pub cost_usd: Option<f64>,
    pub time: Option<Duration>,
}

impl Budget {
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// What was used of a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    pub calls: u64,
    pub tokens: u64,
    pub cost_usd: f64,
    pub time: Duration,
}

/// A budget and what was used of it. What counts against it counts against the budget around it, too: that of a step is
/// within that of its state, which is within that of its run.
#[derive(Debug)]
pub struct Spending {
    /// What the budget is for, as messages say it.
    of: String,
    budget: Budget,
    within: Option<Arc<Self>>,
    used: Mutex<Used>,
    /// How much of the time was used before.
    earlier: Duration,
    /// Why the budget is exceeded, once it is.
    over: OnceLock<String>,
    exceeded: CancellationToken,
}

#[derive(Debug, Default)]
struct Used {
    calls: u64,
    tokens: u64,
    cost_usd: f64,
}

impl Spending {
    /// A budget of which nothing is used.
    pub fn new(of: impl Into<String>, budget: Budget, within: Option<Arc<Self>>) -> Arc<Self> {
        Self::continued(of, budget, Spent::default(), within)
    }

    /// A budget of which some is used already. Those around it know about that.
    pub fn continued(
        of: impl Into<String>,
        budget: Budget,
        earlier: Spent,
        within: Option<Arc<Self>>,
    ) -> Arc<Self> {
        let spending = Arc::new(Self {
            of: of.into(),
            budget,
            within,
            used: Mutex::new(Used {
                calls: earlier.calls,
                tokens: earlier.tokens,
                cost_usd: earlier.cost_usd,
            }),
            earlier: earlier.time,
            over: OnceLock::new(),
            exceeded: CancellationToken::new(),
        });
        spending.check_calls(earlier.calls);
        spending.check(earlier.tokens, earlier.cost_usd);
        spending
    }

    /// What was used of it so far, without the time.
    pub fn spent(&self) -> Spent {
        let used = self.locked();
        Spent {
            calls: used.calls,
            tokens: used.tokens,
            cost_usd: used.cost_usd,
            time: Duration::ZERO,
        }
    }

    /// Why this budget is exceeded; `None` while it is not, even if one around it is.
    pub fn own_excess(&self) -> Option<&str> {
        self.over.get().map(String::as_str)
    }

    /// Why this budget or one around it is exceeded.
    pub fn excess(&self) -> Option<&str> {
        let around = || self.within.as_deref()?.excess();
        self.own_excess().or_else(around)
    }

    /// Counts a call before it is made. `false` if there is no room for it: then it must not be made.
    pub fn admits_call(&self) -> bool {
        // Before the own count, and always: the budgets around count every call.
        let around = self.within.as_ref().is_none_or(|one| one.admits_call());
        let calls = {
            let mut used = self.locked();
            used.calls += 1;
            used.calls
        };
        self.check_calls(calls);
        around && self.own_excess().is_none()
    }

    /// Counts the growth of what an agent reports.
    pub(crate) fn count(&self, before: Tokens, now: Tokens) {
        let tokens = (now.input + now.output).saturating_sub(before.input + before.output);
        let cost = now.cost_usd.unwrap_or_default() - before.cost_usd.unwrap_or_default();
        self.add(tokens, cost.max(0.0));
    }

    fn add(&self, tokens: u64, cost_usd: f64) {
        if let Some(around) = &self.within {
            around.add(tokens, cost_usd);
        }
        let (tokens, cost_usd) = {
            let mut used = self.locked();
            used.tokens += tokens;
            used.cost_usd += cost_usd;
            (used.tokens, used.cost_usd)
        };
        self.check(tokens, cost_usd);
    }

    fn check_calls(&self, calls: u64) {
        if let Some(most) = self.budget.calls.filter(|most| calls > *most) {
            self.exceed(&format!(
                "it allows {most} calls, and the agent made another"
            ));
        }
    }

    fn check(&self, tokens: u64, cost_usd: f64) {
        if let Some(most) = self.budget.tokens.filter(|most| tokens > *most) {
            self.exceed(&format!("it allows {most} tokens, and {tokens} were used"));
        }
        if let Some(most) = self.budget.cost_usd.filter(|most| cost_usd > *most) {
            self.exceed(&format!("it allows ${most}, and ${cost_usd:.4} was spent"));
        }
    }

    /// Waits until this budget is exceeded, or one around it. The time of this one counts from this call.
    pub async fn watch(&self) {
        let limit = self.budget.time;
        tokio::select! {
            () = self.exceeded.cancelled() => {}
            () = self.excess_around() => {}
            () = tokio::time::sleep(limit.unwrap_or(Duration::MAX).saturating_sub(self.earlier)) => {
                let seconds = limit.unwrap_or_default().as_secs_f64();
                self.exceed(&format!("it allows {seconds} s, and they are over"));
            }
        }
    }

    fn excess_around(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(around) = &self.within else {
                return std::future::pending().await;
            };
            tokio::select! {
                () = around.exceeded.cancelled() => {}
                () = around.excess_around() => {}
            }
        })
    }

    /// Whether this budget or one around it limits the cost.
    pub(crate) fn limits_cost(&self) -> bool {
        let around = || self.within.as_ref().is_some_and(|one| one.limits_cost());
        self.budget.cost_usd.is_some() || around()
    }

    fn exceed(&self, why: &str) {
        // The first reason stands: what follows is work that is being stopped.
        let of = &self.of;
        let _ = self
            .over
            .set(format!("the budget of {of} is used up: {why}"));
        self.exceeded.cancel();
    }

    fn locked(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64, output: u64, cost: f64) -> Tokens {
        Tokens {
            input,
            output,
            cost_usd: Some(cost),
        }
    }

    fn calls(most: u64) -> Budget {
        Budget {
            calls: Some(most),
            ..Budget::default()
        }
    }

    #[test]
    fn a_call_beyond_a_budget_or_one_around_it_is_not_admitted() {
        let run = Spending::new("this run", calls(3), None);
        let first = Spending::new("this step", calls(2), Some(run.clone()));
        assert_eq!([first.admits_call(), first.admits_call()], [true, true]);
        assert_eq!(first.excess(), None);
        let second = Spending::new("this step", Budget::default(), Some(run.clone()));
        assert!(second.admits_call());
        assert!(!second.admits_call());
        let why =
            "the budget of this run is used up: it allows 3 calls, and the agent made another";
        assert_eq!((second.excess(), second.own_excess()), (Some(why), None));
        assert_eq!(first.excess(), Some(why));
        assert!(!first.admits_call());
    }

    #[test]
    fn only_the_growth_of_a_report_is_counted() {
        let own = Budget {
            tokens: Some(100),
            cost_usd: Some(0.5),
            ..Budget::default()
        };
        let spending = Spending::new("this step", own, None);
        spending.count(Tokens::default(), tokens(60, 10, 0.3));
        spending.count(tokens(60, 10, 0.3), tokens(80, 20, 0.4));
        assert_eq!(spending.excess(), None);
        spending.count(tokens(80, 20, 0.4), tokens(80, 21, 0.4));
        let why = "the budget of this step is used up: it allows 100 tokens, and 101 were used";
        assert_eq!(spending.excess(), Some(why));
    }

    #[test]
    fn a_continued_budget_has_what_is_left() {
        let earlier = Spent {
            calls: 2,
            tokens: 100,
            ..Spent::default()
        };
        let own = Budget {
            tokens: Some(100),
            ..calls(3)
        };
        let run = Spending::new("this run", calls(9), None);
        let step = Spending::continued("this step", own, earlier, Some(run.clone()));
        assert_eq!([step.admits_call(), step.admits_call()], [true, false]);
        assert_eq!((step.spent().calls, run.spent().calls), (4, 2));
        let step = Spending::continued("this step", own, earlier, Some(run));
        assert_eq!(step.excess(), None);
        step.count(Tokens::default(), tokens(1, 0, 0.0));
        let why = "the budget of this step is used up: it allows 100 tokens, and 101 were used";
        assert_eq!(step.excess(), Some(why));
    }

    #[tokio::test]
    async fn time_is_a_budget_and_ends_what_is_within() {
        let time = Budget {
            time: Some(Duration::from_millis(30)),
            ..Budget::default()
        };
        let run = Spending::new("this run", time, None);
        let step = Spending::new("this step", Budget::default(), Some(run.clone()));
        tokio::join!(run.watch(), step.watch());
        let why = "the budget of this run is used up: it allows 0.03 s, and they are over";
        assert_eq!(step.excess(), Some(why));
    }
}
