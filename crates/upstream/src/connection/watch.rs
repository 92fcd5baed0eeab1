//! The deadline of one call, and the failure when it expires.

use std::{pin::pin, time::Duration};

use callgate_call::{Exchange, Failure};
use callgate_gate::ServerName;
use callgate_record::Effect;
use futures_util::FutureExt as _;
use tokio::time::Instant;

use crate::pending::{Ended, OnBehalf};

/// The smallest extension of a paused deadline, to keep the timer from firing continuously.
const CLOCK_GRAIN: Duration = Duration::from_millis(100);

pub(super) struct Watch<'a> {
    pub(super) server: &'a ServerName,
    pub(super) name: &'a str,
    pub(super) timeout: Duration,
    pub(super) deadline: Instant,
}

impl Watch<'_> {
    /// Waits for a step before the call is sent. If the call is cancelled already, the step does not start.
    pub(super) async fn unless_stopped<T>(
        &self,
        step: impl Future<Output = T>,
        exchange: &Exchange,
    ) -> Result<T, Failure> {
        let effect = Effect::None;
        if exchange.cancelled.is_cancelled() {
            return Err(Failure::Cancelled { effect });
        }
        let mut step = pin!(step);
        // Most steps complete at once, and setting a timer takes a lock that all threads share.
        match step.as_mut().now_or_never() {
            Some(done) => Ok(done),
            None => self.or_stopped(step, exchange, effect).await,
        }
    }

    /// Waits for a step, unless the host cancels the call or its deadline expires first. A completed step wins.
    async fn or_stopped<T>(
        &self,
        step: impl Future<Output = T>,
        exchange: &Exchange,
        effect: Effect,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = step => Ok(done),
            () = exchange.cancelled.cancelled() => Err(Failure::Cancelled { effect }),
            () = tokio::time::sleep_until(self.deadline) => Err(self.timed_out(effect)),
        }
    }

    /// Waits for the reply; the deadline is paused while the host is asked something.
    pub(super) async fn reply(
        &mut self,
        reply: impl Future<Output = Ended>,
        exchange: &Exchange,
        on_behalf: &OnBehalf,
    ) -> Result<Ended, Failure> {
        let mut reply = pin!(reply);
        loop {
            let waited = self.or_stopped(&mut reply, exchange, Effect::Unknown).await;
            match waited {
                Ok(ended) => return Ok(ended),
                // Pauses are added only when the timer fires: most calls ask no questions.
                Err(failure @ Failure::TimedOut { .. }) => match on_behalf.clock.take() {
                    Duration::ZERO => return Err(failure),
                    stood_still => self.deadline += stood_still.max(CLOCK_GRAIN),
                },
                Err(failure) => return Err(failure),
            }
        }
    }

    fn timed_out(&self, effect: Effect) -> Failure {
        let (server, name) = (self.server.clone(), self.name.to_owned());
        Failure::TimedOut {
            server,
            name,
            timeout: self.timeout,
            effect,
        }
    }

    pub(super) fn unavailable(&self, effect: Effect, detail: &str) -> Failure {
        Failure::Unavailable {
            server: self.server.clone(),
            effect,
            detail: detail.to_owned(),
        }
    }
}
