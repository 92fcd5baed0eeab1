//! States inside of states: concurrent branches, and rounds of a loop.

use std::{collections::HashMap, time::Duration};

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{MAX_VISITS, Next, Run, RunError, RunFrame};
use crate::{
    Exit, Kind, Loop, Outcome, Parallel, State, Status, Strategy,
    expression::ExpressionError,
    model::{LoopOver, public_name},
};

impl Run<'_> {
    /// Runs branches concurrently. The strategy decides when the remaining ones are stopped.
    pub(super) async fn parallel(
        &self,
        frame: &RunFrame,
        key: &str,
        state: &State,
        parallel: &Parallel,
    ) -> Result<Outcome, RunError> {
        let stop = frame.stop.child_token();
        let room = Semaphore::new(parallel.max_concurrent);
        let over: HashMap<&str, CancellationToken> = parallel
            .branches
            .iter()
            .map(|name| (name.as_str(), CancellationToken::new()))
            .collect();
        let branch = |name: &'_ String| {
            let (name, over, stop, room) = (name.clone(), &over, stop.clone(), &room);
            let inner = RunFrame {
                prefix: format!("{}/", key),
                stop: stop.clone(),
                ..frame.clone()
            };
            async move {
                let state = self.found(&name)?;
                // Before taking a slot: branches that wait with one could block those they depend on.
                for needed in &state.depends_on {
                    if let Some(needed) = over.get(needed.as_str()) {
                        needed.cancelled().await;
                    }
                }
                let _place = room.acquire().await;
                let done = self.visit(&inner, format!("{name}#1"), state).await;
                if let Ok(outcome) = &done {
                    parallel.strategy.stop_unneeded(outcome, &stop);
                }
                if let Some(over) = over.get(name.as_str()) {
                    over.cancel();
                }
                done
            }
        };
        let branches = join_all(parallel.branches.iter().map(branch));
        let (done, timed_out) = self.within(state.timeout, &stop, branches).await;
        if let Some(why) = timed_out {
            return Ok(Outcome::failure(why));
        }
        if frame.stop.is_cancelled() {
            return Err(RunError::Stopped);
        }
        let mut outcomes = Vec::new();
        for (name, done) in parallel.branches.iter().zip(done) {
            match done {
                Ok(outcome) => outcomes.push((name, Some(outcome))),
                // The strategy stopped this branch; that is not a failure.
                Err(RunError::Stopped) => outcomes.push((name, None)),
                Err(error) => return Err(error),
            }
        }
        Ok(together(parallel.strategy, &outcomes))
    }

    /// Waits for `work`, and stops it after `limit`. It is always awaited, so nothing keeps running in the background.
    pub(super) async fn within<T>(
        &self,
        limit: Option<Duration>,
        stop: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> (T, Option<String>) {
        let limit = limit.unwrap_or(Duration::MAX);
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => (done, None),
            () = tokio::time::sleep(limit) => {
                stop.cancel();
                let why = format!("timed out after {} s", limit.as_secs_f64());
                (work.await, Some(why))
            }
        }
    }

    /// Runs the rounds of a loop.
    pub(super) async fn around(
        &self,
        frame: &RunFrame,
        key: &str,
        state: &State,
        inner: &Loop,
    ) -> Result<Outcome, RunError> {
        let most = match self.limit(frame, &inner.max_iterations) {
            Ok(most) => most,
            Err(why) => return Ok(Outcome::failure(format!("max_iterations: {why}"))),
        };
        let mut items = match &inner.over {
            LoopOver::While(_) => None,
            LoopOver::Items(items) => match self.items(frame, items) {
                Ok(items) => Some(items),
                Err(why) => return Ok(Outcome::failure(format!("items: {why}"))),
            },
        };
        if let Some(items) = items.as_mut().filter(|items| items.len() > most) {
            if !inner.is_lenient {
                let count = items.len();
                let why = format!("there are {count} items, more than `max_iterations` ({most})");
                return Ok(Outcome::failure(why));
            }
            items.truncate(most);
        }
        let stop = frame.stop.child_token();
        let rounds = Rounds {
            state,
            inner,
            items: items.as_deref(),
            most,
        };
        let work = self.rounds(frame, key, &rounds, &stop);
        let (done, timed_out) = self.within(state.timeout, &stop, work).await;
        match (done, timed_out) {
            (_, Some(why)) => Ok(Outcome::failure(why)),
            (done, None) => done,
        }
    }

    async fn rounds(
        &self,
        frame: &RunFrame,
        key: &str,
        rounds: &Rounds<'_>,
        stop: &CancellationToken,
    ) -> Result<Outcome, RunError> {
        let mut last = Outcome::default();
        let mut index = 0;
        let mut exit = None;
        while exit.is_none() {
            let round = RunFrame {
                prefix: format!("{key}/{index}/"),
                around: Some(seen(index, rounds.items, frame.around.as_ref())),
                stop: stop.clone(),
                ..frame.clone()
            };
            match self.goes_on(&round, rounds, index) {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => return Ok(Outcome::failure(why)),
            }
            match self.round(&round, rounds, &mut last).await? {
                RoundEnd::Done => {}
                RoundEnd::Left(to) => exit = Some(to),
                RoundEnd::Failed => return Ok(Outcome { exit: None, ..last }),
            }
            index += 1;
            match self.is_broken(&round, rounds.inner) {
                _ if exit.is_some() => {}
                Ok(false) => {}
                Ok(true) => break,
                Err(why) => return Ok(Outcome::failure(why)),
            }
        }
        Ok(Outcome {
            json: Some(json!({"iterations": index})),
            exit,
            ..Outcome::success(last.output)
        })
    }

    /// One round: the states of the body in order, unless one leads elsewhere.
    async fn round(
        &self,
        round: &RunFrame,
        rounds: &Rounds<'_>,
        last: &mut Outcome,
    ) -> Result<RoundEnd, RunError> {
        let body = &rounds.inner.body;
        let mut visits: HashMap<&str, u32> = HashMap::new();
        let mut at = 0;
        while let Some(name) = body.get(at) {
            let state = self.found(name)?;
            let visit = visits.entry(name).or_default();
            *visit += 1;
            if *visit > MAX_VISITS {
                let why =
                    format!("state `{name}` was visited more than {MAX_VISITS} times in one round");
                *last = Outcome::failure(why);
                return Ok(RoundEnd::Failed);
            }
            *last = self.visit(round, format!("{name}#{visit}"), state).await?;
            let next = match self.successor(round, state, last) {
                None if last.has_failed() && !state.continue_on_error => {
                    return Ok(RoundEnd::Failed);
                }
                None => None,
                Some(Next::State(next)) => Some(next),
                Some(Next::End(status, message, exit_code)) => {
                    return Ok(RoundEnd::Left(Exit::End {
                        status,
                        message,
                        exit_code,
                    }));
                }
            };
            at = match next {
                Some(next) => match self.place_in(rounds, at, &next) {
                    Some(at) => at,
                    None => return Ok(RoundEnd::Left(Exit::State(next))),
                },
                None => at + 1,
            };
        }
        Ok(RoundEnd::Done)
    }

    /// Where a state of the body leads inside of the body; `None` if it leads out of the loop. The loop itself means
    /// the next state of the body, as does a state that does not exist.
    fn place_in(&self, rounds: &Rounds<'_>, at: usize, next: &str) -> Option<usize> {
        let body = &rounds.inner.body;
        let later = body.iter().skip(at + 1).position(|name| name == next);
        if let Some(later) = later {
            return Some(at + 1 + later);
        }
        if let Some(earlier) = body.iter().position(|name| name == next) {
            return Some(earlier);
        }
        let goes_on = next == rounds.state.name || self.workflow.state(next).is_none();
        goes_on.then_some(at + 1)
    }

    fn is_broken(&self, round: &RunFrame, inner: &Loop) -> Result<bool, String> {
        let Some(condition) = &inner.break_when else {
            return Ok(false);
        };
        match condition.holds(&self.scope(round)) {
            // A state that was passed over cannot end the loop.
            Err(ExpressionError::Missing(path)) if self.values.is_yet_to_run(&path) => Ok(false),
            holds => holds.map_err(|error| format!("break_when: {error}")),
        }
    }

    /// Whether there is another round; an error if the condition fails or still holds after the last round.
    fn goes_on(&self, round: &RunFrame, rounds: &Rounds<'_>, index: usize) -> Result<bool, String> {
        let condition = match (&rounds.inner.over, rounds.items) {
            (LoopOver::Items(_), items) => return Ok(index < items.map_or(0, <[Value]>::len)),
            (LoopOver::While(condition), _) => condition,
        };
        let holds = match condition.holds(&self.scope(round)) {
            // A condition about the loop's own states is for the rounds after the first.
            Err(ExpressionError::Missing(path))
                if index == 0 && self.is_of_body(rounds.inner, &path) =>
            {
                true
            }
            Err(ExpressionError::Missing(path)) if self.values.is_yet_to_run(&path) => false,
            holds => holds.map_err(|error| format!("while: {error}"))?,
        };
        let most = rounds.most;
        if holds && index >= most {
            if rounds.inner.is_lenient {
                return Ok(false);
            }
            let text = condition.text();
            return Err(format!(
                "`{text}` still holds after {most} iterations (`max_iterations`)"
            ));
        }
        Ok(holds)
    }

    /// Whether a path names a state of the loop's body, or of a loop in it.
    fn is_of_body(&self, inner: &Loop, path: &str) -> bool {
        let mut parts = path.split('.');
        let (Some("states"), Some(name)) = (parts.next(), parts.next()) else {
            return false;
        };
        let mut open: Vec<&str> = inner.body.iter().map(String::as_str).collect();
        let mut known: Vec<&str> = Vec::new();
        while let Some(one) = open.pop() {
            if public_name(one) == name {
                return true;
            }
            if known.contains(&one) {
                continue;
            }
            known.push(one);
            match self.workflow.state(one).map(|state| &state.kind) {
                Some(Kind::Loop(inner)) => open.extend(inner.body.iter().map(String::as_str)),
                Some(Kind::Parallel(inner)) => {
                    open.extend(inner.branches.iter().map(String::as_str));
                }
                Some(
                    Kind::Command(_)
                    | Kind::Agent(_)
                    | Kind::Terminal(_)
                    | Kind::Operation(_)
                    | Kind::Call(_),
                )
                | None => {}
            }
        }
        false
    }
}

/// A loop at work.
struct Rounds<'r> {
    state: &'r State,
    inner: &'r Loop,
    items: Option<&'r [Value]>,
    most: usize,
}

/// How a round ended.
enum RoundEnd {
    Done,
    /// A state led out of the loop.
    Left(Exit),
    /// The last state failed.
    Failed,
}

impl Strategy {
    /// Stops the other branches once this outcome decides the result.
    fn stop_unneeded(self, outcome: &Outcome, stop: &CancellationToken) {
        match (self, outcome.status) {
            (Self::AllSucceed, Status::Failure) | (Self::AnySucceed, Status::Success) => {
                stop.cancel();
            }
            (Self::AllSucceed, Status::Success)
            | (Self::AnySucceed, Status::Failure)
            | (Self::BestEffort, _) => {}
        }
    }
}

/// The combined outcome of all branches.
fn together(strategy: Strategy, outcomes: &[(&String, Option<Outcome>)]) -> Outcome {
    let ended = || outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref());
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|(_, outcome)| outcome.as_ref().is_some_and(Outcome::has_failed))
        .map(|(name, _)| name.as_str())
        .collect();
    let worked = match strategy {
        Strategy::AllSucceed => failed.is_empty(),
        Strategy::AnySucceed => ended().any(|outcome| !outcome.has_failed()),
        Strategy::BestEffort => true,
    };
    let seen: Map<String, Value> = outcomes
        .iter()
        .map(|(name, outcome)| {
            let seen = outcome.as_ref().map(Outcome::seen);
            (
                (*name).clone(),
                seen.unwrap_or(json!({"Status": "stopped"})),
            )
        })
        .collect();
    let mut outcome = if worked {
        Outcome::success("")
    } else {
        Outcome::failure(format!("failed: {}", failed.join(", ")))
    };
    outcome.tokens_input = ended().map(|outcome| outcome.tokens_input).sum();
    outcome.tokens_output = ended().map(|outcome| outcome.tokens_output).sum();
    outcome.json = Some(Value::Object(seen));
    outcome
}

/// The value of `loop` in a round. Each member has both spellings.
fn seen(index: usize, items: Option<&[Value]>, parent: Option<&Value>) -> Value {
    let (last, length) = match items {
        Some(items) => (json!(index + 1 == items.len()), json!(items.len())),
        // The number of rounds of a `while` loop is unknown.
        None => (json!(false), json!(-1)),
    };
    let item = items.and_then(|items| items.get(index));
    let mut members = Map::new();
    for (lower, upper, value) in [
        ("index", "Index", Some(json!(index))),
        ("index1", "Index1", Some(json!(index + 1))),
        ("first", "First", Some(json!(index == 0))),
        ("last", "Last", Some(last)),
        ("length", "Length", Some(length)),
        ("item", "Item", item.cloned()),
        ("parent", "Parent", parent.cloned()),
    ] {
        if let Some(value) = value {
            members.insert(lower.to_owned(), value.clone());
            members.insert(upper.to_owned(), value);
        }
    }
    Value::Object(members)
}
