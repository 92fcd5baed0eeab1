//! Rounds of a call whose host cannot be sent requests: when its server asks something, the call is parked,
//! the host is answered with the questions, and a later request of it brings the answers. The server does
//! the call once.

use std::{sync::Arc, time::Instant};

use callgate_gate::{Agreed, Attempt, Permit, Target};
use callgate_record::{Effect, Open, Outcome, Recorded, Status};
use callgate_wire::{
    Era, message, quote,
    stateless::{INPUT_REQUIRED, INPUT_RESPONSES},
};
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use super::{
    Shared,
    questions::{About, Gated},
};
use crate::{
    Exchange, Failure, Reply,
    deferred_questions::DeferredQuestions,
    finish::{Answer, for_stateless_host, rejected},
    forward::forward,
    parking::{Parked, Round},
    trace::CallSpan,
};

/// A round that is on record and has to be ended there. Boxed where it is handed on, like what was decided.
pub(super) struct OnRecord {
    pub(super) attempt: Attempt,
    pub(super) target: Target,
    pub(super) open: Open,
    pub(super) started: Instant,
    /// The person's yes that it rests on.
    pub(super) agreed: Option<Agreed>,
}

type Outcomes = Result<Reply, Failure>;

/// A call that ended, and what is told of it.
struct Over<'a> {
    outcome: Outcomes,
    sent: Instant,
    span: &'a CallSpan,
}

/// How waiting for a call ended.
enum Waited {
    Over(Outcomes),
    Asked,
}

impl Shared {
    /// Which round of a call this request is. A later one stands for the request that began the call.
    pub(super) fn find_round(&self, mut attempt: Attempt) -> Result<(Attempt, Round), Answer> {
        let round = match attempt.host.era {
            Era::Handshake => Round::First,
            Era::Stateless => match self.parking.round_of(&attempt) {
                Ok(round) => round,
                Err(error) => return Err(self.no_round(attempt, error)),
            },
        };
        match &round {
            Round::First => {}
            Round::Back(back) => attempt.frame = back.request.clone(),
            Round::Again { parent, .. } => attempt.parent = Some(*parent),
        }
        Ok((attempt, round))
    }

    /// The first round: forwards the call.
    pub(super) async fn first_round(
        self: &Arc<Self>,
        recorded: Recorded<Permit>,
        exchange: Exchange,
        round: Box<OnRecord>,
        span: &CallSpan,
    ) -> Answer {
        let step = span.step("forward");
        let questions = DeferredQuestions::new(&round.attempt, exchange.caller);
        let stop = CancellationToken::new();
        let about = About::call(&round.attempt, round.target.server());
        let inner = Exchange {
            caller: Gated::new(self, about, questions.clone()),
            cancelled: stop.clone(),
            trace: span.handed_on(&step, &round.attempt),
        };
        let sent = Instant::now();
        let providers = self.providers.clone();
        let mut forwarding: BoxFuture<'static, Outcomes> =
            Box::pin(async move { forward(&*providers, recorded, inner).await });
        let waited = tokio::select! {
            // First, so that a call that is cancelled already is not begun.
            biased;
            () = exchange.cancelled.cancelled() => {
                stop.cancel();
                Waited::Over(forwarding.as_mut().await)
            }
            outcome = &mut forwarding => Waited::Over(outcome),
            () = questions.gathered() => Waited::Asked,
        };
        drop(step);
        if let Waited::Over(outcome) = waited {
            let over = Over {
                outcome,
                sent,
                span,
            };
            return self.over(round, over, &questions).await;
        }
        // The record of this round ends when the call does: until then nobody knows what came of it.
        let (attempt, parent) = (round.attempt.clone(), round.attempt.id);
        let agreed = round.agreed.clone();
        let until = watch::Sender::new(None);
        let running = self.clone().run_on(Running {
            forwarding,
            round,
            sent,
            stop: stop.clone(),
            until: until.subscribe(),
        });
        let parked = Parked {
            parent,
            questions,
            stop,
            agreed,
            until,
            running: self.tasks.spawn(running),
        };
        Answer::of(self.questions_of(parked, &attempt))
    }

    /// A later round: hands the answers to who asked, and waits on. What is permitted and on record here is
    /// that they are handed over.
    pub(super) async fn next_round(
        self: &Arc<Self>,
        recorded: Recorded<Permit>,
        exchange: Exchange,
        round: Box<OnRecord>,
        (park, span): (Ulid, &CallSpan),
    ) -> Answer {
        let sent = Instant::now();
        let call = recorded.into_call();
        let mut parked = match self.parking.claim(park) {
            Ok(parked) => parked,
            Err(error) => {
                let outcome = failed(&error, &round);
                self.recorder.finished(round.open, outcome).await;
                return rejected(&call.attempt.frame, &error);
            }
        };
        let frame = &call.attempt.frame;
        parked.questions.take_over(frame, exchange.caller);
        if !exchange.cancelled.is_cancelled() {
            parked.questions.answer(frame.param(INPUT_RESPONSES));
        }
        let questions = parked.questions.clone();
        let waited = tokio::select! {
            biased;
            outcome = &mut parked.running => Waited::Over(ended(outcome)),
            () = questions.gathered() => Waited::Asked,
            () = exchange.cancelled.cancelled() => {
                parked.stop.cancel();
                Waited::Over(ended((&mut parked.running).await))
            }
        };
        match waited {
            Waited::Over(outcome) => {
                let over = Over {
                    outcome,
                    sent,
                    span,
                };
                self.over(round, over, &questions).await
            }
            Waited::Asked => {
                let answer = self.questions_of(parked, &round.attempt);
                let outcome = Outcome {
                    status: Status::Success,
                    effect: Effect::Unknown,
                    duration_us: microseconds(round.started),
                    response: None,
                    error: None,
                };
                self.recorder.finished(round.open, outcome).await;
                Answer::of(answer)
            }
        }
    }

    /// Parks a call and asks its host.
    fn questions_of(&self, parked: Parked, attempt: &Attempt) -> Option<bytes::Bytes> {
        let id = attempt.frame.id()?;
        let questions = parked.questions.questions();
        parked.questions.rest();
        let state = quote(&self.parking.park(parked, attempt));
        let result = format!(
            r#"{{"resultType":"{INPUT_REQUIRED}","inputRequests":{questions},"requestState":{state}}}"#
        );
        let method = attempt.frame.method().unwrap_or_default();
        Some(for_stateless_host(message::result(id, &result), method))
    }

    /// Ends a round with the call.
    async fn over(
        &self,
        round: Box<OnRecord>,
        over: Over<'_>,
        questions: &DeferredQuestions,
    ) -> Answer {
        let missing = questions
            .missing()
            .map(|error| (error, round.attempt.frame.clone()));
        let Over {
            outcome,
            sent,
            span,
        } = over;
        let answer = self.put_on_record(round, sent, outcome, span).await;
        match missing {
            // Whatever the server made of it, the host has to know what it would have needed.
            Some((error, request)) => rejected(&request, &error),
            None => answer,
        }
    }

    /// A parked call goes on until it ends, or until its host has not come back for too long.
    async fn run_on(self: Arc<Self>, running: Running) -> Outcomes {
        let Running {
            mut forwarding,
            round,
            sent,
            stop,
            mut until,
        } = running;
        let outcome = tokio::select! {
            biased;
            outcome = &mut forwarding => outcome,
            () = passed(&mut until) => {
                stop.cancel();
                forwarding.await
            }
        };
        let kept = outcome.clone();
        // The span of the round that began it has ended with that round's answer.
        self.put_on_record(round, sent, outcome, &CallSpan::silent())
            .await;
        kept
    }
}

/// A call that goes on by itself.
struct Running {
    forwarding: BoxFuture<'static, Outcomes>,
    round: Box<OnRecord>,
    sent: Instant,
    stop: CancellationToken,
    until: watch::Receiver<Option<tokio::time::Instant>>,
}

/// Waits until the time that is set has passed, however often it changes.
async fn passed(until: &mut watch::Receiver<Option<tokio::time::Instant>>) {
    loop {
        let set = *until.borrow_and_update();
        let passing = async {
            match set {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = passing => return,
            changed = until.changed() => if changed.is_err() {
                // Nobody knows the call any more, so nobody can come back to it.
                return;
            },
        }
    }
}

fn ended(joined: Result<Outcomes, tokio::task::JoinError>) -> Outcomes {
    joined.unwrap_or(Err(Failure::Broken))
}

fn failed(error: &callgate_wire::RpcError, round: &OnRecord) -> Outcome<'static> {
    Outcome {
        status: Status::Error,
        effect: Effect::None,
        duration_us: microseconds(round.started),
        response: None,
        error: Some(callgate_record::Failed {
            code: error.code,
            message: error.message.clone(),
        }),
    }
}

fn microseconds(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX)
}
