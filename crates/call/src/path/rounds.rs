//! Rounds of a call whose host cannot be sent requests. When the server asks something, the call is parked and the answer to
//! the host carries the questions; the host's next request brings the answers. The server sees one call.

use std::{sync::Arc, time::Instant};

use callgate_gate::{Attempt, GivenConsent, Permit, Target};
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
    questions::{GatedCaller, QuestionContext},
};
use crate::{
    Exchange, Failure, Reply,
    deferred_questions::DeferredQuestions,
    finish::{Answer, for_stateless_host, rejected},
    forward::forward,
    parking::{Parked, Round},
    trace::CallSpan,
};

/// A round that is recorded as about to be forwarded; its outcome still has to be recorded. Boxed where it is passed on, to
/// keep the future of a call small.
pub(super) struct RecordedRound {
    pub(super) attempt: Attempt,
    pub(super) target: Target,
    pub(super) open: Open,
    pub(super) started: Instant,
    /// The approval that it was permitted by.
    pub(super) agreed: Option<GivenConsent>,
}

type ForwardResult = Result<Reply, Failure>;

/// The end of a call, with the times and the span of the round that saw it.
struct EndedCall<'a> {
    outcome: ForwardResult,
    sent: Instant,
    span: &'a CallSpan,
}

/// What a round waited for.
enum Waited {
    Ended(ForwardResult),
    Questions,
}

impl Shared {
    /// Which round of a call this request is. The request of a returning host is replaced by the one that it stands for.
    pub(super) fn find_round(&self, mut attempt: Attempt) -> Result<(Attempt, Round), Answer> {
        let round = match attempt.host.era {
            // Only stateless hosts are given states.
            Era::Handshake => Round::First,
            Era::Stateless => match self.parking.round_of(&attempt) {
                Ok(round) => round,
                Err(error) => return Err(self.refuse_round(attempt, error)),
            },
        };
        match &round {
            Round::First => {}
            Round::Returned(returning) => attempt.frame = returning.request.clone(),
            Round::Later { parent, .. } => attempt.parent = Some(*parent),
        }
        Ok((attempt, round))
    }

    /// The first round: forwards the call, and parks it if its server asks something.
    pub(super) async fn first_round(
        self: &Arc<Self>,
        recorded: Recorded<Permit>,
        exchange: Exchange,
        round: Box<RecordedRound>,
        span: &CallSpan,
    ) -> Answer {
        let step = span.step("forward");
        let questions = DeferredQuestions::new(&round.attempt, exchange.caller);
        // A token of its own: a parked call outlives this request, whose token fires when its `Pending` is dropped.
        let stop = CancellationToken::new();
        let question_context = QuestionContext::call(&round.attempt, round.target.server());
        let inner = Exchange {
            caller: GatedCaller::new(self, question_context, questions.clone()),
            cancelled: stop.clone(),
            trace: span.outgoing_context(&step, &round.attempt),
        };
        let sent = Instant::now();
        let providers = self.providers.clone();
        // Boxed and 'static, because a parked call moves into a task.
        let mut forwarding: BoxFuture<'static, ForwardResult> =
            Box::pin(async move { forward(&*providers, recorded, inner).await });
        let waited = tokio::select! {
            // The cancellation first, so that an already cancelled call is not sent.
            biased;
            () = exchange.cancelled.cancelled() => {
                stop.cancel();
                Waited::Ended(forwarding.as_mut().await)
            }
            outcome = &mut forwarding => Waited::Ended(outcome),
            () = questions.collected() => Waited::Questions,
        };
        drop(step);
        if let Waited::Ended(outcome) = waited {
            let ended_call = EndedCall {
                outcome,
                sent,
                span,
            };
            return self.end_round(round, ended_call, &questions).await;
        }
        // This round's entry stays open until the call ends, because only then its outcome is known. If the process dies
        // meanwhile, the entry reads `unknown`, which is right.
        let (attempt, parent) = (round.attempt.clone(), round.attempt.id);
        let agreed = round.agreed.clone();
        let until = watch::Sender::new(None);
        let running = self.clone().run_parked(ParkedRun {
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
        Answer::of(self.park_and_ask(parked, &attempt))
    }

    /// A later round: delivers the host's answers to the server's questions and waits again. The permit and the record entry
    /// of this round are for that delivery; the call itself was forwarded in the first round.
    pub(super) async fn next_round(
        self: &Arc<Self>,
        recorded: Recorded<Permit>,
        exchange: Exchange,
        round: Box<RecordedRound>,
        (park, span): (Ulid, &CallSpan),
    ) -> Answer {
        let sent = Instant::now();
        let call = recorded.into_call();
        // Claimed after the round was recorded, not when it was found: two requests with one state both get here, and one
        // of them takes the call.
        let mut parked = match self.parking.claim(park) {
            Ok(parked) => parked,
            Err(error) => {
                let outcome = failed(&error, &round);
                self.recorder.finished(round.open, outcome).await;
                return rejected(&call.attempt.frame, &error);
            }
        };
        let frame = &call.attempt.frame;
        parked.questions.attach_host(frame, exchange.caller);
        // A cancelled request delivers nothing; the select below then ends the call.
        if !exchange.cancelled.is_cancelled() {
            parked.questions.answer(frame.param(INPUT_RESPONSES));
        }
        let questions = parked.questions.clone();
        let waited = tokio::select! {
            // An outcome that is ready wins over a cancellation: the server has done its work.
            biased;
            outcome = &mut parked.running => Waited::Ended(joined(outcome)),
            () = questions.collected() => Waited::Questions,
            () = exchange.cancelled.cancelled() => {
                parked.stop.cancel();
                Waited::Ended(joined((&mut parked.running).await))
            }
        };
        match waited {
            Waited::Ended(outcome) => {
                let ended_call = EndedCall {
                    outcome,
                    sent,
                    span,
                };
                self.end_round(round, ended_call, &questions).await
            }
            Waited::Questions => {
                let answer = self.park_and_ask(parked, &round.attempt);
                // The answers were delivered, and the call goes on: its effect is known in the first round's entry.
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

    /// Parks a call; the answer asks its host.
    fn park_and_ask(&self, parked: Parked, attempt: &Attempt) -> Option<bytes::Bytes> {
        let id = attempt.frame.id()?;
        let questions = parked.questions.questions();
        // Notifications until the next round have no request to belong to, and the host may never return.
        parked.questions.detach_host();
        let state = quote(&self.parking.park(parked, attempt));
        let result = format!(
            r#"{{"resultType":"{INPUT_REQUIRED}","inputRequests":{questions},"requestState":{state}}}"#
        );
        let method = attempt.frame.method().unwrap_or_default();
        Some(for_stateless_host(message::result(id, &result), method))
    }

    /// Ends the round in which the call ended.
    async fn end_round(
        &self,
        round: Box<RecordedRound>,
        ended_call: EndedCall<'_>,
        questions: &DeferredQuestions,
    ) -> Answer {
        let missing = questions
            .missing()
            .map(|error| (error, round.attempt.frame.clone()));
        let EndedCall {
            outcome,
            sent,
            span,
        } = ended_call;
        let answer = self.finish_round(round, sent, outcome, span).await;
        match missing {
            // The error names the capability, whatever the server replied: with it, the host can declare it and try again.
            Some((error, request)) => rejected(&request, &error),
            None => answer,
        }
    }

    /// Waits for a parked call to end, and cancels it when its host does not return in time.
    async fn run_parked(self: Arc<Self>, running: ParkedRun) -> ForwardResult {
        let ParkedRun {
            mut forwarding,
            round,
            sent,
            stop,
            mut until,
        } = running;
        let outcome = tokio::select! {
            biased;
            outcome = &mut forwarding => outcome,
            () = deadline_passed(&mut until) => {
                stop.cancel();
                forwarding.await
            }
        };
        let result = outcome.clone();
        // A silent span: the first round's span ended with that round's answer.
        self.finish_round(round, sent, outcome, &CallSpan::silent())
            .await;
        result
    }
}

/// A parked call, which runs in a task of the path.
struct ParkedRun {
    forwarding: BoxFuture<'static, ForwardResult>,
    round: Box<RecordedRound>,
    sent: Instant,
    stop: CancellationToken,
    until: watch::Receiver<Option<tokio::time::Instant>>,
}

/// Waits for the deadline in `until`, which each round clears and sets again.
async fn deadline_passed(until: &mut watch::Receiver<Option<tokio::time::Instant>>) {
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
                // The sender is in `Parked`. Without it the call cannot be found again.
                return;
            },
        }
    }
}

fn joined(joined: Result<ForwardResult, tokio::task::JoinError>) -> ForwardResult {
    joined.unwrap_or(Err(Failure::Broken))
}

fn failed(error: &callgate_wire::RpcError, round: &RecordedRound) -> Outcome<'static> {
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
