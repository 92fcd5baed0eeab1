//! What a run used before it was resumed, so that its budgets continue.

use callgate_agent::Spent;
use jiff::Timestamp;

use super::lines::Line;

/// The entries of a journal that count against budgets.
#[derive(Debug, Default)]
pub(super) struct SpentBefore {
    used: Vec<(String, Spent)>,
    /// The times during which visits were open, by their keys; the empty key stands for the run.
    open: Vec<(String, Spent)>,
}

impl SpentBefore {
    /// What counts since the run last had its whole budget.
    pub(super) fn of(lines: &[Line]) -> Self {
        let is_fresh = |line: &Line| {
            matches!(
                line,
                Line::Resumed {
                    fresh_budget: true,
                    ..
                }
            )
        };
        let begin = lines.iter().rposition(is_fresh).unwrap_or(0);
        let mut before = Self::default();
        let mut open: Vec<(String, Timestamp)> = Vec::new();
        let mut last = None;
        for line in &lines[begin..] {
            match line {
                Line::Started { at, .. } | Line::Resumed { at, .. } => {
                    // How long an interrupted visit went on is known up to its last entry.
                    for (key, began) in open.drain(..) {
                        before.add_time(&key, began, last);
                    }
                    open.push((String::new(), *at));
                    last = Some(*at);
                }
                Line::Began { key, at, .. } => {
                    open.push((key.clone(), *at));
                    last = Some(*at);
                }
                Line::Finished { key, at, .. } => {
                    last = Some(*at);
                    if let Some(place) = open.iter().rposition(|(known, _)| known == key) {
                        let (key, began) = open.remove(place);
                        before.add_time(&key, began, last);
                    }
                }
                Line::Used {
                    key,
                    calls,
                    tokens,
                    cost_usd,
                    at,
                } => {
                    last = Some(*at);
                    let spent = Spent {
                        calls: *calls,
                        tokens: *tokens,
                        cost_usd: *cost_usd,
                        ..Spent::default()
                    };
                    before.used.push((key.clone(), spent));
                }
                Line::Ended { at, .. } => last = Some(*at),
                Line::Sources { .. } => {}
            }
        }
        for (key, began) in open {
            before.add_time(&key, began, last);
        }
        before
    }

    fn add_time(&mut self, key: &str, began: Timestamp, ended: Option<Timestamp>) {
        let passed = ended.map(|ended| ended.duration_since(began));
        // Nothing counts if the clock was set back in between.
        let time = passed.and_then(|passed| passed.try_into().ok());
        let spent = Spent {
            time: time.unwrap_or_default(),
            ..Spent::default()
        };
        self.open.push((key.to_owned(), spent));
    }

    /// The sum for a visit with all its attempts and the visits in it; with an empty key, for the run.
    pub(super) fn of_visit(&self, key: &str) -> Spent {
        let is_within = |other: &str| match other.strip_prefix(key) {
            Some(rest) => key.is_empty() || rest.is_empty() || rest.starts_with(['/', '@']),
            None => false,
        };
        let used = self.used.iter().filter(|(other, _)| is_within(other));
        let open = self.open.iter().filter(|(other, _)| other == key);
        used.chain(open)
            .fold(Spent::default(), |sum, (_, one)| Spent {
                calls: sum.calls + one.calls,
                tokens: sum.tokens + one.tokens,
                cost_usd: sum.cost_usd + one.cost_usd,
                time: sum.time + one.time,
            })
    }
}
