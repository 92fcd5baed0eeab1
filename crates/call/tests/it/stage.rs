//! A call path between a store, providers and a host that write down what happens to them.

mod journal;
mod people;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use callgate_call::{
    Announcement, ApprovalService, ApprovalSettings, AskFailed, CallPath, Caller, Exchange,
    Failure, Links, Provider, Providers, Reading, Received, Reply, Resident, SealKey, Telemetry,
};
use callgate_gate::{
    Builtin, CallerIdentity, Catalog, Door, Host, Listing, Naming, Permit, Policy, Reference,
    ServerName, Source, Tool, ToolFilter, Transport,
};
use callgate_memory::MemoryLedger;
use callgate_record::{Effect, OnFailure, Recorded, Recorder, Redactor};
use callgate_wire::{Era, Frame, Pieces, Strictness};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::{sync::broadcast, task::yield_now};
use tokio_util::task::AbortOnDropHandle;

use self::{journal::Journal, people::People};

/// How often the fakes give way to other tasks at each of their await points.
pub(crate) const YIELDS: usize = 3;

/// What a provider does with a call.
pub(crate) type Act =
    Box<dyn Fn(Exchange) -> BoxFuture<'static, Result<Reply, Failure>> + Send + Sync>;

struct Actor {
    journal: Arc<Journal>,
    act: Act,
    frames: Mutex<Vec<Bytes>>,
}

#[derive(Debug)]
struct Cast {
    catalog: Mutex<Arc<Catalog>>,
    after_connect: Mutex<Option<Arc<Catalog>>>,
    policy: Arc<Policy>,
    actors: HashMap<ServerName, Arc<Actor>>,
    announcements: broadcast::Sender<Announcement>,
    links: Links,
}

/// A host that is never asked.
#[derive(Debug)]
struct Silent;

/// What a stage is set with.
pub(crate) struct Setting {
    pub(crate) naming: Naming,
    pub(crate) listings: Vec<Listing>,
    /// What the servers have once their first connect was waited for.
    pub(crate) after_connect: Option<Vec<Listing>>,
    pub(crate) filters: HashMap<ServerName, ToolFilter>,
    pub(crate) on_failure: OnFailure,
    /// How people are asked about held calls; without it no approver exists.
    pub(crate) settings: Option<ApprovalSettings>,
}

/// A call path and everything around it.
pub(crate) struct Stage {
    pub(crate) path: CallPath,
    pub(crate) journal: Arc<Journal>,
    /// Those who decide about held calls.
    pub(crate) people: Arc<People>,
    actor: Arc<Actor>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            naming: Naming::default(),
            listings: vec![listing("fs", &["read", "delete"])],
            after_connect: None,
            filters: HashMap::new(),
            on_failure: OnFailure::Refuse,
            settings: None,
        }
    }
}

impl Setting {
    /// Sets the stage; every server is played by `act`.
    pub(crate) fn played_by(self, act: Act) -> Stage {
        let journal = Arc::new(Journal::default());
        let actor = Arc::new(Actor {
            journal: journal.clone(),
            act,
            frames: Mutex::default(),
        });
        let actors = self
            .listings
            .iter()
            .map(|listing| (listing.server.clone(), actor.clone()))
            .collect();
        let snapshot = |listings| Arc::new(Catalog::build(self.naming.clone(), listings).0);
        let cast = Cast {
            catalog: Mutex::new(snapshot(self.listings)),
            after_connect: Mutex::new(self.after_connect.map(snapshot)),
            policy: Arc::new(Policy::new(Builtin::Default, self.filters)),
            actors,
            announcements: broadcast::Sender::new(1),
            links: Links::default(),
        };
        let recorder = Recorder::new(
            journal.clone(),
            Redactor::new(&[], 2048).unwrap(),
            self.on_failure,
        );
        let (people, telemetry) = (Arc::new(People::default()), Telemetry::default());
        let approval_service = |settings| {
            let events = telemetry.events.clone();
            ApprovalService::new(
                people.clone(),
                &SealKey::random(),
                recorder.clone(),
                events,
                settings,
            )
        };
        let approval_service = self.settings.map(approval_service);
        let path = CallPath::new(Arc::new(cast), recorder, telemetry)
            .with_ledger(Arc::new(MemoryLedger::default()));
        Stage {
            path: match approval_service {
                Some(approval_service) => path.with_approvals(approval_service),
                None => path,
            },
            people,
            journal,
            actor,
        }
    }
}

/// A door that waits for an answer, and goes away when it is dropped.
pub(crate) struct Waiting(AbortOnDropHandle<Option<Bytes>>);

impl Waiting {
    pub(crate) async fn answer(&mut self) -> Option<Bytes> {
        (&mut self.0).await.expect("the door does not panic")
    }
}

impl Stage {
    /// One server with `read` and `delete`, played by `act`.
    pub(crate) fn played_by(act: Act) -> Self {
        Setting::default().played_by(act)
    }

    /// Starts a request of session `s1`.
    pub(crate) fn start(&self, request: &str) -> Waiting {
        self.start_in("s1", request)
    }

    /// Starts a request of a session.
    pub(crate) fn start_in(&self, session: &str, request: &str) -> Waiting {
        let frame =
            Frame::parse(Bytes::copy_from_slice(request.as_bytes()), Strictness::Full).unwrap();
        let identity = CallerIdentity {
            tenant: "local".into(),
            principal: "user".into(),
            agent: "anonymous".into(),
            session: session.into(),
            grant: callgate_gate::Grant::default(),
        };
        let host = Arc::new(Host {
            identity,
            client_info: None,
            capabilities: "{}".into(),
            era: Era::Handshake,
        });
        let door = Door {
            source: Source::Mcp,
            transport: Transport::Stdio,
        };
        let received = Received {
            frame,
            host,
            door,
            trace: None,
            reading: Reading::Plain,
        };
        let mut pending = self.path.start(received, Arc::new(Silent));
        Waiting(AbortOnDropHandle::new(tokio::spawn(async move {
            pending.answer().await.map(Pieces::into_bytes)
        })))
    }

    /// The answer to a request, as JSON.
    pub(crate) async fn ask(&self, request: &str) -> Value {
        json(
            &self
                .start(request)
                .answer()
                .await
                .expect("the request has an answer"),
        )
    }

    /// Calls a tool under the id 7.
    pub(crate) async fn call(&self, tool: &str) -> Value {
        self.ask(&tool_call("7", tool)).await
    }

    /// Waits until so many calls have reached a provider.
    pub(crate) async fn reached(&self, calls: usize) {
        while self.frames().len() < calls {
            self.journal.arrival().await;
        }
    }

    /// The bytes that providers were handed.
    pub(crate) fn frames(&self) -> Vec<Bytes> {
        self.actor.frames.lock().unwrap().clone()
    }
}

impl Provider for Actor {
    fn forward(
        &self,
        call: Recorded<Permit>,
        exchange: Exchange,
    ) -> BoxFuture<'_, Result<Reply, Failure>> {
        let call = call.into_call();
        self.frames
            .lock()
            .unwrap()
            .push(call.attempt.frame.bytes().clone());
        self.journal.reach(call.attempt.id);
        (self.act)(exchange)
    }
}

impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Actor")
    }
}

impl Providers for Cast {
    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.lock().unwrap().clone()
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.clone()
    }

    fn first_connect<'a>(&'a self, _server: Option<&'a ServerName>) -> BoxFuture<'a, ()> {
        Box::pin(async {
            give_way().await;
            if let Some(connected) = self.after_connect.lock().unwrap().take() {
                *self.catalog.lock().unwrap() = connected;
            }
        })
    }

    fn introduced(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn ready_for<'a>(&'a self, _host: &'a Host) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn provider(&self, server: &ServerName) -> Option<Arc<dyn Provider>> {
        Some(self.actors.get(server)?.clone())
    }

    fn notify_all<'a>(&'a self, _host: &'a Arc<Host>, _notification: Frame) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn follow<'a>(
        &'a self,
        _host: &'a Arc<Host>,
        _resource: &'a Reference,
        _request: Frame,
    ) -> BoxFuture<'a, Result<Option<Reply>, Failure>> {
        Box::pin(async { Ok(None) })
    }

    fn tasks<'a>(
        &'a self,
        _host: &'a Arc<Host>,
        server: &'a ServerName,
        _cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Reply, Failure>> {
        let (server, effect, detail) = (server.clone(), Effect::None, String::new());
        Box::pin(async move {
            Err(Failure::Unavailable {
                server,
                effect,
                detail,
            })
        })
    }

    fn links(&self) -> &Links {
        &self.links
    }

    fn owns_task(&self, _who: &CallerIdentity, _server: &ServerName, _task: &str) -> bool {
        true
    }

    fn set_level<'a>(&'a self, _host: &'a Arc<Host>, _request: Frame) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn subscribe(&self) -> broadcast::Receiver<Announcement> {
        self.announcements.subscribe()
    }

    fn capabilities(&self) -> Vec<(ServerName, String)> {
        Vec::new()
    }

    fn instructions(&self) -> Vec<(ServerName, String)> {
        Vec::new()
    }

    fn attach(&self, _host: Arc<Host>, _resident: Option<Arc<dyn Resident>>) {}

    fn detach(&self, _session: &str) {}
}

impl Caller for Silent {
    fn notify(&self, _notification: Bytes) {}

    fn ask(&self, _request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async { Err(AskFailed::NoWay) })
    }
}

/// Lets other tasks run, a few times.
pub(crate) async fn give_way() {
    for _ in 0..YIELDS {
        yield_now().await;
    }
}

/// A server of that name.
pub(crate) fn server(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

/// A healthy server with these tools.
pub(crate) fn listing(of: &str, tools: &[&str]) -> Listing {
    let tool = |name: &&str| {
        let descriptor = Bytes::from(format!(r#"{{"name":"{name}"}}"#));
        Tool::from_descriptor(&server(of), descriptor).unwrap()
    };
    let tools = Some(tools.iter().map(tool).collect());
    Listing {
        listed: true,
        tools,
        ..Listing::unknown(server(of))
    }
}

/// A tools/call request under `id`, which is JSON text.
pub(crate) fn tool_call(id: &str, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"n":1.0}}}}}}"#
    )
}

/// A provider that answers with this text.
pub(crate) fn replies(text: &'static str) -> Act {
    Box::new(move |_| Box::pin(async move { Ok(reply(text)) }))
}

/// A provider that fails.
pub(crate) fn fails(failure: Failure) -> Act {
    Box::new(move |_| {
        let failure = failure.clone();
        Box::pin(async move { Err(failure) })
    })
}

/// A reply of this text.
pub(crate) fn reply(text: &'static str) -> Reply {
    Reply {
        frame: Frame::parse(Bytes::from_static(text.as_bytes()), Strictness::Full).unwrap(),
        era: Era::Handshake,
    }
}

/// The answer's bytes as JSON.
pub(crate) fn json(answer: &Bytes) -> Value {
    serde_json::from_slice(answer).unwrap()
}

/// The text of a tool result that says no.
pub(crate) fn refusal(answer: &Value) -> String {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned()
}
