//! The servers of a simulated gateway: they note what reaches them, and answer when the schedule says so.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use callgate_call::{Announcement, Exchange, Failure, Links, Provider, Providers, Reply, Resident};
use callgate_gate::{
    Builtin, CallerIdentity, Catalog, Host, Listing, Naming, Permit, Policy, Reference, ServerName,
    Tool,
};
use callgate_record::{Effect, Recorded};
use callgate_wire::{Era, Frame, Strictness};
use futures_util::future::BoxFuture;
use tokio::sync::{broadcast, oneshot};

use super::life::Life;

const SERVER: &str = "fs";
/// One that needs no approval, and one that does.
const TOOLS: [&str; 2] = ["read", "delete"];
const DONE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ok"}]}}"#;
const FAILED: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#;

/// What a server does with a call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    Answer,
    Fail,
    Die,
}

#[derive(Debug)]
pub(super) struct Servers {
    catalog: Arc<Catalog>,
    policy: Arc<Policy>,
    announcements: broadcast::Sender<Announcement>,
    server: Arc<Server>,
    links: Links,
}

#[derive(Debug)]
struct Server {
    life: Arc<Life>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What has come since the schedule looked.
    reached: Vec<u64>,
    waiting: BTreeMap<u64, oneshot::Sender<Act>>,
}

impl Servers {
    pub(super) fn new(life: Arc<Life>) -> Arc<Self> {
        let server = ServerName::new(SERVER).unwrap();
        let tool = |name: &&str| {
            let descriptor = Bytes::from(format!(r#"{{"name":"{name}"}}"#));
            Tool::from_descriptor(&server, descriptor).unwrap()
        };
        let listing = Listing {
            listed: true,
            tools: Some(TOOLS.iter().map(tool).collect()),
            ..Listing::unknown(server.clone())
        };
        Arc::new(Self {
            catalog: Arc::new(Catalog::build(Naming::default(), vec![listing]).0),
            policy: Arc::new(Policy::new(Builtin::Default, HashMap::new())),
            announcements: broadcast::Sender::new(1),
            server: Arc::new(Server {
                life,
                state: Mutex::default(),
            }),
            links: Links::default(),
        })
    }

    /// The calls that came since this was asked before.
    pub(super) fn take_reached(&self) -> Vec<u64> {
        std::mem::take(&mut self.server.state.lock().unwrap().reached)
    }

    /// The calls that wait for their server.
    pub(super) fn waiting(&self) -> Vec<u64> {
        let state = self.server.state.lock().unwrap();
        let open = state.waiting.iter().filter(|(_, way)| !way.is_closed());
        open.map(|(key, _)| *key).collect()
    }

    /// Ends the work on a call.
    pub(super) fn act(&self, key: u64, act: Act) {
        let way = self.server.state.lock().unwrap().waiting.remove(&key);
        // Its call may have been cancelled.
        let _ = way.map(|way| way.send(act));
    }
}

impl Provider for Server {
    fn forward(
        &self,
        call: Recorded<Permit>,
        exchange: Exchange,
    ) -> BoxFuture<'_, Result<Reply, Failure>> {
        let call = call.into_call();
        let key = call.attempt.frame.id().map(ToString::to_string);
        let key: u64 = key.unwrap().parse().unwrap();
        let (way, acting) = oneshot::channel();
        // A dead process sends nothing.
        if !self.life.is_over() {
            let mut state = self.state.lock().unwrap();
            state.reached.push(key);
            state.waiting.insert(key, way);
        }
        Box::pin(async move {
            tokio::select! {
                biased;
                act = acting => match act {
                    Ok(Act::Answer) => Ok(reply(DONE)),
                    Ok(Act::Fail) => Ok(reply(FAILED)),
                    Ok(Act::Die) | Err(_) => Err(gone(Effect::Unknown)),
                },
                () = exchange.cancelled.cancelled() => Err(Failure::Cancelled {
                    effect: Effect::Unknown,
                }),
            }
        })
    }
}

fn reply(text: &'static str) -> Reply {
    Reply {
        frame: Frame::parse(Bytes::from_static(text.as_bytes()), Strictness::Full).unwrap(),
        era: Era::Handshake,
    }
}

fn gone(effect: Effect) -> Failure {
    Failure::Unavailable {
        server: ServerName::new(SERVER).unwrap(),
        effect,
        detail: "it died".to_owned(),
    }
}

impl Providers for Servers {
    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.clone()
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.clone()
    }

    fn first_connect<'a>(&'a self, _server: Option<&'a ServerName>) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn introduced(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn ready_for<'a>(&'a self, _host: &'a Host) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn links(&self) -> &Links {
        &self.links
    }

    fn provider(&self, server: &ServerName) -> Option<Arc<dyn Provider>> {
        (server.to_string() == SERVER).then(|| self.server.clone() as Arc<dyn Provider>)
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
        _server: &'a ServerName,
        _cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Reply, Failure>> {
        Box::pin(async { Err(gone(Effect::None)) })
    }

    fn owns_task(&self, _identity: &CallerIdentity, _server: &ServerName, _task: &str) -> bool {
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
