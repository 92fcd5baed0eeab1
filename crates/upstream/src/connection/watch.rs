//! The clock of one call: until when it waits, and what it says when that is over.

use std::{pin::pin, time::Duration};

use callgate_call::{Exchange, Failure};
use callgate_gate::ServerName;
use callgate_record::Effect;
use futures_util::FutureExt as _;
use tokio::time::Instant;

use crate::pending::{Ended, OnBehalf};

/// The least by which a deadline moves while a call's clock stands still, so that it is not looked at
/// all the time.
const CLOCK_GRAIN: Duration = Duration::from_millis(100);

/// The clock of one call.
pub(super) struct Watch<'a> {
    pub(super) server: &'a ServerName,
    pub(super) name: &'a str,
    pub(super) timeout: Duration,
    pub(super) deadline: Instant,
}

impl Watch<'_> {
    /// Waits for a step before the call is sent. A call that is cancelled by then is not sent, so the step is not begun.
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
        // Most steps are done at once, and need neither a timer nor a place among those to be told of a cancellation.
        match step.as_mut().now_or_never() {
            Some(done) => Ok(done),
            None => self.or_stopped(step, exchange, effect).await,
        }
    }

    /// Waits for a step, unless the host cancels the call or its time is up first. A step that is done counts.
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

    /// Waits for the reply; while the host is being asked something, the clock stands still.
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

    /// The failure of a call whose server cannot be used.
    pub(super) fn unavailable(&self, effect: Effect, detail: &str) -> Failure {
        Failure::Unavailable {
            server: self.server.clone(),
            effect,
            detail: detail.to_owned(),
        }
    }
}
