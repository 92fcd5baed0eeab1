//! Rounds of a call whose server answers with questions and whose host wants to be asked: the questions go
//! to the host as requests, and the call is made again with its answers. Each time it is decided and on
//! record like any other, as a child of the first.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use callgate_gate::{Agreed, Attempt, CallId, Ruling, ServerName};
use callgate_wire::{
    Frame, Id, Json, RpcError, Strictness, message, methods, quote,
    stateless::{
        INPUT_REQUESTS, INPUT_RESPONSES, REQUEST_STATE, capability_for, missing_capability,
    },
};
use futures_util::future::try_join_all;
use ulid::Ulid;

use super::{
    Shared, Walk,
    questions::{About, Gated},
};
use crate::{
    AskFailed, Caller, Exchange, Reply,
    finish::{Answer, Refusal, refuse, refused_rounds},
    trace::CallSpan,
};

/// More rounds than this are a server that does not know what it wants.
const MAX_ROUNDS: u32 = 8;
/// Questions of one round that are asked; a server with more is not heard out.
const MAX_QUESTIONS: usize = 32;
/// How long a server is left alone that wants to be asked again and asks nothing, times the round.
const PACE: Duration = Duration::from_millis(200);

/// What all rounds of one call share.
#[derive(Clone)]
pub(super) struct Rounds {
    /// The request as the host made it.
    original: Frame,
    server: ServerName,
    parent: CallId,
    made: u32,
    /// The person's yes that the first of them rests on, and so the others.
    pub(super) agreed: Option<Agreed>,
}

impl Rounds {
    /// A call before its first round.
    pub(super) fn of(attempt: &Attempt, server: ServerName, agreed: Option<Agreed>) -> Self {
        Self {
            original: attempt.frame.clone(),
            server,
            parent: attempt.id,
            made: 1,
            agreed,
        }
    }
}

/// Why there is no next round.
#[derive(Debug)]
enum NoRound {
    /// The server or the host did not do its part.
    Failed(RpcError),
    /// Policy refuses a question.
    Denied(Box<Ruling>),
}

impl Shared {
    /// Asks the host what the server's answer asks, and makes the call again.
    pub(super) async fn repeat(
        self: &Arc<Self>,
        attempt: &Attempt,
        mut rounds: Box<Rounds>,
        reply: &Reply,
        caller: Arc<dyn Caller>,
        span: &CallSpan,
    ) -> Answer {
        let id = attempt.frame.id().cloned();
        let cancelled = id.and_then(|id| self.registry.token(&attempt.host.who.session, &id));
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
        rounds.made += 1;
        let again = Attempt {
            id: CallId(Ulid::generate()),
            parent: Some(rounds.parent),
            via: attempt.via.clone(),
            frame: next,
            host: attempt.host.clone(),
            door: attempt.door,
            declared: attempt.declared.clone(),
        };
        let walk = Walk {
            started: Instant::now(),
            exchange,
            span,
            rounds: Some(rounds),
        };
        self.steps(again, walk).await
    }

    async fn next_request(
        self: &Arc<Self>,
        attempt: &Attempt,
        rounds: &Rounds,
        reply: &Reply,
        exchange: &Exchange,
    ) -> Result<Frame, NoRound> {
        if rounds.made >= MAX_ROUNDS {
            let message = format!("the server still asks after {MAX_ROUNDS} rounds");
            return Err(internal(&message));
        }
        let questions = reply.frame.result_member(INPUT_REQUESTS);
        let questions: Vec<_> = questions.into_iter().flat_map(Json::members).collect();
        let state = reply.frame.result_member(REQUEST_STATE);
        if questions.len() > MAX_QUESTIONS || (questions.is_empty() && state.is_none()) {
            return Err(internal("the server's questions cannot be asked"));
        }
        let about = About::call(attempt, &rounds.server);
        let gated = Gated::new(self, about, exchange.caller.clone());
        let mut asking = Vec::new();
        for (number, (key, question)) in questions.iter().enumerate() {
            let request = question_of(*question, number, &attempt.host.capabilities)?;
            asking.push(ask(&*gated, key.as_text(), request));
        }
        let asked = async {
            if asking.is_empty() {
                tokio::time::sleep(PACE * rounds.made).await;
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
        let unreadable = |_| internal("the server's questions cannot be repeated");
        Frame::parse(edit.finish(), Strictness::Full).map_err(unreadable)
    }
}

/// One question as a request; only what the host said it can be asked.
fn question_of(question: Json<'_>, number: usize, declared: &str) -> Result<Frame, NoRound> {
    let method = question
        .get("method")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let Some(needed) = capability_for(&method) else {
        return Err(internal("the server asks what no host can answer"));
    };
    let declares = Json::validate(declared.as_bytes(), Strictness::Envelope)
        .is_ok_and(|declared| declared.get(needed).is_some());
    if !declares {
        return Err(internal(&missing_capability(needed).message));
    }
    let params = question.get("params").map(Json::as_text);
    let request = message::request(&Id::number(number as u64), &method, params);
    let frame = Frame::parse(request, Strictness::Envelope);
    let frame = frame.map_err(|_| internal("the server's question is no request"))?;
    let mode = frame.param("mode").and_then(Json::as_str);
    if method != methods::ELICITATION || mode.as_deref() != Some("url") {
        return Ok(frame);
    }
    // The handshake versions name what is opened in a browser.
    let name = quote(&Ulid::generate().to_string());
    let named = frame.edit().param("elicitationId", &name).finish();
    Frame::parse(named, Strictness::Envelope)
        .map_err(|_| internal("the server's question is no request"))
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

fn internal(message: &str) -> NoRound {
    NoRound::Failed(RpcError::new(RpcError::INTERNAL, message).with_data(r#"{"effect":"unknown"}"#))
}
