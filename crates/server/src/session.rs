//! One host's session, the same for every door: its handshake, its open questions, and the dispatch of its frames.

use std::{
    collections::HashMap,
    future::ready,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use callgate_call::{Caller, TraceContext};
use callgate_gate::{CallerIdentity, Door, Host, View};
use callgate_wire::{
    Admission, Era, Frame, Handshake, Id, ProtocolVersion, RpcError, SessionState, methods,
    stateless::{Claims, TASKS_EXTENSION, declares_extension, is_removed, missing_extension},
};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{
    Gateway, Principal,
    answering::Answering,
    asks::OpenQuestions,
    follow::follow,
    introduce::{discovery, introduction},
    list::ListKind,
    principal::Pass,
    subscriptions::Subscription,
    tasks::list_tasks,
    view::{self, RequestOrigin, Started},
};

/// The prefix of notification methods. A message without an id and without this prefix is a malformed request.
const NOTIFICATIONS: &str = "notifications/";

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) asks: Arc<OpenQuestions>,
    gateway: Gateway,
    door: Door,
    principal: Arc<Principal>,
    state: Mutex<SessionState>,
    host: OnceLock<Arc<Host>>,
    /// Open subscriptions of the stateless era, by request id.
    listening: Mutex<HashMap<Id, CancellationToken>>,
    closing: CancellationToken,
    pass: Pass,
}

impl Session {
    /// A session that has not been initialized yet.
    pub(crate) fn new(gateway: Gateway, door: Door, principal: Arc<Principal>, id: String) -> Self {
        Self {
            id,
            asks: Arc::default(),
            gateway,
            door,
            principal,
            state: Mutex::default(),
            host: OnceLock::new(),
            listening: Mutex::default(),
            closing: CancellationToken::new(),
            pass: Pass::default(),
        }
    }

    pub(crate) fn door(&self) -> Door {
        self.door
    }

    /// Sets the token that ends the session's subscriptions when the gateway stops.
    pub(crate) fn closing(self, closing: CancellationToken) -> Self {
        Self { closing, ..self }
    }

    /// Sets the pass, for a token that may be revoked while a subscription is open.
    pub(crate) fn with_pass(self, pass: Pass) -> Self {
        Self { pass, ..self }
    }

    /// The host; `None` before `initialize`.
    pub(crate) fn host(&self) -> Option<&Arc<Host>> {
        self.host.get()
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The negotiated protocol version; `None` before `initialize`.
    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.state().handshake().map(|handshake| handshake.version)
    }

    /// Starts a request. The answer is `None` when it was cancelled, since the host then expects none.
    ///
    /// A call is registered when this returns, so a cancellation that follows immediately finds it.
    pub(crate) fn answer(&self, request: Frame, context: RequestContext) -> Answering {
        let Some(id) = request.id().cloned() else {
            return Answering::nothing();
        };
        if Era::of(&request, None) == Era::Stateless {
            return self.answer_stateless(id, request, context);
        }
        // A variable of its own, so that the lock is released before the request is dispatched.
        let admission = self.state().on_request(&request);
        match admission {
            Err(error) => Answering::at_once(&id, Err(error)),
            Ok(Admission::Initialize(version)) => self.introduce(id, version, context.view),
            Ok(Admission::Answer) => match (request.method(), self.host().cloned()) {
                (Some(methods::PING), _) | (_, None) => {
                    Answering::at_once(&id, Ok("{}".to_owned()))
                }
                (
                    Some(methods::RESOURCES_SUBSCRIBE | methods::RESOURCES_UNSUBSCRIBE),
                    Some(host),
                ) => {
                    let providers = self.gateway.path.providers().clone();
                    // Follow builds the answer itself, since the server's reply is returned under the host's id.
                    Answering::lasting(async move {
                        Some(follow(&*providers, &host, &id, request).await)
                    })
                }
                (Some(methods::SET_LEVEL), Some(host)) => {
                    let providers = self.gateway.path.providers().clone();
                    Answering::own(Era::Handshake, id, methods::SET_LEVEL, async move {
                        providers.set_level(&host, request).await;
                        Ok("{}".to_owned())
                    })
                }
                (Some(methods::TASKS_LIST), Some(host)) if self.has_several_servers() => {
                    let providers = self.gateway.path.providers().clone();
                    Answering::own(Era::Handshake, id, methods::TASKS_LIST, async move {
                        list_tasks(&*providers, &host, &request).await
                    })
                }
                (_, Some(host)) => self.serve(id, host, request, context),
            },
        }
    }

    /// Starts a request of the stateless era, which carries its host's identity and capabilities.
    fn answer_stateless(&self, id: Id, request: Frame, context: RequestContext) -> Answering {
        let claims = match Claims::read(&request) {
            Ok(claims) => claims,
            Err(error) => return Answering::at_once(&id, Err(error)),
        };
        let method = request.method().unwrap_or_default();
        // Refused before the view sees them: the path would forward unknown methods to a single server.
        if is_removed(method) {
            let message = format!("method `{method}` not found");
            let error = RpcError::new(RpcError::METHOD_NOT_FOUND, message);
            return Answering::at_once(&id, Err(error));
        }
        let name = claims.client_name();
        let host = self.host_of(
            name,
            claims.client_info.as_deref(),
            &claims.capabilities,
            Era::Stateless,
        );
        let host = Arc::new(host);
        match method {
            methods::DISCOVER => {
                let view = context.view;
                let providers = self.gateway.path.providers().clone();
                let grant = self.principal.grant.clone();
                Answering::own(Era::Stateless, id, methods::DISCOVER, async move {
                    // Capabilities are those of connected servers. An answer before the first connects would lack
                    // them.
                    providers.first_connect(None).await;
                    Ok(discovery(&*providers, &grant, view))
                })
            }
            methods::LISTEN if wants_tasks(&request, &host) => {
                Answering::at_once(&id, Err(missing_extension(TASKS_EXTENSION)))
            }
            methods::LISTEN => self.listen(id, host, request, context.caller),
            _ => self.serve(id, host, request, context),
        }
    }

    /// Starts a request that hosts of both eras can make.
    fn serve(&self, id: Id, host: Arc<Host>, request: Frame, context: RequestContext) -> Answering {
        let RequestContext {
            view,
            caller,
            trace,
        } = context;
        if let Some(wanted) = request.method().and_then(ListKind::of) {
            let gateway = self.gateway.clone();
            return Answering::listed(id, async move {
                view::list(&gateway, view, &host, wanted, &request).await
            });
        }
        let era = host.era;
        let at = RequestOrigin {
            host,
            door: self.door,
            caller,
        };
        match view::start(&self.gateway, view, at, trace, request) {
            Started::Call(pending, shape) => Answering::call(pending, shape),
            Started::Own(own) => Answering::own(era, id, methods::TOOLS_CALL, own),
        }
    }

    /// Opens a subscription, which lasts until the host ends it or the gateway stops.
    fn listen(
        &self,
        id: Id,
        host: Arc<Host>,
        request: Frame,
        caller: Arc<dyn Caller>,
    ) -> Answering {
        let cancelled = CancellationToken::new();
        // A session name of its own: the listener's resource subscriptions must end with it and not with the
        // host's other requests.
        let mut listener = Host::clone(&host);
        listener.identity.session = format!("{}/{}", self.id, id.raw());
        self.listening().insert(id.clone(), cancelled.clone());
        let providers = self.gateway.path.providers();
        let subscription = Subscription {
            id,
            host: Arc::new(listener),
            caller,
            closing: self.closing.clone(),
            cancelled,
            pass: self.pass.clone(),
        };
        Answering::lasting(subscription.serve(request, providers.clone()))
    }

    /// Handles a notification. A cancellation has taken effect when this returns; everything else is forwarded to servers by
    /// the future.
    pub(crate) fn notified(&self, notification: Frame) -> BoxFuture<'static, ()> {
        self.state().on_notification(&notification);
        if notification.method() == Some(methods::CANCELLED) {
            self.cancel(&notification);
            return Box::pin(ready(()));
        }
        let Some(host) = self.host().cloned() else {
            return Box::pin(ready(()));
        };
        match notification.method() {
            // Each upstream connection has its own handshake, and progress on the gateway's questions has no
            // receiver.
            Some(methods::INITIALIZED | methods::PROGRESS) | None => Box::pin(ready(())),
            Some(method) if method.starts_with(NOTIFICATIONS) => {
                let providers = self.gateway.path.providers().clone();
                Box::pin(async move { providers.notify_all(&host, notification).await })
            }
            // A request without an id. Some servers would execute it, without a decision and without a
            // record, so it is dropped.
            Some(_) => {
                let error = "a request had no id and was not forwarded";
                self.gateway.frame_error(self.door.transport, error);
                Box::pin(ready(()))
            }
        }
    }

    fn cancel(&self, notification: &Frame) {
        let id = notification.param("requestId").and_then(Id::from_json);
        let Some(id) = id else { return };
        let reason = notification.param("reason");
        if let Some(reason) = reason.and_then(|reason| reason.as_str()) {
            self.asks.note_cancel(&id, &reason);
        }
        // A subscription is not a call, so the registry does not know its id.
        match self.listening().remove(&id) {
            Some(listening) => listening.cancel(),
            None => self.gateway.path.registry().cancel(&self.id, &id),
        }
    }

    /// Ends the session: cancels its calls and subscriptions, and detaches the host from all servers.
    pub(crate) fn end(&self) {
        self.gateway.views.results.forget(&self.id);
        self.gateway.path.registry().cancel_session(&self.id);
        for (_, listening) in self.listening().drain() {
            listening.cancel();
        }
        self.gateway.path.providers().detach(&self.id);
    }

    /// Whether a request that names no server is ambiguous.
    fn has_several_servers(&self) -> bool {
        let providers = self.gateway.path.providers();
        providers.catalog().only_server().is_none()
    }

    /// The answer to `initialize`. The session knows its host at once.
    fn introduce(&self, id: Id, version: ProtocolVersion, view: View) -> Answering {
        if let Some(handshake) = self.state().handshake() {
            // The session state refuses a second `initialize`, so the cell is still empty.
            let _ = self.host.set(Arc::new(self.read_host(handshake)));
        }
        let providers = self.gateway.path.providers().clone();
        let grant = self.principal.grant.clone();
        Answering::own(Era::Handshake, id, methods::INITIALIZE, async move {
            providers.introduced().await;
            Ok(introduction(&*providers, version, &grant, view))
        })
    }

    fn read_host(&self, handshake: &Handshake) -> Host {
        self.host_of(
            handshake.client_name(),
            handshake.client_info.as_deref(),
            &handshake.capabilities,
            Era::Handshake,
        )
    }

    fn host_of(
        &self,
        name: Option<String>,
        client_info: Option<&str>,
        capabilities: &str,
        era: Era,
    ) -> Host {
        // These texts are sent to stdio servers inside a line. A raw line break would end the line early.
        let one_line = |raw: &str| raw.replace(['\n', '\r'], " ");
        let Principal {
            name: principal,
            tenant,
            grant,
            names_agent,
            ..
        } = &*self.principal;
        let agent = names_agent.then(|| principal.clone()).or(name);
        let identity = CallerIdentity {
            tenant: tenant.clone(),
            principal: principal.clone(),
            agent: agent.unwrap_or_else(|| "anonymous".to_owned()),
            session: self.id.clone(),
            grant: grant.clone(),
        };
        Host {
            identity,
            client_info: client_info.map(one_line),
            capabilities: one_line(capabilities),
            era,
        }
    }

    fn listening(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        self.listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a host that does not declare tasks subscribes to some.
fn wants_tasks(request: &Frame, host: &Host) -> bool {
    let wanted = request.param("notifications");
    let tasks = wanted.and_then(|wanted| wanted.get("taskIds"));
    tasks.is_some_and(|tasks| tasks.elements().next().is_some())
        && !declares_extension(&host.capabilities, TASKS_EXTENSION)
}

/// The context of a request that its frame does not contain.
pub(crate) struct RequestContext {
    /// The view that interprets the request.
    pub(crate) view: View,
    /// The way to notify or ask the host during the request.
    pub(crate) caller: Arc<dyn Caller>,
    /// The trace context from the transport.
    pub(crate) trace: Option<TraceContext>,
}
