//! forward, inspect and finish: the provider is asked, its reply read, and the end put on record.

use std::{sync::Arc, time::Instant};

use callgate_gate::Permit;
use callgate_record::Recorded;
use callgate_wire::{Era, bridge};

use super::{
    Shared, Walk,
    questions::{About, Gated, carried},
    repeat::Rounds,
    rounds::OnRecord,
};
use crate::{
    Failure, Latency, Reply,
    finish::{Answer, Ended, Refusal, finish, refuse},
    forward::forward,
    inspect::inspect,
    parking::Round,
    trace::CallSpan,
};

impl Shared {
    /// forward: the provider is asked, in the way that the host can be asked meanwhile.
    pub(super) async fn forward(
        self: &Arc<Self>,
        recorded: Recorded<Permit>,
        on_record: Box<OnRecord>,
        round: Round,
        walk: Walk<'_>,
    ) -> Answer {
        match round {
            Round::First if on_record.attempt.host.era == Era::Handshake => {
                self.ask_meanwhile(recorded, on_record, walk).await
            }
            // Boxed like what is held.
            Round::First | Round::Back(_) => {
                Box::pin(self.first_round(recorded, walk.exchange, on_record, walk.span)).await
            }
            Round::Again { park, .. } => {
                let span = (park, walk.span);
                Box::pin(self.next_round(recorded, walk.exchange, on_record, span)).await
            }
        }
    }

    /// Forwards the call of a host that can be asked while it waits.
    async fn ask_meanwhile(
        self: &Arc<Self>,
        recorded: Recorded<Permit>,
        round: Box<OnRecord>,
        walk: Walk<'_>,
    ) -> Answer {
        let Walk {
            span,
            mut exchange,
            rounds,
            ..
        } = walk;
        let step = span.step("forward");
        exchange.trace = span.handed_on(&step, &round.attempt);
        let caller = exchange.caller.clone();
        let about = About::call(&round.attempt, round.target.server());
        exchange.caller = Gated::new(self, about, exchange.caller);
        let sent = Instant::now();
        let outcome = step
            .over(forward(&*self.providers, recorded, exchange))
            .await;
        let asking = outcome.as_ref().ok().filter(|reply| asks(reply)).cloned();
        let first = asking.is_some().then(|| {
            let server = round.target.server().clone();
            (round.attempt.clone(), server, round.agreed.clone())
        });
        let answer = self.put_on_record(round, sent, outcome, span).await;
        match (asking, first) {
            (Some(reply), Some((attempt, server, agreed))) => {
                let new = || Box::new(Rounds::of(&attempt, server, agreed));
                let rounds = rounds.unwrap_or_else(new);
                Box::pin(self.repeat(&attempt, rounds, &reply, caller, span)).await
            }
            (None, _) | (_, None) => answer,
        }
    }

    /// Ends a forwarded call.
    pub(super) async fn put_on_record(
        &self,
        round: Box<OnRecord>,
        sent: Instant,
        outcome: Result<Reply, Failure>,
        span: &CallSpan,
    ) -> Answer {
        let latency = Latency {
            forwarded: sent.elapsed(),
            total: round.started.elapsed(),
        };
        let carried = match &outcome {
            Ok(reply) => carried(reply, round.attempt.host.era),
            Err(_) => Vec::new(),
        };
        let inspected = |reply| {
            let read = span.step("inspect").of(|| inspect(&reply));
            (reply, read)
        };
        let ended = Ended {
            attempt: &round.attempt,
            target: &round.target,
            open: round.open,
            outcome: outcome.map(inspected),
            latency,
        };
        let finishing = finish(&self.recorder, &self.telemetry.events, ended);
        let answer = span.step("finish").over(finishing).await;
        if carried.is_empty() {
            return answer;
        }
        let about = About::call(&round.attempt, round.target.server());
        match Box::pin(self.questions_in(&about, carried)).await {
            Ok(()) => answer,
            Err(ruling) => refuse(&round.attempt, &Refusal::Denied(&ruling)),
        }
    }
}

/// Whether a server answers with questions that its host has to be asked.
fn asks(reply: &Reply) -> bool {
    reply.era == Era::Stateless && bridge::asks(&reply.frame)
}
