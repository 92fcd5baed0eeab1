//! The caller of a call whose host cannot be sent requests: it collects the server's questions until the round ends and its
//! answer carries them to the host.

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

/// How long further questions are waited for after the first: a server that asks several at once is answered in one round.
const BATCH_WINDOW: Duration = Duration::from_millis(20);
/// Open questions per call. A further one fails at the server as if the host could not be asked.
const MAX_OPEN_QUESTIONS: usize = 32;

/// The questions of one call, and its host in the current round.
pub(crate) struct DeferredQuestions {
    capabilities: String,
    state: Mutex<QuestionsState>,
    added: Notify,
}

struct QuestionsState {
    round: HostRound,
    open: Vec<DeferredQuestion>,
    asked: u64,
    /// The capability that the server asked for and the host did not declare.
    missing: Option<&'static str>,
}

/// What belongs to the current request of the host.
struct HostRound {
    /// `None` while the call is parked: the host may be gone, and its connection must not be kept open.
    caller: Option<Arc<dyn Caller>>,
    level: Option<LogLevel>,
    /// How the token of progress notifications is translated.
    progress: ProgressToken,
}

enum ProgressToken {
    /// The first round: the server was given this host's token.
    Unchanged,
    /// A later round, whose request has its own token.
    WithToken(String),
    /// The request of this round asks for no progress.
    Dropped,
}

struct DeferredQuestion {
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
    /// For a call in its first round.
    pub(crate) fn new(attempt: &Attempt, caller: Arc<dyn Caller>) -> Arc<Self> {
        let round = HostRound {
            caller: Some(caller),
            level: level(&attempt.frame),
            progress: ProgressToken::Unchanged,
        };
        Arc::new(Self {
            capabilities: attempt.host.capabilities.clone(),
            state: Mutex::new(QuestionsState {
                round,
                open: Vec::new(),
                asked: 0,
                missing: None,
            }),
            added: Notify::new(),
        })
    }

    /// Begins another round: notifications from now on belong to its request.
    pub(crate) fn attach_host(&self, request: &Frame, caller: Arc<dyn Caller>) {
        let token = request.meta("progressToken");
        let progress = token.map_or(ProgressToken::Dropped, |token| {
            ProgressToken::WithToken(token.as_text().to_owned())
        });
        self.lock().round = HostRound {
            caller: Some(caller),
            level: level(request),
            progress,
        };
    }

    /// Ends a round. Notifications before the next one are dropped.
    pub(crate) fn detach_host(&self) {
        self.lock().round.caller = None;
    }

    /// Waits until there are questions and no more arrive for [`BATCH_WINDOW`].
    pub(crate) async fn collected(&self) {
        while self.lock().open.is_empty() {
            self.added.notified().await;
        }
        let mut known = 0;
        while known != self.lock().open.len() {
            known = self.lock().open.len();
            tokio::time::sleep(BATCH_WINDOW).await;
        }
    }

    /// Delivers the host's answers to the server. A question without a valid answer stays open and is asked again.
    pub(crate) fn answer(&self, responses: Option<Json<'_>>) {
        let mut state = self.lock();
        for question in std::mem::take(&mut state.open) {
            let given = responses.and_then(|responses| responses.get(&question.key));
            let reply = given
                .filter(|given| question.accepts(*given))
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
        let asked: Vec<String> = state.open.iter().map(DeferredQuestion::as_member).collect();
        format!("{{{}}}", asked.join(","))
    }

    /// The error that names the capability which this call needs and the host lacks.
    pub(crate) fn missing(&self) -> Option<RpcError> {
        self.lock().missing.map(stateless::missing_capability)
    }

    fn declares(&self, capability: &str) -> bool {
        Json::validate(self.capabilities.as_bytes(), Strictness::Envelope)
            .is_ok_and(|declared| declared.get(capability).is_some())
    }

    fn add(&self, frame: Frame) -> Option<(u64, oneshot::Receiver<Frame>)> {
        let mut state = self.lock();
        if state.open.len() >= MAX_OPEN_QUESTIONS {
            return None;
        }
        state.asked += 1;
        let number = state.asked;
        let name = frame.id().map(key_of).unwrap_or_default();
        let taken = state.open.iter().any(|other| other.key == name);
        // Keys come from the server's ids, which the host's answers must match. They are made unique here, because a server
        // is free to repeat an id.
        let key = if taken || name.is_empty() {
            format!("{name}.{number}")
        } else {
            name
        };
        let (reply, receiver) = oneshot::channel();
        state.open.push(DeferredQuestion {
            number,
            key,
            frame,
            reply,
        });
        // The lock is released first, so that the woken task does not wait for it.
        drop(state);
        self.added.notify_one();
        Some((number, receiver))
    }

    fn lock(&self) -> MutexGuard<'_, QuestionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller for DeferredQuestions {
    /// Passes on what the stateless era allows beside an answer: progress, and log messages of the level that the request named.
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
                ProgressToken::Unchanged => caller.notify(notification),
                ProgressToken::WithToken(token) => {
                    let told = frame.edit().param("progressToken", token).finish();
                    caller.notify(told);
                }
                ProgressToken::Dropped => {}
            },
            Some(methods::MESSAGE) => {
                let level = frame.param("level").and_then(LogLevel::read);
                // A message without a known level counts as most urgent, so that it is not lost.
                let wanted = round
                    .level
                    .is_some_and(|wanted| level.unwrap_or(LogLevel::Emergency) >= wanted);
                if wanted {
                    caller.notify(notification);
                }
            }
            Some(
                // In this era only a subscription's stream carries changes.
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
                // Kept for the host's answer. The server only learns that the host cannot be asked.
                self.lock().missing = Some(needed);
                return Err(AskFailed::NoWay);
            }
            // Dropped with this future: a question that its server gives up is not asked in the next round.
            let (number, reply) = self.add(request).ok_or(AskFailed::NoWay)?;
            let _open = QuestionGuard {
                questions: self,
                number,
            };
            reply.await.map_err(|_| AskFailed::Gone)
        })
    }
}

/// Removes a question when the server stops waiting for its answer.
struct QuestionGuard<'a> {
    questions: &'a DeferredQuestions,
    number: u64,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        let number = self.number;
        self.questions
            .lock()
            .open
            .retain(|question| question.number != number);
    }
}

impl DeferredQuestion {
    /// The question as a member of `inputRequests`. This form has no `elicitationId`.
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

    /// Whether `given` has the form of an answer. One of another form counts as missing.
    fn accepts(&self, given: Json<'_>) -> bool {
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

/// The key of a question: the server's id if it is a string, else one made from it.
fn key_of(id: &Id) -> String {
    let json = Json::validate(id.raw().as_bytes(), Strictness::Full).ok();
    let text = json.and_then(|json| json.as_str().map(|text| text.into_owned()));
    text.unwrap_or_else(|| format!("question-{}", id.raw()))
}

fn level(frame: &Frame) -> Option<LogLevel> {
    frame.meta(LOG_LEVEL_META).and_then(LogLevel::read)
}
