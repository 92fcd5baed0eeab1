//! Questions of servers to hosts: sampling, elicitation, roots. Each is decided like a call, by the same policy, and is on
//! record below the call that it belongs to, with the host's answer.
//!
//! A question whose rule asks for a person is refused: its call is under way at the server and cannot be held.

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
    Era, Frame, Id, Json, RpcError, Strictness, bridge, message, methods, stateless::INPUT_REQUESTS,
};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use super::{CallPath, Shared};
use crate::{
    AskFailed, Caller, CallerDriven, Reply, Resident, events, facts::account_of, finish::no_record,
    inspect::failed,
};

/// The rule named when a question would need a person's yes.
const NEEDS_PERSON_RULE: &str = "deny:gateway:question_needs_approval";
/// The rule named when two readers could understand a question differently.
const UNCLEAR_RULE: &str = "deny:gateway:unclear_question";

/// What a question belongs to: the call that is under way, or a session.
#[derive(Debug, Clone)]
pub(super) struct About {
    parent: Option<CallId>,
    via: Option<Arc<str>>,
    host: Arc<Host>,
    door: Door,
    server: ServerName,
}

impl About {
    /// The call that is under way.
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

/// A question that is on record and has no answer yet.
struct OpenQuestion {
    open: Open,
    asked: Instant,
}

/// The way to a host on which every question is decided first.
pub(super) struct Gated {
    path: Weak<Shared>,
    about: About,
    host: Arc<dyn Caller>,
}

impl Gated {
    pub(super) fn new(path: &Arc<Shared>, about: About, host: Arc<dyn Caller>) -> Arc<Self> {
        let path = Arc::downgrade(path);
        Arc::new(Self { path, about, host })
    }
}

impl fmt::Debug for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gated").finish_non_exhaustive()
    }
}

impl Caller for Gated {
    fn notify(&self, notification: Bytes) {
        self.host.notify(notification);
    }

    fn keep_alive(&self) {
        self.host.keep_alive();
    }

    fn ask(&self, request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async move {
            let path = self.path.upgrade().ok_or(AskFailed::Gone)?;
            let (about, host, tasks) = (self.about.clone(), self.host.clone(), path.tasks.clone());
            // A server that gives its question up leaves the record to be ended, so that goes on by itself.
            let given_up = CancellationToken::new();
            let _given_up = given_up.clone().drop_guard();
            let asking = async move { path.put_question(&about, request, &*host, given_up).await };
            CallerDriven::new(asking, tasks).await
        })
    }
}

/// A host that can be asked outside of any call.
struct Standing {
    path: Weak<Shared>,
    host: Arc<Host>,
    door: Door,
    caller: Arc<dyn Caller>,
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").finish_non_exhaustive()
    }
}

impl Resident for Standing {
    fn asked_by(&self, server: &ServerName) -> Arc<dyn Caller> {
        let about = About {
            parent: None,
            via: None,
            host: self.host.clone(),
            door: self.door,
            server: server.clone(),
        };
        Arc::new(Gated {
            path: self.path.clone(),
            about,
            host: self.caller.clone(),
        })
    }
}

impl CallPath {
    /// A host that servers may ask outside of any call, for [`attach`](crate::Providers::attach).
    pub fn resident(
        &self,
        host: Arc<Host>,
        door: Door,
        caller: Arc<dyn Caller>,
    ) -> Arc<dyn Resident> {
        Arc::new(Standing {
            path: Arc::downgrade(&self.shared),
            host,
            door,
            caller,
        })
    }
}

impl Shared {
    /// Decides a question, puts it on record, asks the host, and puts the answer on record.
    async fn put_question(
        &self,
        about: &About,
        request: Frame,
        host: &dyn Caller,
        given_up: CancellationToken,
    ) -> Result<Frame, AskFailed> {
        let question = self.admit(about, request.clone()).await?;
        let asked = tokio::select! {
            biased;
            asked = host.ask(request) => asked,
            () = given_up.cancelled() => Err(AskFailed::Gone),
        };
        let (status, effect) = match &asked {
            Ok(reply) if reply.error().is_some() => (Status::Error, Effect::Done),
            Ok(_) => (Status::Success, Effect::Done),
            Err(AskFailed::Denied(_) | AskFailed::NoWay) => (Status::Error, Effect::None),
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

    /// Decides about the questions that a reply carries to its host, and puts them on record. Their answers come with
    /// another request.
    pub(super) async fn questions_in(
        &self,
        about: &About,
        questions: Vec<Frame>,
    ) -> Result<(), Box<Ruling>> {
        let mut open = Vec::new();
        let mut refused = None;
        for question in questions {
            match self.admit(about, question).await {
                Ok(question) => open.push(question),
                Err(AskFailed::Denied(ruling)) => {
                    refused = Some(ruling);
                    break;
                }
                Err(AskFailed::NoWay | AskFailed::Gone | AskFailed::TimedOut) => {}
            }
        }
        for OpenQuestion { open, asked } in open {
            let (status, effect) = match refused {
                None => (Status::Success, Effect::Unknown),
                // Its reply is not passed on, so it was not asked.
                Some(_) => (Status::Error, Effect::None),
            };
            let outcome = Outcome {
                status,
                effect,
                duration_us: microseconds(asked),
                response: None,
                error: refused.as_ref().map(|_| Failed {
                    code: 0,
                    message: "another question of the same answer is denied".to_owned(),
                }),
            };
            self.recorder.finished(open, outcome).await;
        }
        refused.map_or(Ok(()), Err)
    }

    /// Decides a question and puts it on record.
    async fn admit(&self, about: &About, request: Frame) -> Result<OpenQuestion, AskFailed> {
        let asked = Instant::now();
        let is_clear = Frame::parse(request.bytes().clone(), Strictness::Full).is_ok();
        let method = request.method().unwrap_or_default().to_owned();
        let attempt = Attempt {
            id: CallId(Ulid::generate()),
            parent: about.parent,
            via: about.via.clone(),
            host: about.host.clone(),
            door: Door {
                source: Source::Server,
                ..about.door
            },
            frame: request,
            declared: None,
        };
        let target = Target::Method {
            server: about.server.clone(),
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
                let reason = "two readers could understand this question differently";
                return Err(self.refuse_question(&permit.refuse(UNCLEAR_RULE, reason)));
            }
            Verdict::Hold(hold) => {
                let reason = "it needs approval, and a question of a server cannot be held";
                return Err(self.refuse_question(&hold.refuse(NEEDS_PERSON_RULE, reason)));
            }
            Verdict::Deny(denied) => return Err(self.refuse_question(&denied)),
        };
        match self.about_to_forward(permit).await {
            Ok((_, open)) => {
                let account = || account_of(&attempt.host.who);
                self.facts
                    .allowed(account, &target, &policy, gathered)
                    .await;
                Ok(OpenQuestion { open, asked })
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

/// The questions that a reply asks its host, where it reaches the host as it is.
pub(super) fn carried(reply: &Reply, host: Era) -> Vec<Frame> {
    let frame = &reply.frame;
    if reply.era == Era::Stateless && host == Era::Stateless && bridge::asks(frame) {
        let asked = frame.result_member(INPUT_REQUESTS);
        let asked = asked.into_iter().flat_map(Json::members);
        return asked.filter_map(|(_, question)| one(question)).collect();
    }
    let Some(error) = frame.error() else {
        return Vec::new();
    };
    if error.get("code").and_then(Json::as_i64) != Some(RpcError::URL_ELICITATION_REQUIRED) {
        return Vec::new();
    }
    let asked = error.get("data").and_then(|data| data.get("elicitations"));
    let asked = asked.into_iter().flat_map(Json::elements);
    let url = |params: Json<'_>| frame_of(methods::ELICITATION, Some(params));
    asked.filter_map(url).collect()
}

/// A question in an answer. One whose method stands there twice is asked about whole, and found unclear.
fn one(question: Json<'_>) -> Option<Frame> {
    let named = |key: &str| {
        let is_key = move |(name, _): &(Json<'_>, Json<'_>)| name.as_str().as_deref() == Some(key);
        question.members().filter(is_key).count()
    };
    let method = question.get("method").and_then(Json::as_str);
    let method = method.unwrap_or_default();
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
