//! Incoming messages of a server: replies, requests to the host, notifications.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use bytes::Bytes;
use callgate_call::{
    Announcement, AskFailed, Audience, Caller, Events, events::upstreams::UpstreamFrameError,
};
use callgate_gate::ServerName;
use callgate_wire::{
    Era, Frame, FrameKind, Id, Rejected, RpcError, Strictness, methods, quote,
    stateless::SUBSCRIPTION_ID_META,
};
use tokio::sync::broadcast;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Profile,
    change_queue::{Change, ChangeQueue},
    levels::Levels,
    link::{Link, Parcel},
    lists::Lists,
    outgoing::{Housekeeping, Message},
    pending::{Ended, Pending, SoleSession},
    subscriptions::Subscriptions,
    tasks::{self, TaskOwners},
};

/// What a connection reads from and reports to.
#[derive(Clone)]
pub(crate) struct Wiring {
    pub(crate) server: ServerName,
    pub(crate) profile: Profile,
    pub(crate) levels: Arc<Levels>,
    /// For notifications that belong to no call.
    pub(crate) announce: broadcast::Sender<Announcement>,
    /// The hosts that share this connection; all hosts until a principal has claimed it.
    pub(crate) claimed: Arc<OnceLock<Audience>>,
    /// For changes that the server announces.
    pub(crate) change_queue: Arc<ChangeQueue>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) tasks: Arc<TaskOwners>,
    /// The host to ask outside of calls, if there is exactly one candidate.
    pub(crate) resident: Arc<dyn Fn() -> Option<Arc<dyn Caller>> + Send + Sync>,
    /// Whether every notification passes, because this is the only provider.
    pub(crate) passes_all: bool,
    pub(crate) events: Events,
}

impl fmt::Debug for Wiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wiring")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Inbound {
    wiring: Wiring,
    pending: Arc<Pending>,
    link: Weak<dyn Link>,
    tasks: TaskTracker,
    asks: Arc<Mutex<HashMap<Id, CancellationToken>>>,
}

impl Inbound {
    pub(crate) fn new(
        wiring: Wiring,
        pending: Arc<Pending>,
        link: Weak<dyn Link>,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            wiring,
            pending,
            link,
            tasks,
            asks: Arc::default(),
        }
    }

    /// Handles a message of the server; `during` is the call that it came with, if the transport shows that.
    /// An invalid frame is reported. If it is recognisable as a reply it ends its request, and if as a request it is refused.
    pub(crate) async fn message(&self, message: Bytes, during: Option<u64>) {
        // Envelope only: a reply passes byte for byte, and a strict scan would drop results that hosts accept.
        match Frame::parse(message.clone(), Strictness::Envelope) {
            Ok(frame) => self.take(frame, during).await,
            Err(error) => {
                let ended = Ended::Unreadable(error.to_string());
                Box::pin(self.reject(&Rejected::of(&message), &error.to_rpc(), ended)).await;
            }
        }
    }

    /// Reports a frame, and ends what it belongs to: its call would otherwise wait for its deadline.
    async fn reject(&self, rejected: &Rejected, error: &RpcError, ended: Ended) {
        self.bad_frame(&error.message);
        if let Some(id) = rejected.answered_id() {
            let refused = Housekeeping::NoAnswer { id, error };
            self.send(Message::housekeeping(&refused, 0)).await;
        } else if let Some(id) = rejected.id.as_ref().and_then(Id::as_u64) {
            self.pending.resolve(id, ended);
        }
    }

    /// Ends request `id`, which will not be answered.
    pub(crate) fn lost(&self, id: u64, ended: Ended) {
        self.pending.resolve(id, ended);
    }

    /// Announces a new session; the server may have restarted.
    pub(crate) fn session_has_changed(&self) {
        self.changed(Change::Session);
    }

    /// Reports a message that exceeded the limit and was dropped.
    pub(crate) fn oversize(&self) {
        self.bad_frame("a message exceeds the frame limit");
    }

    /// Whether `id` still waits for its reply.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        self.pending.is_waiting(id)
    }

    /// Cancels the server's open questions.
    pub(crate) fn close(&self) {
        for (_, ask) in self
            .asks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain()
        {
            ask.cancel();
        }
    }

    async fn take(&self, frame: Frame, during: Option<u64>) {
        match frame.kind() {
            FrameKind::Result | FrameKind::Error => self.reply(frame),
            FrameKind::Request => self.request(frame, during).await,
            FrameKind::Notification => self.notification(frame, during),
        }
    }

    fn reply(&self, frame: Frame) {
        let id = frame.id().and_then(|id| id.raw().parse::<u64>().ok());
        let known = id.is_some_and(|id| self.pending.resolve(id, Ended::Reply(frame)));
        if !known {
            crate::log::reply_ignored(&self.wiring.server);
        }
    }

    async fn request(&self, frame: Frame, during: Option<u64>) {
        let Some(id) = frame.id().cloned() else {
            return;
        };
        if frame.method() == Some(methods::PING) {
            self.send(Message::housekeeping(&Housekeeping::Pong(&id), 0))
                .await;
            return;
        }
        if self.wiring.profile.era == Era::Stateless {
            // A server of this era asks in its results instead.
            self.send(no_answer(
                &id,
                "protocol version 2026-07-28 has no requests to clients",
            ))
            .await;
            return;
        }
        // Noted before the task starts, so that a cancellation that follows at once finds the question.
        let cancelled = CancellationToken::new();
        self.asks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone(), cancelled.clone());
        // A task of its own: the reader must go on, because the host may take minutes to answer.
        let inbound = self.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = inbound.ask(&id, frame, during) => {}
                () = cancelled.cancelled() => {}
            }
            inbound
                .asks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&id);
        });
    }

    /// Forwards the server's question to the host whose call it belongs to, and the answer back.
    async fn ask(&self, id: &Id, request: Frame, during: Option<u64>) {
        let (caller, during) = match self.session_of(during) {
            SoleSession::One(on_behalf) => (Some(on_behalf.caller.clone()), Some(on_behalf)),
            SoleSession::NoCalls => ((self.wiring.resident)(), None),
            SoleSession::Several => (None, None),
        };
        let server = &self.wiring.server;
        let answer = match caller {
            Some(caller) => {
                let _open = during.as_ref().map(|call| call.clock.stop());
                match caller.ask(self.shown(request)).await {
                    Ok(reply) => {
                        let reply = tasks::own(reply, server);
                        Message::housekeeping(&Housekeeping::Answer { id, reply: &reply }, 0)
                    }
                    Err(failed @ AskFailed::Denied(_)) => {
                        refusal(id, RpcError::DENIED, &failed.to_string())
                    }
                    Err(failed @ (AskFailed::NoWay | AskFailed::Gone | AskFailed::TimedOut)) => {
                        no_answer(id, &failed.to_string())
                    }
                }
            }
            None => no_answer(
                id,
                "the gateway cannot determine which host this request is for",
            ),
        };
        self.send(answer).await;
    }

    fn notification(&self, frame: Frame, during: Option<u64>) {
        match frame.method() {
            Some(methods::PROGRESS) => self.progress(&frame),
            Some(methods::TOOLS_CHANGED) => self.changed(Change::Lists(Lists::Tools)),
            Some(methods::PROMPTS_CHANGED) => self.changed(Change::Lists(Lists::Prompts)),
            Some(methods::RESOURCES_CHANGED) => self.changed(Change::Lists(Lists::Resources)),
            Some(methods::RESOURCE_UPDATED) => self.updated(frame),
            Some(methods::CANCELLED) => self.cancelled(&frame),
            Some(methods::ACKNOWLEDGED) => {}
            Some(methods::TASK_STATUS) => self.task_status(frame),
            // The gateway subscribes to no tasks: hosts ask for their state.
            Some(methods::TASK_STATE) => {}
            // A notification of a subscription belongs to no call.
            Some(method) if frame.meta(SUBSCRIPTION_ID_META).is_some() => {
                if self.wiring.passes_all || passes(method) {
                    self.announce(untagged(frame).into_bytes());
                }
            }
            Some(method) if self.wiring.passes_all || passes(method) => {
                let frame = self.shown(frame);
                match self.session_of(during) {
                    SoleSession::One(on_behalf) => on_behalf.caller.notify(frame.into_bytes()),
                    SoleSession::NoCalls | SoleSession::Several => {
                        self.announce(frame.into_bytes());
                    }
                }
            }
            Some(_) | None => {}
        }
    }

    /// The call that a message belongs to: the one it came with, or the only possible one.
    fn session_of(&self, during: Option<u64>) -> SoleSession {
        match during.and_then(|id| self.pending.on_behalf(id)) {
            Some(on_behalf) => SoleSession::One(on_behalf),
            None => self.pending.sole_session(),
        }
    }

    async fn send(&self, message: Message) {
        if let Some(link) = self.link.upgrade() {
            // An ended link has dropped the server's request, so its answer is not needed.
            let _ = link
                .send(Parcel {
                    message,
                    awaits: None,
                })
                .await;
        }
    }

    fn progress(&self, frame: &Frame) {
        let token = frame
            .param("progressToken")
            .and_then(|token| token.as_u64());
        let Some(on_behalf) = token.and_then(|token| self.pending.on_behalf(token)) else {
            return;
        };
        // The server got our id as the token; the host knows only its own.
        if let Some(token) = &on_behalf.progress_token {
            on_behalf
                .caller
                .notify(frame.edit().param("progressToken", token).finish());
        }
    }

    fn cancelled(&self, frame: &Frame) {
        let Some(id) = frame.param("requestId").and_then(|id| Id::from_json(id)) else {
            return;
        };
        if let Some(ask) = self
            .asks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&id)
        {
            ask.cancel();
        }
    }

    /// A message of the server with the task ids that hosts see.
    fn shown(&self, frame: Frame) -> Frame {
        match self.wiring.passes_all {
            true => frame,
            false => tasks::shown(frame, &self.wiring.server),
        }
    }

    fn changed(&self, change: Change) {
        self.wiring.change_queue.push(&self.wiring.profile, change);
    }

    /// Notifies the subscribers of a resource, each with its own spelling of the URI.
    fn updated(&self, frame: Frame) {
        let frame = untagged(frame);
        let uri = frame.param("uri").and_then(|uri| uri.as_str());
        let uri = uri.unwrap_or_default().into_owned();
        let heard = self.wiring.subscriptions.of(&self.wiring.profile, &uri);
        if heard.is_empty() && self.wiring.passes_all {
            self.announce(frame.into_bytes());
            return;
        }
        for (spelled, sessions) in heard {
            let told = match spelled == uri {
                true => frame.bytes().clone(),
                false => frame.edit().param("uri", &quote(&spelled)).finish(),
            };
            self.announce_to(Audience::Sessions(sessions), told);
        }
    }

    /// Forwards a task's status to the token that owns the task, and to no other.
    fn task_status(&self, frame: Frame) {
        let id = frame.param("taskId").and_then(|id| id.as_str());
        let Some(id) = id else { return };
        let owners = self.wiring.tasks.of(&self.wiring.server, &id);
        let shown = self.shown(frame.clone()).into_bytes();
        match self.wiring.claimed.get() {
            Some(audience) if owners.iter().any(|owner| audience.is_of(owner)) => {
                self.announce_to(audience.clone(), shown);
            }
            Some(_) => {}
            // Several tokens may share an unclaimed connection, so the owner decides and not the connection.
            None => {
                for owner in owners {
                    let audience = Audience::Sharing {
                        principal: owner.principal,
                        capabilities: None,
                    };
                    self.announce_to(audience, shown.clone());
                }
            }
        }
    }

    fn announce(&self, frame: Bytes) {
        let audience = self.wiring.claimed.get().unwrap_or(&Audience::All);
        self.announce_to(audience.clone(), frame);
    }

    fn announce_to(&self, audience: Audience, frame: Bytes) {
        // An error only means that no host is listening.
        let _ = self.wiring.announce.send(Announcement {
            audience,
            servers: vec![self.wiring.server.clone()],
            frame,
        });
    }

    pub(crate) async fn too_long(&self, rejected: &Rejected) {
        let error = RpcError::new(RpcError::INVALID_REQUEST, "a line exceeds the frame limit");
        self.reject(rejected, &error, Ended::TooLarge).await;
    }

    fn bad_frame(&self, error: &str) {
        let server = &self.wiring.server;
        self.wiring
            .events
            .emit(UpstreamFrameError { server, error });
    }
}

/// Whether a notification passes with several servers. Those about resources and prompts do not: they use the
/// server's own names, which hosts know under others.
fn passes(method: &str) -> bool {
    !method.starts_with("notifications/resources/") && !method.starts_with("notifications/prompts/")
}

fn no_answer(id: &Id, why: &str) -> Message {
    refusal(id, RpcError::INTERNAL, why)
}

fn refusal(id: &Id, code: i64, why: &str) -> Message {
    let error = RpcError::new(code, why);
    Message::housekeeping(&Housekeeping::NoAnswer { id, error: &error }, 0)
}

/// A notification without the id of our own subscription.
fn untagged(frame: Frame) -> Frame {
    if frame.meta(SUBSCRIPTION_ID_META).is_none() {
        return frame;
    }
    let plain = frame.edit().remove_meta(|key| key == SUBSCRIPTION_ID_META);
    Frame::parse(plain.finish(), Strictness::Envelope).unwrap_or(frame)
}
