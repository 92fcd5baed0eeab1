//! One host's session, whatever door it came through: its handshake, its questions, and what
//! becomes of each frame.

use std::{
    future::ready,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use callgate_call::{Caller, Pending, Received, TraceContext};
use callgate_gate::{Door, Host, View, Who};
use callgate_wire::{
    Admission, Era, Frame, FrameKind, Handshake, Id, Pieces, ProtocolVersion, RpcError,
    SessionState, message, methods, quote,
};
use futures_util::future::BoxFuture;

use crate::{
    Gateway,
    asks::Asks,
    follow::follow,
    introduce::introduction,
    list::Wanted,
    tasks::list_tasks,
    view::{self, Shape, Taken},
};

/// What the names of notifications begin with. Anything else is a request, whatever it looks like.
const NOTIFICATIONS: &str = "notifications/";

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) asks: Arc<Asks>,
    gateway: Gateway,
    door: Door,
    principal: String,
    state: Mutex<SessionState>,
    host: OnceLock<Arc<Host>>,
}

impl Session {
    /// A fresh session of an authenticated principal.
    pub(crate) fn new(gateway: Gateway, door: Door, principal: &str, id: String) -> Self {
        Self {
            id,
            asks: Arc::default(),
            gateway,
            door,
            principal: principal.to_owned(),
            state: Mutex::default(),
            host: OnceLock::new(),
        }
    }

    /// The host, once it introduced itself.
    pub(crate) fn host(&self) -> Option<&Arc<Host>> {
        self.host.get()
    }

    /// What authenticated the session.
    pub(crate) fn principal(&self) -> &str {
        &self.principal
    }

    /// The version that the session speaks, once that is settled.
    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.state().handshake().map(|handshake| handshake.version)
    }

    /// Takes a request and answers it; `None` when it was cancelled: then the host wants no answer.
    ///
    /// A call has started when this returns, so that a cancellation right behind it finds it.
    pub(crate) fn answer(&self, request: Frame, aside: Aside) -> Answering {
        let Aside {
            view,
            caller,
            trace,
        } = aside;
        let Some(id) = request.id().cloned() else {
            return Answering::AtOnce(None);
        };
        if let Some(error) = stateless(&request, None) {
            return at_once(&id, Err(error));
        }
        let admission = self.state().on_request(&request);
        match admission {
            Err(error) => at_once(&id, Err(error)),
            Ok(Admission::Initialize(version)) => at_once(&id, Ok(self.introduce(version))),
            Ok(Admission::Answer) => match (request.method(), self.host().cloned()) {
                (Some(methods::PING), _) | (_, None) => at_once(&id, Ok("{}".to_owned())),
                (
                    Some(methods::RESOURCES_SUBSCRIBE | methods::RESOURCES_UNSUBSCRIBE),
                    Some(host),
                ) => {
                    let providers = self.gateway.path.providers().clone();
                    Answering::own(async move { follow(&*providers, &host, &id, request).await })
                }
                (Some(methods::SET_LEVEL), Some(host)) => {
                    let providers = self.gateway.path.providers().clone();
                    Answering::own(async move {
                        providers.set_level(&host, request).await;
                        answer(&id, Ok("{}".to_owned()))
                    })
                }
                (Some(methods::TASKS_LIST), Some(host)) if self.has_several_servers() => {
                    let providers = self.gateway.path.providers().clone();
                    Answering::own(async move {
                        answer(&id, list_tasks(&*providers, &host, &request).await)
                    })
                }
                (method, Some(host)) if let Some(wanted) = method.and_then(Wanted::of) => {
                    let gateway = self.gateway.clone();
                    Answering::own(async move {
                        let listed = view::list(&gateway, view, &host, wanted, &request);
                        answer(&id, listed.await)
                    })
                }
                (_, Some(host)) => match view::take(&self.gateway, view, &host, request) {
                    Taken::Call {
                        frame,
                        reading,
                        shape,
                    } => {
                        let received = Received {
                            frame,
                            host,
                            door: self.door,
                            trace,
                            reading,
                        };
                        let pending = self.gateway.path.start(received, caller);
                        Answering::Call { pending, shape }
                    }
                    Taken::Own(answering) => {
                        Answering::own(async move { answer(&id, answering.await) })
                    }
                },
            },
        }
    }

    /// Takes a notification. A cancellation has taken effect when this returns; what is to be
    /// passed on to servers is passed on by the future.
    pub(crate) fn notified(&self, notification: Frame) -> BoxFuture<'static, ()> {
        self.state().on_notification(&notification);
        let Some(host) = self.host().cloned() else {
            return Box::pin(ready(()));
        };
        match notification.method() {
            // Each upstream connection has a handshake of its own, and progress on our own
            // questions has nowhere to go.
            Some(methods::INITIALIZED | methods::PROGRESS) | None => Box::pin(ready(())),
            Some(methods::CANCELLED) => {
                let id = notification.param("requestId").and_then(Id::from_json);
                if let Some(id) = id {
                    self.gateway.path.registry().cancel(&self.id, &id);
                }
                Box::pin(ready(()))
            }
            Some(method) if method.starts_with(NOTIFICATIONS) => {
                let providers = self.gateway.path.providers().clone();
                Box::pin(async move { providers.tell_all(&host, notification).await })
            }
            // A request without an id: some servers would do what it says all the same, and it
            // would be neither decided nor on record.
            Some(_) => {
                let error = "a request came without an id and was not passed on";
                self.gateway.frame_error(self.door.transport, error);
                Box::pin(ready(()))
            }
        }
    }

    /// Ends the session: its calls are cancelled, and it can be asked nothing any more.
    pub(crate) fn end(&self) {
        self.gateway.views.results.forget(&self.id);
        self.gateway.path.registry().cancel_session(&self.id);
        self.gateway.path.providers().detach(&self.id);
    }

    /// Whether a request that names no server could be for several.
    fn has_several_servers(&self) -> bool {
        let providers = self.gateway.path.providers();
        providers.catalog().only_server().is_none()
    }

    fn introduce(&self, version: ProtocolVersion) -> String {
        if let Some(handshake) = self.state().handshake() {
            // A second introduction is refused before it gets here.
            let _ = self.host.set(Arc::new(self.read_host(handshake)));
        }
        introduction(&**self.gateway.path.providers(), version)
    }

    fn read_host(&self, handshake: &Handshake) -> Host {
        let one_line = |raw: &str| raw.replace(['\n', '\r'], " ");
        let who = Who {
            tenant: "local".to_owned(),
            principal: self.principal.clone(),
            agent: handshake
                .client_name()
                .unwrap_or_else(|| "anonymous".to_owned()),
            session: self.id.clone(),
        };
        Host {
            who,
            client_info: handshake.client_info.as_deref().map(one_line),
            capabilities: one_line(&handshake.capabilities),
        }
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What comes with a request and is no part of it.
pub(crate) struct Aside {
    /// What the host sees.
    pub(crate) view: View,
    /// The host's side of the request.
    pub(crate) caller: Arc<dyn Caller>,
    /// What was said beside the request about the trace it is part of.
    pub(crate) trace: Option<TraceContext>,
}

/// A request that is being answered. Whoever waits for the answer does the work.
pub(crate) enum Answering {
    /// The answer is there; `None` when the host wants none.
    AtOnce(Option<Pieces>),
    /// Something of our own.
    Own(BoxFuture<'static, Bytes>),
    /// A call, which is cancelled when this is dropped.
    Call {
        /// The call.
        pending: Pending,
        /// What becomes of its answer; nothing in most views.
        shape: Option<Shape>,
    },
}

impl Answering {
    fn own(answering: impl Future<Output = Bytes> + Send + 'static) -> Self {
        Self::Own(Box::pin(answering))
    }

    /// Lets a call go on however seldom it is waited for from now on.
    pub(crate) fn hand_over(&mut self) {
        match self {
            Self::Call { pending, .. } => pending.hand_over(),
            Self::AtOnce(_) | Self::Own(_) => {}
        }
    }
}

impl Future for Answering {
    type Output = Option<Pieces>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Pieces>> {
        match self.get_mut() {
            Self::AtOnce(answer) => Poll::Ready(answer.take()),
            Self::Own(answering) => answering
                .as_mut()
                .poll(context)
                .map(|answer| Some(answer.into())),
            Self::Call { pending, shape } => {
                let answered = pending.poll_answer(context);
                match shape.take_if(|_| answered.is_ready()) {
                    Some(shape) => answered.map(|answer| answer.map(shape)),
                    None => answered,
                }
            }
        }
    }
}

fn at_once(id: &Id, own: Result<String, RpcError>) -> Answering {
    Answering::AtOnce(Some(answer(id, own).into()))
}

fn answer(id: &Id, own: Result<String, RpcError>) -> Bytes {
    match own {
        Ok(result) => message::result(id, &result),
        Err(error) => message::error(Some(id), &error),
    }
}

/// The stateless form of 2026-07-28 is recognised, and refused with the versions that are spoken.
/// `header` is the request's `MCP-Protocol-Version`, where there is one.
pub(crate) fn stateless(request: &Frame, header: Option<&str>) -> Option<RpcError> {
    if request.kind() != FrameKind::Request || Era::of(request, header) == Era::Handshake {
        return None;
    }
    let requested = request
        .meta(callgate_wire::PROTOCOL_VERSION_META)
        .map(|version| version.as_text().to_owned())
        .or_else(|| header.map(quote))
        .unwrap_or_else(|| "null".to_owned());
    let supported: Vec<String> = ProtocolVersion::HANDSHAKE
        .iter()
        .map(|v| quote(v.as_str()))
        .collect();
    let data = format!(
        r#"{{"supported":[{}],"requested":{requested}}}"#,
        supported.join(",")
    );
    let message = "protocol versions of the stateless form are not served yet; use `initialize`";
    Some(RpcError::new(RpcError::UNSUPPORTED_VERSION, message).with_data(data))
}
