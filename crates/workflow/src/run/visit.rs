//! Visits of a state: taken from the journal, or executed with hooks and retries.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use super::{Run, RunError, RunFrame, budgeted::budgeted, shortened};
use crate::{Event, Outcome, State, Usage, model::public_name};

impl Run<'_> {
    /// Visits a state: takes the outcome from the journal, or executes the state and records it.
    pub(super) fn visit<'s>(
        &'s self,
        frame: &'s RunFrame,
        key: String,
        state: &'s State,
    ) -> BoxFuture<'s, Result<Outcome, RunError>> {
        Box::pin(async move {
            let (name, key) = (&state.name, format!("{}{key}", frame.prefix));
            if let Some(kept) = self.walk.journal.finished_outcome(&key) {
                self.values.remember(state, kept);
                self.tell(Event::StepKept {
                    step: name.clone(),
                    key,
                });
                return Ok(kept.clone());
            }
            // A budget that is used up stops its work a moment later than it is noticed.
            if frame.stop.is_cancelled() || frame.spending.excess().is_some() {
                return Err(RunError::Stopped);
            }
            self.walk.journal.began(&key, name)?;
            self.values.enter(name);
            let began = Instant::now();
            let span_name = format!("state.{}", public_name(name));
            let span = self.walk.spans.step(span_name, frame.trace.clone());
            span.note("state.key", key.clone());
            let frame = &RunFrame {
                trace: span.context(),
                ..frame.clone()
            };
            let outcome = match self.is_wanted(frame, state) {
                Ok(true) => self.with_hooks(frame, &key, state).await?,
                Ok(false) => Outcome::success(""),
                Err(why) => Outcome::failure(why),
            };
            span.end(outcome.has_failed().then_some("failed"));
            self.walk.journal.finished(&key, name, &outcome)?;
            self.values.remember(state, &outcome);
            let error = if outcome.has_failed() {
                shortened(&outcome.stderr)
            } else {
                String::new()
            };
            self.tell(Event::StepFinished {
                step: name.clone(),
                key,
                status: outcome.status,
                exit_code: outcome.exit_code,
                duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                usage: outcome.usage.clone(),
                error,
            });
            Ok(outcome)
        })
    }

    /// Whether the condition of a state holds.
    fn is_wanted(&self, frame: &RunFrame, state: &State) -> Result<bool, String> {
        let Some(when) = &state.when else {
            return Ok(true);
        };
        let holds = when.holds(&self.scope(frame));
        holds.map_err(|error| format!("when: {error}"))
    }

    /// Executes a state with its hooks and retries.
    async fn with_hooks(
        &self,
        frame: &RunFrame,
        key: &str,
        state: &State,
    ) -> Result<Outcome, RunError> {
        let name = public_name(&state.name);
        let hooks = &state.hooks;
        self.hooks(frame, &format!("{name}.pre"), &hooks.pre).await;
        let mut outcome = self.within_own_budget(frame, key, state).await?;
        if let Some(most) = state.capture.max_bytes {
            cut(&mut outcome.output, most);
            cut(&mut outcome.stderr, most);
        }
        if !hooks.post.is_empty() {
            self.values.remember(state, &outcome);
        }
        self.hooks(frame, &format!("{name}.post"), &hooks.post)
            .await;
        Ok(outcome)
    }

    /// Executes a state within its budget.
    async fn within_own_budget(
        &self,
        frame: &RunFrame,
        key: &str,
        state: &State,
    ) -> Result<Outcome, RunError> {
        let of = format!("state `{}`", public_name(&state.name));
        let work = |frame: RunFrame| async move { self.with_retries(&frame, key, state).await };
        let earlier = self.walk.journal.spent(key);
        let done = budgeted(frame, of, (state.budget, earlier), work).await;
        done.unwrap_or_else(|why| Ok(Outcome::failure(why)))
    }

    /// Executes a state with its retries.
    async fn with_retries(
        &self,
        frame: &RunFrame,
        key: &str,
        state: &State,
    ) -> Result<Outcome, RunError> {
        let mut attempt = 1;
        let mut usage = Usage::default();
        loop {
            self.tell(Event::StepStarted {
                step: state.name.clone(),
                key: key.to_owned(),
                attempt,
            });
            let inner_key = match attempt {
                1 => key.to_owned(),
                later => format!("{key}@{later}"),
            };
            let mut outcome = self.attempt(frame, &inner_key, state).await?;
            usage.add(&outcome.usage);
            outcome.usage = usage.clone();
            let codes = &state.retry.retryable_exit_codes;
            let may = codes.is_empty() || codes.contains(&outcome.exit_code);
            let is_over = frame.spending.excess().is_some();
            if !outcome.has_failed() || !may || is_over || attempt >= state.retry.max_attempts {
                return Ok(outcome);
            }
            let pause = state.retry.pause(attempt, chance());
            self.tell(Event::StepRetried {
                step: state.name.clone(),
                pause_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
                why: shortened(&outcome.stderr),
            });
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = frame.stop.cancelled() => return Err(RunError::Stopped),
            }
            attempt += 1;
        }
    }
}

/// Cuts a text to a number of bytes, at a character.
fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
    }
}

/// A number from 0 to 1 for jitter. Nothing depends on it being unpredictable, so the clock is enough.
fn chance() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    f64::from(now.unwrap_or(Duration::ZERO).subsec_nanos() % 1000) / 1000.0
}
