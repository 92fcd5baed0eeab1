//! Rounds of a call whose stateless server replies with questions and whose host expects requests: the path sends the questions
//! to the host as requests and repeats the call with the answers. Each repetition is decided and recorded like any other
//! call, as a child of the first.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use callgate_gate::{Attempt, CallId, GivenConsent, Ruling, ServerName};
use callgate_wire::{
    Frame, Id, Json, RpcError, Strictness, message, methods, quote,
    stateless::{
        INPUT_REQUESTS, INPUT_RESPONSES, REQUEST_STATE, capability_for, missing_capability,
    },
};
use futures_util::future::try_join_all;
use ulid::Ulid;

use super::{
    CallContext, Shared,
    questions::{GatedCaller, QuestionContext},
};
use crate::{
    AskFailed, Caller, Exchange, Reply,
    finish::{Answer, Refusal, refuse, refused_rounds},
    trace::CallSpan,
};

/// The number of rounds after which the call fails: the server would otherwise keep the host asking for ever.
const MAX_ROUNDS: u32 = 8;
/// The number of questions in one round; a reply with more fails the call.
const MAX_QUESTIONS: usize = 32;
/// The pause, times the round, before a call is repeated for a server that sent a state and no questions.
const PACE: Duration = Duration::from_millis(200);

/// What the rounds of one call share.
#[derive(Clone)]
pub(super) struct Rounds {
    /// The host's request. Each repetition edits this one, so answers of earlier rounds do not pile up.
    original: Frame,
    server: ServerName,
    parent: CallId,
    count: u32,
    /// The approval of the first round, which covers the later ones.
    pub(super) agreed: Option<GivenConsent>,
}

impl Rounds {
    /// A call after its first round.
    pub(super) fn of(attempt: &Attempt, server: ServerName, agreed: Option<GivenConsent>) -> Self {
        Self {
            original: attempt.frame.clone(),
            server,
            parent: attempt.id,
            count: 1,
            agreed,
        }
    }
}

/// Why a call is not repeated.
#[derive(Debug)]
enum NoRound {
    /// The server asked something unusable, or the host did not answer.
    Failed(RpcError),
    /// Policy denies a question.
    Denied(Box<Ruling>),
}

impl Shared {
    /// Asks the host the questions in a reply, and repeats the call with its answers.
    pub(super) async fn repeat(
        self: &Arc<Self>,
        attempt: &Attempt,
        mut rounds: Box<Rounds>,
        reply: &Reply,
        caller: Arc<dyn Caller>,
        span: &CallSpan,
    ) -> Answer {
        let id = attempt.frame.id().cloned();
        // The exchange of the first round is gone with its reply. The registry still has the host's cancellation.
        let cancelled = id.and_then(|id| self.registry.token(&attempt.host.identity.session, &id));
        let exchange = Exchange {
            caller,
            cancelled: cancelled.unwrap_or_default(),
            trace: None,
        };
        let next = match self.next_request(attempt, &rounds, reply, &exchange).await {
            Ok(next) => next,
            Err(NoRound::Failed(error)) => return refused_rounds(&attempt.frame, &error),
            Err(NoRound::Denied(ruling)) => return refuse(attempt, &Refusal::Denied(&ruling)),
        };
        rounds.count += 1;
        let again = Attempt {
            id: CallId(Ulid::generate()),
            parent: Some(rounds.parent),
            via: attempt.via.clone(),
            frame: next,
            host: attempt.host.clone(),
            door: attempt.door,
            declared: attempt.declared.clone(),
        };
        let context = CallContext {
            started: Instant::now(),
            exchange,
            span,
            rounds: Some(rounds),
        };
        // From the top: policy may have changed, and a server must not get past it by asking once.
        self.steps(again, context).await
    }

    async fn next_request(
        self: &Arc<Self>,
        attempt: &Attempt,
        rounds: &Rounds,
        reply: &Reply,
        exchange: &Exchange,
    ) -> Result<Frame, NoRound> {
        if rounds.count >= MAX_ROUNDS {
            let message = format!("the server still asked questions after {MAX_ROUNDS} rounds");
            return Err(internal(&message));
        }
        let questions = reply.frame.result_member(INPUT_REQUESTS);
        let questions: Vec<_> = questions.into_iter().flat_map(Json::members).collect();
        let state = reply.frame.result_member(REQUEST_STATE);
        if questions.len() > MAX_QUESTIONS || (questions.is_empty() && state.is_none()) {
            return Err(internal("the server asked too many questions, or none"));
        }
        let question_context = QuestionContext::call(attempt, &rounds.server);
        let gated = GatedCaller::of_reply(self, question_context, exchange.caller.clone());
        // All requests are built before the first is sent: the host is not asked for a round that fails anyway.
        let mut asking = Vec::new();
        for (number, (key, question)) in questions.iter().enumerate() {
            let request = question_of(*question, number, &attempt.host.capabilities)?;
            asking.push(ask(&gated, key.as_text(), request));
        }
        let asked = async {
            // A server that only wants to be called again would otherwise spin with the gateway.
            if asking.is_empty() {
                tokio::time::sleep(PACE * rounds.count).await;
            }
            try_join_all(asking).await
        };
        let answers = tokio::select! {
            answers = asked => answers?,
            () = exchange.cancelled.cancelled() => return Err(internal("cancelled by the host")),
        };
        let mut edit = rounds.original.edit();
        if !answers.is_empty() {
            edit = edit.param(INPUT_RESPONSES, &format!("{{{}}}", answers.join(",")));
        }
        if let Some(state) = state {
            edit = edit.param(REQUEST_STATE, state.as_text());
        }
        let unreadable = |_| internal("the call could not be repeated with the host's answers");
        Frame::parse(edit.finish(), Strictness::Full).map_err(unreadable)
    }
}

/// A question as a request; an error where the host does not declare the capability for it.
fn question_of(question: Json<'_>, number: usize, declared: &str) -> Result<Frame, NoRound> {
    let method = question
        .get("method")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let Some(needed) = capability_for(&method) else {
        return Err(internal("the server asked a question of an unknown kind"));
    };
    let declares = Json::validate(declared.as_bytes(), Strictness::Envelope)
        .is_ok_and(|declared| declared.get(needed).is_some());
    if !declares {
        return Err(internal(&missing_capability(needed).message));
    }
    let params = question.get("params").map(Json::as_text);
    let request = message::request(&Id::number(number as u64), &method, params);
    let frame = Frame::parse(request, Strictness::Envelope);
    let frame = frame.map_err(|_| internal("the server's question is not a valid request"))?;
    let mode = frame.param("mode").and_then(Json::as_str);
    if method != methods::ELICITATION || mode.as_deref() != Some("url") {
        return Ok(frame);
    }
    // The handshake versions require an `elicitationId` for a page that is opened in a browser; the stateless one has none.
    let name = quote(&Ulid::generate().to_string());
    let named = frame.edit().param("elicitationId", &name).finish();
    Frame::parse(named, Strictness::Envelope)
        .map_err(|_| internal("the server's question is not a valid request"))
}

/// The host's answer as a member of `inputResponses`.
async fn ask(caller: &dyn Caller, key: &str, request: Frame) -> Result<String, NoRound> {
    let method = request.method().unwrap_or_default().to_owned();
    match caller.ask(request).await {
        Ok(reply) => match reply.result() {
            Some(result) => Ok(format!("{key}:{}", result.as_text())),
            None => Err(internal(&format!(
                "the host answered `{method}` with an error"
            ))),
        },
        Err(AskFailed::Denied(ruling)) => Err(NoRound::Denied(ruling)),
        Err(failed @ (AskFailed::NoWay | AskFailed::Gone | AskFailed::TimedOut)) => {
            Err(internal(&format!("`{method}`: {failed}")))
        }
    }
}

// The effect is unknown: the server may have done part of the call before it asked.
fn internal(message: &str) -> NoRound {
    NoRound::Failed(RpcError::new(RpcError::INTERNAL, message).with_data(r#"{"effect":"unknown"}"#))
}
