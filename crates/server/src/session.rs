//! One host's session, whatever door it came through: its handshake, its questions, and what
//! becomes of each frame.

use std::{
    collections::HashMap,
    future::ready,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use callgate_call::{Caller, TraceContext};
use callgate_gate::{Door, Host, View, Who};
use callgate_wire::{
    Admission, Era, Frame, Handshake, Id, ProtocolVersion, RpcError, SessionState, methods,
    stateless::{Claims, is_removed},
};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{
    Gateway, Principal,
    answering::Answering,
    asks::Asks,
    follow::follow,
    introduce::{discovery, introduction},
    list::Wanted,
    principal::Pass,
    subscriptions::Subscription,
    tasks::list_tasks,
    view::{self, AskedAt, Started},
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
    principal: Arc<Principal>,
    state: Mutex<SessionState>,
    host: OnceLock<Arc<Host>>,
    /// Subscriptions of the stateless era that are open here.
    listening: Mutex<HashMap<Id, CancellationToken>>,
    closing: CancellationToken,
    pass: Pass,
}

impl Session {
    /// A fresh session of an authenticated principal.
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

    /// The door that it came through.
    pub(crate) fn door(&self) -> Door {
        self.door
    }

    /// The same session with what ends its subscriptions when the gateway stops.
    pub(crate) fn closing(self, closing: CancellationToken) -> Self {
        Self { closing, ..self }
    }

    /// The same session of a token that can be revoked while a subscription is open.
    pub(crate) fn with_pass(self, pass: Pass) -> Self {
        Self { pass, ..self }
    }

    /// The host, once it introduced itself.
    pub(crate) fn host(&self) -> Option<&Arc<Host>> {
        self.host.get()
    }

    /// Whose session it is.
    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The version that the session speaks, once that is settled.
    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.state().handshake().map(|handshake| handshake.version)
    }

    /// Takes a request and answers it; `None` when it was cancelled: then the host wants no answer.
    ///
    /// A call has started when this returns, so that a cancellation right behind it finds it.
    pub(crate) fn answer(&self, request: Frame, context: RequestContext) -> Answering {
        let Some(id) = request.id().cloned() else {
            return Answering::nothing();
        };
        if Era::of(&request, None) == Era::Stateless {
            return self.answer_stateless(id, request, context);
        }
        let admission = self.state().on_request(&request);
        match admission {
            Err(error) => Answering::at_once(&id, Err(error)),
            Ok(Admission::Initialize(version)) => {
                Answering::at_once(&id, Ok(self.introduce(version, context.view)))
            }
            Ok(Admission::Answer) => match (request.method(), self.host().cloned()) {
                (Some(methods::PING), _) | (_, None) => {
                    Answering::at_once(&id, Ok("{}".to_owned()))
                }
                (
                    Some(methods::RESOURCES_SUBSCRIBE | methods::RESOURCES_UNSUBSCRIBE),
                    Some(host),
                ) => {
                    let providers = self.gateway.path.providers().clone();
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

    /// Takes a request that carries everything about its host.
    fn answer_stateless(&self, id: Id, request: Frame, context: RequestContext) -> Answering {
        let claims = match Claims::read(&request) {
            Ok(claims) => claims,
            Err(error) => return Answering::at_once(&id, Err(error)),
        };
        let method = request.method().unwrap_or_default();
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
                    providers.first_connect(None).await;
                    Ok(discovery(&*providers, &grant, view))
                })
            }
            methods::LISTEN => self.listen(id, host, request, context.caller),
            _ => self.serve(id, host, request, context),
        }
    }

    /// What hosts of both eras can ask, once it is known who they are.
    fn serve(&self, id: Id, host: Arc<Host>, request: Frame, context: RequestContext) -> Answering {
        let RequestContext {
            view,
            caller,
            trace,
        } = context;
        if let Some(wanted) = request.method().and_then(Wanted::of) {
            let gateway = self.gateway.clone();
            return Answering::listed(id, async move {
                view::list(&gateway, view, &host, wanted, &request).await
            });
        }
        let era = host.era;
        let at = AskedAt {
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
        // What it follows it follows for itself, and leaves with it.
        let mut listener = Host::clone(&host);
        listener.who.session = format!("{}/{}", self.id, id.raw());
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

    /// Takes a notification. A cancellation has taken effect when this returns; what is to be
    /// passed on to servers is passed on by the future.
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
            // Each upstream connection has a handshake of its own, and progress on our own
            // questions has nowhere to go.
            Some(methods::INITIALIZED | methods::PROGRESS) | None => Box::pin(ready(())),
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

    fn cancel(&self, notification: &Frame) {
        let id = notification.param("requestId").and_then(Id::from_json);
        let Some(id) = id else { return };
        match self.listening().remove(&id) {
            Some(listening) => listening.cancel(),
            None => self.gateway.path.registry().cancel(&self.id, &id),
        }
    }

    /// Ends the session: its calls are cancelled, and it can be asked nothing any more.
    pub(crate) fn end(&self) {
        self.gateway.views.results.forget(&self.id);
        self.gateway.path.registry().cancel_session(&self.id);
        for (_, listening) in self.listening().drain() {
            listening.cancel();
        }
        self.gateway.path.providers().detach(&self.id);
    }

    /// Whether a request that names no server could be for several.
    fn has_several_servers(&self) -> bool {
        let providers = self.gateway.path.providers();
        providers.catalog().only_server().is_none()
    }

    fn introduce(&self, version: ProtocolVersion, view: View) -> String {
        if let Some(handshake) = self.state().handshake() {
            // A second introduction is refused before it gets here.
            let _ = self.host.set(Arc::new(self.read_host(handshake)));
        }
        introduction(
            &**self.gateway.path.providers(),
            version,
            &self.principal.grant,
            view,
        )
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
        let one_line = |raw: &str| raw.replace(['\n', '\r'], " ");
        let Principal {
            name: principal,
            tenant,
            grant,
            names_agent,
            ..
        } = &*self.principal;
        let agent = names_agent.then(|| principal.clone()).or(name);
        let who = Who {
            tenant: tenant.clone(),
            principal: principal.clone(),
            agent: agent.unwrap_or_else(|| "anonymous".to_owned()),
            session: self.id.clone(),
            grant: grant.clone(),
        };
        Host {
            who,
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

/// What comes with a request and is no part of it.
pub(crate) struct RequestContext {
    /// What the host sees.
    pub(crate) view: View,
    /// The host's side of the request.
    pub(crate) caller: Arc<dyn Caller>,
    /// What was said beside the request about the trace it is part of.
    pub(crate) trace: Option<TraceContext>,
}
