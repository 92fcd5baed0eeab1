//! States inside of states: concurrent branches, and rounds of a loop.

use std::{collections::HashMap, time::Duration};

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{Run, RunError, RunFrame};
use crate::{
    Loop, Outcome, Parallel, State, Status, Strategy,
    model::{Item, Items, LoopOver},
    template::TemplateError,
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
                around: frame.around.clone(),
                stop: stop.clone(),
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
    async fn within<T>(
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
        let items = match &inner.over {
            LoopOver::While(_) => None,
            LoopOver::Items(items) => match self.items(frame, items) {
                Ok(items) => Some(items),
                Err(why) => return Ok(Outcome::failure(format!("items: {why}"))),
            },
        };
        let most = usize::try_from(inner.max_iterations).unwrap_or(usize::MAX);
        if let Some(items) = items.as_ref().filter(|items| items.len() > most) {
            let count = items.len();
            let why = format!("there are {count} items, more than `max_iterations` ({most})");
            return Ok(Outcome::failure(why));
        }
        let stop = frame.stop.child_token();
        let rounds = self.rounds(frame, key, inner, items.as_deref(), &stop);
        let (done, timed_out) = self.within(state.timeout, &stop, rounds).await;
        match (done, timed_out) {
            (_, Some(why)) => Ok(Outcome::failure(why)),
            (done, None) => done,
        }
    }

    async fn rounds(
        &self,
        frame: &RunFrame,
        key: &str,
        inner: &Loop,
        items: Option<&[Value]>,
        stop: &CancellationToken,
    ) -> Result<Outcome, RunError> {
        let mut last = Outcome::default();
        let mut index = 0;
        loop {
            let round = RunFrame {
                prefix: format!("{key}/{index}/"),
                around: Some(seen(index, items, frame.around.as_ref())),
                stop: stop.clone(),
            };
            match self.goes_on(&round, inner, items, index) {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => return Ok(Outcome::failure(why)),
            }
            for name in &inner.body {
                let state = self.found(name)?;
                let outcome = self.visit(&round, format!("{name}#1"), state).await?;
                if outcome.has_failed() && !state.continue_on_error {
                    return Ok(outcome);
                }
                last = outcome;
            }
            index += 1;
            let stops = inner.break_when.as_ref();
            match stops.map(|stops| stops.holds(&self.scope(&round))) {
                None | Some(Ok(false)) => {}
                Some(Ok(true)) => break,
                Some(Err(error)) => return Ok(Outcome::failure(format!("break_when: {error}"))),
            }
        }
        Ok(Outcome {
            json: Some(json!({"iterations": index})),
            ..Outcome::success(last.output)
        })
    }

    /// Whether there is another round; an error if the condition fails or still holds after the last round.
    fn goes_on(
        &self,
        round: &RunFrame,
        inner: &Loop,
        items: Option<&[Value]>,
        index: usize,
    ) -> Result<bool, String> {
        let condition = match (&inner.over, items) {
            (LoopOver::Items(_), items) => return Ok(index < items.map_or(0, <[Value]>::len)),
            (LoopOver::While(condition), _) => condition,
        };
        let holds = condition.holds(&self.scope(round));
        let holds = holds.map_err(|error| format!("while: {error}"))?;
        let most = inner.max_iterations;
        if holds && index >= usize::try_from(most).unwrap_or(usize::MAX) {
            let text = condition.text();
            return Err(format!(
                "`{text}` still holds after {most} iterations (`max_iterations`)"
            ));
        }
        Ok(holds)
    }

    fn items(&self, frame: &RunFrame, items: &Items) -> Result<Vec<Value>, String> {
        let scope = self.scope(frame);
        let told = |error: TemplateError| error.to_string();
        match items {
            Items::List(items) => {
                let one = |item: &Item| match item {
                    Item::Value(value) => Ok(value.clone()),
                    Item::Template(template) => template.value(&scope).map_err(told),
                };
                items.iter().map(one).collect()
            }
            Items::Template(template) => match template.value(&scope).map_err(told)? {
                Value::Array(items) => Ok(items),
                Value::String(text) => {
                    serde_json::from_str(&text).map_err(|_| format!("`{text}` is not a JSON list"))
                }
                other => Err(format!("`{other}` is not a list")),
            },
        }
    }
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

/// The value of `loop` in a round.
fn seen(index: usize, items: Option<&[Value]>, parent: Option<&Value>) -> Value {
    let mut seen = json!({"index": index, "index1": index + 1, "first": index == 0});
    if let Value::Object(members) = &mut seen {
        match items {
            Some(items) => {
                members.insert("length".to_owned(), items.len().into());
                members.insert("last".to_owned(), (index + 1 == items.len()).into());
                if let Some(item) = items.get(index) {
                    members.insert("item".to_owned(), item.clone());
                }
            }
            // The number of rounds of a `while` loop is unknown.
            None => drop(members.insert("length".to_owned(), (-1).into())),
        }
        if let Some(parent) = parent {
            members.insert("parent".to_owned(), parent.clone());
        }
    }
    seen
}
