//! forward, inspect and finish: calls the provider, reads its reply, and records how the call ended.

use std::{sync::Arc, time::Instant};

use callgate_gate::Permit;
use callgate_record::Recorded;
use callgate_wire::{Era, bridge};

use super::{
    CallContext, Shared,
    questions::{GatedCaller, QuestionContext, questions_in_reply},
    repeat::Rounds,
    rounds::RecordedRound,
};
use crate::{
    Failure, Latency, Reply,
    finish::{Answer, ForwardedCall, Refusal, finish, refuse},
    forward::forward,
    inspect::inspect,
    parking::Round,
    trace::CallSpan,
};

impl Shared {
    /// forward: calls the provider. Whether the host can be sent requests meanwhile decides which function does so.
    pub(super) async fn forward(
        self: &Arc<Self>,
        recorded: Recorded<Permit>,
        recorded_round: Box<RecordedRound>,
        round: Round,
        context: CallContext<'_>,
    ) -> Answer {
        match round {
            Round::First if recorded_round.attempt.host.era == Era::Handshake => {
                self.forward_with_live_host(recorded, recorded_round, context)
                    .await
            }
            // Boxed to keep the future of handshake hosts small, which are the common case.
            Round::First | Round::Returned(_) => {
                Box::pin(self.first_round(recorded, context.exchange, recorded_round, context.span))
                    .await
            }
            Round::Later { park, .. } => {
                let span = (park, context.span);
                Box::pin(self.next_round(recorded, context.exchange, recorded_round, span)).await
            }
        }
    }

    /// Forwards the call of a host that can be sent requests while it waits.
    async fn forward_with_live_host(
        self: &Arc<Self>,
        recorded: Recorded<Permit>,
        round: Box<RecordedRound>,
        context: CallContext<'_>,
    ) -> Answer {
        let CallContext {
            span,
            mut exchange,
            rounds,
            ..
        } = context;
        let step = span.step("forward");
        exchange.trace = span.outgoing_context(&step, &round.attempt);
        // The unguarded caller is kept for `repeat`, which puts its own gate around it: each question is decided once.
        let caller = exchange.caller.clone();
        let question_context = QuestionContext::call(&round.attempt, round.target.server());
        exchange.caller = GatedCaller::new(self, question_context, exchange.caller);
        let sent = Instant::now();
        let outcome = step
            .around(forward(&*self.providers, recorded, exchange))
            .await;
        // Taken out before the round is recorded, which consumes both. Only a reply with questions is copied.
        let asking = outcome.as_ref().ok().filter(|reply| asks(reply)).cloned();
        let first = asking.is_some().then(|| {
            let server = round.target.server().clone();
            (round.attempt.clone(), server, round.agreed.clone())
        });
        // The round is finished in the record before the next one begins, so that a crash between them leaves no open call.
        let answer = self.finish_round(round, sent, outcome, span).await;
        match (asking, first) {
            (Some(reply), Some((attempt, server, agreed))) => {
                let new = || Box::new(Rounds::of(&attempt, server, agreed));
                let rounds = rounds.unwrap_or_else(new);
                Box::pin(self.repeat(&attempt, rounds, &reply, caller, span)).await
            }
            (None, _) | (_, None) => answer,
        }
    }

    /// inspect and finish: ends a forwarded call.
    pub(super) async fn finish_round(
        &self,
        round: Box<RecordedRound>,
        sent: Instant,
        outcome: Result<Reply, Failure>,
        span: &CallSpan,
    ) -> Answer {
        let latency = Latency {
            forwarded: sent.elapsed(),
            total: round.started.elapsed(),
        };
        // Before `finish`, which consumes the reply.
        let carried = match &outcome {
            Ok(reply) => questions_in_reply(reply, round.attempt.host.era),
            Err(_) => Vec::new(),
        };
        let inspected = |reply| {
            let read = span.step("inspect").run(|| inspect(&reply));
            (reply, read)
        };
        let ended = ForwardedCall {
            attempt: &round.attempt,
            target: &round.target,
            open: round.open,
            outcome: outcome.map(inspected),
            latency,
        };
        let finishing = finish(&self.recorder, &self.telemetry.events, ended);
        let answer = span.step("finish").around(finishing).await;
        // After the end is on record: the server has done its work, and a denied question changes only what the host gets.
        if carried.is_empty() {
            return answer;
        }
        let question_context = QuestionContext::call(&round.attempt, round.target.server());
        match Box::pin(self.decide_questions(&question_context, carried)).await {
            Ok(()) => answer,
            Err(ruling) => refuse(&round.attempt, &Refusal::Denied(&ruling)),
        }
    }
}

/// Whether a reply consists of questions for the host.
fn asks(reply: &Reply) -> bool {
    reply.era == Era::Stateless && bridge::asks(&reply.frame)
}
