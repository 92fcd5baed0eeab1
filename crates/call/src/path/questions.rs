//! Questions from servers to hosts: sampling, elicitation, roots. The same policy decides each one like a call, and the record
//! has it, with the host's answer, below the call that it belongs to.
//!
//! A question whose rule requires approval is denied: its call is already running at the server and cannot be held.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Instant,
};

use bytes::Bytes;
use callgate_gate::{
    Attempt, Call, CallId, Denied, Door, Host, Ruling, ServerName, Source, Target, Verdict, decide,
};
use callgate_record::{Effect, Failed, Open, Outcome, Status};
use callgate_wire::{
    Era, Frame, Id, Json, RpcError, Strictness, message, methods, stateless::INPUT_REQUESTS,
};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use super::{CallPath, Shared};
use crate::{
    AskFailed, Caller, CallerDriven, Reply, Resident, events, facts::account_of, finish::no_record,
    inspect::failed,
};

/// The rule of a question that would need approval.
const NEEDS_PERSON_RULE: &str = "deny:gateway:question_needs_approval";
/// The rule of a question that two JSON parsers could read differently.
const UNCLEAR_RULE: &str = "deny:gateway:unclear_question";

/// What a question belongs to: a call in flight, or a session.
#[derive(Debug, Clone)]
pub(super) struct QuestionContext {
    parent: Option<CallId>,
    via: Option<Arc<str>>,
    host: Arc<Host>,
    door: Door,
    server: ServerName,
}

impl QuestionContext {
    pub(super) fn call(attempt: &Attempt, server: &ServerName) -> Self {
        Self {
            parent: Some(attempt.id),
            via: attempt.via.clone(),
            host: attempt.host.clone(),
            door: attempt.door,
            server: server.clone(),
        }
    }
}

/// A recorded question without an answer.
struct RecordedQuestion {
    open: Open,
    asked: Instant,
}

/// A caller that asks its host only what policy permits.
pub(super) struct GatedCaller {
    // Weak: the path owns the providers, and they own resident hosts, so a strong reference would be a cycle.
    path: Weak<Shared>,
    question_context: QuestionContext,
    host: Arc<dyn Caller>,
    /// Whether the URIs in its questions lead back to their server already: those of a reply do.
    are_links_shown: bool,
}

impl GatedCaller {
    pub(super) fn new(
        path: &Arc<Shared>,
        question_context: QuestionContext,
        host: Arc<dyn Caller>,
    ) -> Arc<Self> {
        Arc::new(Self {
            path: Arc::downgrade(path),
            question_context,
            host,
            are_links_shown: false,
        })
    }

    /// For the questions that a reply consists of.
    pub(super) fn of_reply(
        path: &Arc<Shared>,
        question_context: QuestionContext,
        host: Arc<dyn Caller>,
    ) -> Self {
        Self {
            path: Arc::downgrade(path),
            question_context,
            host,
            are_links_shown: true,
        }
    }
}

impl fmt::Debug for GatedCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatedCaller").finish_non_exhaustive()
    }
}

impl Caller for GatedCaller {
    fn notify(&self, notification: Bytes) {
        self.host.notify(notification);
    }

    fn keep_alive(&self) {
        self.host.keep_alive();
    }

    fn cancel_reason(&self, request: &Id) -> Option<String> {
        self.host.cancel_reason(request)
    }

    fn ask(&self, request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async move {
            let path = self.path.upgrade().ok_or(AskFailed::Gone)?;
            let request = match self.are_links_shown {
                true => request,
                false => {
                    let QuestionContext { server, host, .. } = &self.question_context;
                    let owner = || host.identity.owner();
                    path.providers.links().shown(request, server, owner)
                }
            };
            let (question_context, host, tasks) = (
                self.question_context.clone(),
                self.host.clone(),
                path.tasks.clone(),
            );
            // If the server drops its question, the record entry must still be ended. `CallerDriven` moves the rest to a task
            // of the path, and the drop guard tells that task to stop waiting for the host.
            let given_up = CancellationToken::new();
            let _given_up = given_up.clone().drop_guard();
            let asking = async move {
                path.ask_host(&question_context, request, &*host, given_up)
                    .await
            };
            CallerDriven::new(asking, tasks).await
        })
    }
}

/// A host that can be asked outside of calls.
struct ResidentHost {
    path: Weak<Shared>,
    host: Arc<Host>,
    door: Door,
    caller: Arc<dyn Caller>,
}

impl fmt::Debug for ResidentHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResidentHost").finish_non_exhaustive()
    }
}

impl Resident for ResidentHost {
    fn asked_by(&self, server: &ServerName) -> Arc<dyn Caller> {
        let question_context = QuestionContext {
            parent: None,
            via: None,
            host: self.host.clone(),
            door: self.door,
            server: server.clone(),
        };
        Arc::new(GatedCaller {
            path: self.path.clone(),
            question_context,
            host: self.caller.clone(),
            are_links_shown: false,
        })
    }
}

impl CallPath {
    /// A host that servers may ask outside of calls, for [`attach`](crate::Providers::attach).
    pub fn resident(
        &self,
        host: Arc<Host>,
        door: Door,
        caller: Arc<dyn Caller>,
    ) -> Arc<dyn Resident> {
        Arc::new(ResidentHost {
            path: Arc::downgrade(&self.shared),
            host,
            door,
            caller,
        })
    }
}

impl Shared {
    /// Decides and records a question, asks the host, and records the answer.
    async fn ask_host(
        &self,
        question_context: &QuestionContext,
        request: Frame,
        host: &dyn Caller,
        given_up: CancellationToken,
    ) -> Result<Frame, AskFailed> {
        let question = self.admit(question_context, request.clone()).await?;
        let asked = tokio::select! {
            // An answer that is ready counts, even if the server has given up: the record says what the host answered.
            biased;
            asked = host.ask(request) => asked,
            () = given_up.cancelled() => Err(AskFailed::Gone),
        };
        let (status, effect) = match &asked {
            Ok(reply) if reply.error().is_some() => (Status::Error, Effect::Done),
            Ok(_) => (Status::Success, Effect::Done),
            Err(AskFailed::Denied(_) | AskFailed::NoWay) => (Status::Error, Effect::None),
            // The host may have shown the question to a person before it disconnected.
            Err(AskFailed::Gone | AskFailed::TimedOut) => (Status::Unknown, Effect::Unknown),
        };
        let outcome = Outcome {
            status,
            effect,
            duration_us: microseconds(question.asked),
            response: asked.as_ref().ok().and_then(Frame::result),
            error: match &asked {
                Ok(reply) => reply.error().map(failed),
                Err(why) => Some(Failed {
                    code: 0,
                    message: why.to_string(),
                }),
            },
        };
        self.recorder.finished(question.open, outcome).await;
        asked
    }

    /// Decides and records the questions inside a reply. Their answers arrive with another request.
    pub(super) async fn decide_questions(
        &self,
        question_context: &QuestionContext,
        questions: Vec<Frame>,
    ) -> Result<(), Box<Ruling>> {
        let mut open = Vec::new();
        let mut refused = None;
        for question in questions {
            match self.admit(question_context, question).await {
                Ok(question) => open.push(question),
                Err(AskFailed::Denied(ruling)) => {
                    refused = Some(ruling);
                    break;
                }
                Err(AskFailed::NoWay | AskFailed::Gone | AskFailed::TimedOut) => {}
            }
        }
        // All or none: a reply cannot be passed on with a question cut out, so one denied question denies the others.
        for RecordedQuestion { open, asked } in open {
            let (status, effect) = match refused {
                None => (Status::Success, Effect::Unknown),
                // The reply is withheld, so the host never saw the question.
                Some(_) => (Status::Error, Effect::None),
            };
            let outcome = Outcome {
                status,
                effect,
                duration_us: microseconds(asked),
                response: None,
                error: refused.as_ref().map(|_| Failed {
                    code: 0,
                    message: "another question in the same answer was denied".to_owned(),
                }),
            };
            self.recorder.finished(open, outcome).await;
        }
        refused.map_or(Ok(()), Err)
    }

    /// Decides and records a question.
    async fn admit(
        &self,
        question_context: &QuestionContext,
        request: Frame,
    ) -> Result<RecordedQuestion, AskFailed> {
        let asked = Instant::now();
        // Frames of servers are parsed leniently because replies pass unchanged. A question is decided by its content, so it
        // must read the same to every parser.
        let is_clear = Frame::parse(request.bytes().clone(), Strictness::Full).is_ok();
        let method = request.method().unwrap_or_default().to_owned();
        let attempt = Attempt {
            id: CallId(Ulid::generate()),
            parent: question_context.parent,
            via: question_context.via.clone(),
            host: question_context.host.clone(),
            door: Door {
                source: Source::Server,
                ..question_context.door
            },
            frame: request,
            declared: None,
        };
        let target = Target::Method {
            server: question_context.server.clone(),
            method,
            task: None,
        };
        let policy = self.providers.policy();
        let call = Call {
            attempt: attempt.clone(),
            target: target.clone(),
        };
        let gathered = self.facts.gather(&call, &policy).await;
        let permit = match decide(call, &policy, &gathered.facts) {
            Verdict::Permit(permit) if is_clear => permit,
            Verdict::Permit(permit) => {
                let reason =
                    "the question is ambiguous: two JSON parsers could read it differently";
                return Err(self.refuse_question(&permit.refuse(UNCLEAR_RULE, reason)));
            }
            Verdict::Hold(hold) => {
                let reason = "it needs approval, but a question from a server cannot be held";
                return Err(self.refuse_question(&hold.refuse(NEEDS_PERSON_RULE, reason)));
            }
            Verdict::Deny(denied) => return Err(self.refuse_question(&denied)),
        };
        match self.about_to_forward(permit).await {
            Ok((_, open)) => {
                let account = || account_of(&attempt.host.identity);
                self.facts
                    .allowed(account, &target, &policy, gathered)
                    .await;
                Ok(RecordedQuestion { open, asked })
            }
            Err(error) => {
                self.not_recorded(&attempt, &target, &error);
                Err(AskFailed::Denied(Box::new(no_record())))
            }
        }
    }

    fn refuse_question(&self, denied: &Denied) -> AskFailed {
        self.recorder.denied(denied);
        let Call { attempt, target } = denied.call();
        let ruling = denied.ruling();
        self.telemetry.events.emit(events::calls::Denied {
            attempt,
            target,
            ruling,
        });
        AskFailed::Denied(Box::new(ruling.clone()))
    }
}

/// The questions in a reply that reaches its host unchanged. Where eras differ, the path asks them itself, one by one.
pub(super) fn questions_in_reply(reply: &Reply, host: Era) -> Vec<Frame> {
    let frame = &reply.frame;
    // Also in the state of a task, which is complete although it asks.
    if reply.era == Era::Stateless && host == Era::Stateless {
        let asked = frame.result_member(INPUT_REQUESTS);
        let asked = asked.into_iter().flat_map(Json::members);
        return asked
            .filter_map(|(_, question)| question_frame(question))
            .collect();
    }
    let Some(error) = frame.error() else {
        return Vec::new();
    };
    // Handshake servers can also ask with an error, whose data lists the addresses to open.
    if error.get("code").and_then(Json::as_i64) != Some(RpcError::URL_ELICITATION_REQUIRED) {
        return Vec::new();
    }
    let asked = error.get("data").and_then(|data| data.get("elicitations"));
    let asked = asked.into_iter().flat_map(Json::elements);
    let url = |params: Json<'_>| frame_of(methods::ELICITATION, Some(params));
    asked.filter_map(url).collect()
}

/// The request for a question in a reply.
fn question_frame(question: Json<'_>) -> Option<Frame> {
    let named = |key: &str| {
        let is_key = move |(name, _): &(Json<'_>, Json<'_>)| name.as_str().as_deref() == Some(key);
        question.members().filter(is_key).count()
    };
    let method = question.get("method").and_then(Json::as_str);
    let method = method.unwrap_or_default();
    // With a repeated key the host might read the other one. The whole question becomes the parameters, which `admit` then
    // finds ambiguous.
    let params = if named("method") > 1 || named("params") > 1 {
        Some(question)
    } else {
        question.get("params")
    };
    frame_of(&method, params)
}

fn frame_of(method: &str, params: Option<Json<'_>>) -> Option<Frame> {
    let params = params.map(Json::as_text);
    let request = message::request(&Id::number(0), method, params);
    Frame::parse(request, Strictness::Envelope).ok()
}

fn microseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
