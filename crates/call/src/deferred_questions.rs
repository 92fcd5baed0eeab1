//! The host's side of a call whose host is never sent a request: questions of the server are kept here
//! until a round ends and they are asked in its answer.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use callgate_gate::Attempt;
use callgate_wire::{
    Frame, Id, Json, JsonKind, RpcError, Strictness, message, methods, quote,
    stateless::{self, LOG_LEVEL_META, LogLevel},
};
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, oneshot};

use crate::{AskFailed, Caller};

/// After a question, how long others are waited for that are asked at the same time.
const BATCH: Duration = Duration::from_millis(20);
/// Questions of one call that may be open at once; more are not asked.
const MAX_OPEN: usize = 32;

/// The questions of one call, and the way to its host in the current round.
pub(crate) struct DeferredQuestions {
    capabilities: String,
    state: Mutex<State>,
    news: Notify,
}

struct State {
    round: Round,
    open: Vec<Question>,
    asked: u64,
    /// What the server asked for and the host cannot give.
    missing: Option<&'static str>,
}

/// What belongs to the current request of the host.
struct Round {
    /// Nobody while the call is parked: the host may have gone, and nothing of it is to be kept.
    caller: Option<Arc<dyn Caller>>,
    level: Option<LogLevel>,
    /// What progress is told under, where that is not what the server was given.
    progress: Progress,
}

enum Progress {
    /// The server's notifications carry the right token.
    AsItIs,
    /// They get this one.
    Under(String),
    /// The host of this round wants none.
    Untold,
}

struct Question {
    number: u64,
    key: String,
    frame: Frame,
    reply: oneshot::Sender<Frame>,
}

impl fmt::Debug for DeferredQuestions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredQuestions").finish_non_exhaustive()
    }
}

impl DeferredQuestions {
    /// The tray of a call in its first round.
    pub(crate) fn new(attempt: &Attempt, caller: Arc<dyn Caller>) -> Arc<Self> {
        let round = Round {
            caller: Some(caller),
            level: level(&attempt.frame),
            progress: Progress::AsItIs,
        };
        Arc::new(Self {
            capabilities: attempt.host.capabilities.clone(),
            state: Mutex::new(State {
                round,
                open: Vec::new(),
                asked: 0,
                missing: None,
            }),
            news: Notify::new(),
        })
    }

    /// Goes on in another round: what the server says from now on belongs to that request.
    pub(crate) fn take_over(&self, request: &Frame, caller: Arc<dyn Caller>) {
        let token = request.meta("progressToken");
        let progress = token.map_or(Progress::Untold, |token| {
            Progress::Under(token.as_text().to_owned())
        });
        self.lock().round = Round {
            caller: Some(caller),
            level: level(request),
            progress,
        };
    }

    /// Ends a round: until the next one nobody hears what the server says.
    pub(crate) fn rest(&self) {
        self.lock().round.caller = None;
    }

    /// Waits until there are questions, and those that come with them.
    pub(crate) async fn gathered(&self) {
        while self.lock().open.is_empty() {
            self.news.notified().await;
        }
        let mut known = 0;
        while known != self.lock().open.len() {
            known = self.lock().open.len();
            tokio::time::sleep(BATCH).await;
        }
    }

    /// Hands the host's answers to those who asked. What is missing, or cannot be an answer, stays open.
    pub(crate) fn answer(&self, responses: Option<Json<'_>>) {
        let mut state = self.lock();
        for question in std::mem::take(&mut state.open) {
            let given = responses.and_then(|responses| responses.get(&question.key));
            let reply = given
                .filter(|given| question.takes(*given))
                .and_then(|given| question.reply(given));
            match reply {
                Some(reply) => drop(question.reply.send(reply)),
                None => state.open.push(question),
            }
        }
    }

    /// The open questions as `inputRequests`.
    pub(crate) fn questions(&self) -> String {
        let state = self.lock();
        let asked: Vec<String> = state.open.iter().map(Question::as_member).collect();
        format!("{{{}}}", asked.join(","))
    }

    /// What the host would have to declare for this call, if it was asked something that it cannot do.
    pub(crate) fn missing(&self) -> Option<RpcError> {
        self.lock().missing.map(stateless::missing_capability)
    }

    fn declares(&self, capability: &str) -> bool {
        Json::validate(self.capabilities.as_bytes(), Strictness::Envelope)
            .is_ok_and(|declared| declared.get(capability).is_some())
    }

    fn enter(&self, frame: Frame) -> Option<(u64, oneshot::Receiver<Frame>)> {
        let mut state = self.lock();
        if state.open.len() >= MAX_OPEN {
            return None;
        }
        state.asked += 1;
        let number = state.asked;
        let name = frame.id().map(name_of).unwrap_or_default();
        let taken = state.open.iter().any(|other| other.key == name);
        let key = if taken || name.is_empty() {
            format!("{name}.{number}")
        } else {
            name
        };
        let (reply, receiver) = oneshot::channel();
        state.open.push(Question {
            number,
            key,
            frame,
            reply,
        });
        drop(state);
        self.news.notify_one();
        Some((number, receiver))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller for DeferredQuestions {
    /// Only what belongs to a request is told beside its answer: progress, and the log messages that it
    /// asked for. Changes are told to who listens for them.
    fn notify(&self, notification: Bytes) {
        let Ok(frame) = Frame::parse(notification.clone(), Strictness::Envelope) else {
            return;
        };
        let state = self.lock();
        let round = &state.round;
        let Some(caller) = &round.caller else {
            return;
        };
        match frame.method() {
            Some(methods::PROGRESS) => match &round.progress {
                Progress::AsItIs => caller.notify(notification),
                Progress::Under(token) => {
                    let told = frame.edit().param("progressToken", token).finish();
                    caller.notify(told);
                }
                Progress::Untold => {}
            },
            Some(methods::MESSAGE) => {
                let level = frame.param("level").and_then(LogLevel::read);
                let wanted = round
                    .level
                    .is_some_and(|wanted| level.unwrap_or(LogLevel::Emergency) >= wanted);
                if wanted {
                    caller.notify(notification);
                }
            }
            Some(
                methods::TOOLS_CHANGED
                | methods::PROMPTS_CHANGED
                | methods::RESOURCES_CHANGED
                | methods::RESOURCE_UPDATED
                | methods::ELICITATION_COMPLETE,
            )
            | None => {}
            Some(_) => caller.notify(notification),
        }
    }

    fn ask(&self, request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async move {
            let needed = request.method().and_then(stateless::capability_for);
            let needed = needed.ok_or(AskFailed::NoWay)?;
            if !self.declares(needed) {
                self.lock().missing = Some(needed);
                return Err(AskFailed::NoWay);
            }
            let (number, reply) = self.enter(request).ok_or(AskFailed::NoWay)?;
            let _open = OpenQuestion {
                questions: self,
                number,
            };
            reply.await.map_err(|_| AskFailed::Gone)
        })
    }
}

/// A question that is open as long as somebody waits for its answer.
struct OpenQuestion<'a> {
    questions: &'a DeferredQuestions,
    number: u64,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        let number = self.number;
        self.questions
            .lock()
            .open
            .retain(|question| question.number != number);
    }
}

impl Question {
    /// The question as a member of `inputRequests`. What names an elicitation is gone in this form.
    fn as_member(&self) -> String {
        let plain = self
            .frame
            .edit()
            .remove_members(&["elicitationId"])
            .finish();
        let plain = Frame::parse(plain, Strictness::Envelope).ok();
        let frame = plain.as_ref().unwrap_or(&self.frame);
        let params = frame.params().map_or("{}", Json::as_text);
        let method = quote(frame.method().unwrap_or_default());
        format!(
            r#"{}:{{"method":{method},"params":{params}}}"#,
            quote(&self.key)
        )
    }

    /// Whether this can be an answer at all.
    fn takes(&self, given: Json<'_>) -> bool {
        let kind = |key: &str| given.get(key).map(Json::kind);
        match self.frame.method() {
            Some(methods::ELICITATION) => {
                let action = given.get("action").and_then(Json::as_str);
                matches!(action.as_deref(), Some("accept" | "decline" | "cancel"))
            }
            Some(methods::ROOTS_LIST) => kind("roots") == Some(JsonKind::Array),
            Some(methods::SAMPLING) => {
                kind("role") == Some(JsonKind::String)
                    && matches!(kind("content"), Some(JsonKind::Object | JsonKind::Array))
            }
            Some(_) | None => false,
        }
    }

    fn reply(&self, given: Json<'_>) -> Option<Frame> {
        let reply = message::result(self.frame.id()?, given.as_text());
        Frame::parse(reply, Strictness::Envelope).ok()
    }
}

/// What a question is called: the server's own id, where it is a text.
fn name_of(id: &Id) -> String {
    let json = Json::validate(id.raw().as_bytes(), Strictness::Full).ok();
    let text = json.and_then(|json| json.as_str().map(|text| text.into_owned()));
    text.unwrap_or_else(|| format!("question-{}", id.raw()))
}

fn level(frame: &Frame) -> Option<LogLevel> {
    frame.meta(LOG_LEVEL_META).and_then(LogLevel::read)
}
