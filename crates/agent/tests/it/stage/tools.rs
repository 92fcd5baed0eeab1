//! Two tools behind the gate, `Read` and `Write`, which answer with their own arguments.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use callgate_call::{Announcement, Exchange, Failure, Links, Provider, Providers, Reply, Resident};
use callgate_gate::{
    Builtin, CallerIdentity, Catalog, Host, Listing, Naming, Pattern, Permit, Policy, Reference,
    ServerName, Tool, ToolFilter,
};
use callgate_record::{Effect, Recorded};
use callgate_wire::{Era, Frame, Strictness};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::broadcast;

#[derive(Debug)]
pub(super) struct TwoTools {
    catalog: Arc<Catalog>,
    policy: Arc<Policy>,
    provider: Arc<Echo>,
    announcements: broadcast::Sender<Announcement>,
    links: Links,
}

#[derive(Debug, Default)]
struct Echo {
    reached: Mutex<Vec<Value>>,
}

impl TwoTools {
    /// Without the tools of these names.
    pub(super) fn denying(names: &[&str]) -> Self {
        let server = ServerName::builtin();
        let tool = |(name, reads): (&str, bool)| {
            let schema = json!({"type": "object"});
            let hints = json!({"readOnlyHint": reads});
            let descriptor = json!({"name": name, "inputSchema": schema, "annotations": hints});
            Tool::from_descriptor(&server, Bytes::from(descriptor.to_string())).unwrap()
        };
        let listing = Listing {
            listed: true,
            tools: Some([("Read", true), ("Write", false)].map(tool).to_vec()),
            ..Listing::unknown(server.clone())
        };
        let filter = ToolFilter {
            offered: None,
            allow: None,
            deny: names.iter().map(|name| Pattern::new(name)).collect(),
        };
        let filters = [(server, filter)].into();
        Self {
            catalog: Arc::new(Catalog::build(Naming::step(), vec![listing]).0),
            policy: Arc::new(Policy::new(Builtin::AllowAll, filters)),
            provider: Arc::default(),
            announcements: broadcast::Sender::new(1),
            links: Links::default(),
        }
    }

    pub(super) fn reached(&self) -> Vec<Value> {
        self.provider.reached.lock().unwrap().clone()
    }
}

impl Provider for Echo {
    fn forward(
        &self,
        call: Recorded<Permit>,
        _exchange: Exchange,
    ) -> BoxFuture<'_, Result<Reply, Failure>> {
        let call = call.into_call();
        let request: Value = serde_json::from_slice(call.attempt.frame.bytes()).unwrap();
        let arguments = request["params"]["arguments"].clone();
        self.reached.lock().unwrap().push(arguments.clone());
        let content = json!([{"type": "text", "text": format!("did {arguments}")}]);
        let reply = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"content": content}});
        let frame = Frame::parse(Bytes::from(reply.to_string()), Strictness::Full).unwrap();
        let era = Era::Handshake;
        Box::pin(async move { Ok(Reply { frame, era }) })
    }
}

impl Providers for TwoTools {
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

    fn provider(&self, _server: &ServerName) -> Option<Arc<dyn Provider>> {
        Some(self.provider.clone())
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
        false
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
