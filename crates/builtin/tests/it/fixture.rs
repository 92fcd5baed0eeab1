//! A folder with the built-in tools over it. Calls go the way of the gateway: decided, recorded, forwarded.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use callgate_builtin::{Builtins, Roots};
use callgate_call::{AskFailed, Caller, Exchange, Failure, LocalProvider, Provider, Reply};
use callgate_gate::{
    Attempt, Builtin, Call, CallId, CallerIdentity, Door, Facts, Grant, Host, Policy, Protected,
    ServerName, Source, Target, Tool, Transport, Verdict, decide,
};
use callgate_record::{
    DurabilityWait, Entry, OnFailure, Position, Recorder, Redactor, Store, StoreError,
};
use callgate_wire::{Era, Frame, Id, Strictness, message};
use futures_util::future::{BoxFuture, Either, ready};
use serde_json::{Value, json};
use tempfile::TempDir;
use ulid::Ulid;

/// Far longer than any call here takes: only a call that hangs reaches it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// The variable that marks the processes of one fixture.
const MARK: &str = "FIXTURE_MARK";

/// A root for the tools, with a folder beside it that no tool may reach.
pub(crate) struct Fixture {
    place: TempDir,
    builtins: Builtins,
    recorder: Recorder,
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) is_error: bool,
    pub(crate) texts: Vec<String>,
}

impl Fixture {
    /// An empty root.
    pub(crate) fn new() -> Self {
        Self::with(&[], Protected::default())
    }

    /// An empty root, in which the files and folders of these names are protected.
    pub(crate) fn protecting(names: &[&str]) -> Self {
        let place = TempDir::new().unwrap();
        let root = place.path().canonicalize().unwrap().join("root");
        let places = names
            .iter()
            .map(|name| root.join(name).display().to_string());
        Self::at(place, &[], Protected::new(places))
    }

    /// An empty root, and more roots of these names beside it.
    pub(crate) fn with_roots(more: &[&str]) -> Self {
        Self::with(more, Protected::default())
    }

    fn with(more: &[&str], protected: Protected) -> Self {
        Self::at(TempDir::new().unwrap(), more, protected)
    }

    fn at(place: TempDir, more: &[&str], protected: Protected) -> Self {
        let names = ["root"].iter().chain(more);
        let roots: Vec<PathBuf> = names.map(|name| place.path().join(name)).collect();
        for folder in roots.iter().chain([&place.path().join("outside")]) {
            fs::create_dir(folder).unwrap();
        }
        let roots = Roots::open(roots).unwrap().without(Arc::new(protected));
        let mark = place.path().display().to_string();
        let env = vec![
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            (MARK.to_owned(), mark),
        ];
        Self {
            builtins: Builtins::new(roots, warden_program(), env),
            recorder: Recorder::new(
                Arc::new(Nowhere),
                Redactor::new(&[], 0).unwrap(),
                OnFailure::Refuse,
            ),
            place,
        }
    }

    /// The same files, with another environment for commands.
    pub(crate) fn with_env(mut self, env: &[(&str, &str)]) -> Self {
        let roots = Roots::open([self.root()]).unwrap();
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.builtins = Builtins::new(roots, warden_program(), env.collect());
        self
    }

    pub(crate) fn builtins(&self) -> &Builtins {
        &self.builtins
    }

    /// The root, links resolved.
    pub(crate) fn root(&self) -> PathBuf {
        self.beside("root")
    }

    /// A folder beside the root.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join(name)
    }

    /// The text by which processes of this fixture are found.
    pub(crate) fn mark(&self) -> String {
        format!("{MARK}={}", self.place.path().display())
    }

    /// Puts a file into the root.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// The content of a file in the root.
    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        fs::read(self.root().join(name)).unwrap()
    }

    /// The names in a folder of the root, sorted.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root().join(folder)).unwrap().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Puts a named pipe into the root.
    pub(crate) fn pipe(&self, name: &str) {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, self.root().join(name), kind, mode, 0).unwrap();
    }

    /// The answer of a tool, whatever it is.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Answer {
        let params = json!({"arguments": arguments});
        let forwarding = self.forward(tool, &params, exchange());
        let reply = tokio::time::timeout(DEADLINE, forwarding).await;
        let reply = reply.unwrap_or_else(|_| panic!("{tool} {arguments} does not end"));
        let reply = json_of(&reply.unwrap());
        let result = &reply["result"];
        let blocks = result["content"].as_array();
        let blocks = blocks.unwrap_or_else(|| panic!("no content: {reply}"));
        let text = |block: &Value| block["text"].as_str().unwrap().to_owned();
        Answer {
            is_error: result["isError"] == true,
            texts: blocks.iter().map(text).collect(),
        }
    }

    /// The text of a successful answer.
    pub(crate) async fn ok(&self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments.clone()).await;
        assert!(!answer.is_error, "{tool} {arguments}: {answer:?}");
        answer.texts.join("\n")
    }

    /// The text of an answer that is an error.
    pub(crate) async fn error(&self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments.clone()).await;
        assert!(answer.is_error, "{tool} {arguments}: {answer:?}");
        answer.texts.join("\n")
    }

    /// Forwards a call with these further members of its parameters.
    pub(crate) async fn forward(
        &self,
        tool: &str,
        params: &Value,
        exchange: Exchange,
    ) -> Result<Reply, Failure> {
        let listed = self.builtins.listing().tools.unwrap();
        let found = listed.into_iter().find(|listed| listed.name == tool);
        let target = found.unwrap_or_else(|| {
            let descriptor = Bytes::from(json!({"name": tool}).to_string());
            Tool::from_descriptor(&ServerName::builtin(), descriptor).unwrap()
        });
        let call = call(target, params);
        let policy = Policy::new(Builtin::AllowAll, Default::default());
        let Verdict::Permit(permit) = decide(call, &policy, &Facts::default()) else {
            panic!("everything is allowed here");
        };
        let (recorded, _open) = self.recorder.forwarding(permit).await.unwrap();
        self.builtins.forward(recorded, exchange).await
    }
}

/// A reply as JSON.
pub(crate) fn json_of(reply: &Reply) -> Value {
    serde_json::from_slice(reply.frame.bytes()).unwrap()
}

/// What a call of a host that is never asked anything comes with.
pub(crate) fn exchange() -> Exchange {
    Exchange {
        caller: Arc::new(Silent),
        cancelled: Default::default(),
        trace: None,
    }
}

fn call(tool: Tool, params: &Value) -> Call {
    let mut params = params.clone();
    params["name"] = json!(tool.name);
    let request = message::request(&Id::number(7), "tools/call", Some(&params.to_string()));
    let identity = CallerIdentity {
        tenant: "local".to_owned(),
        principal: "user".to_owned(),
        agent: "test".to_owned(),
        session: "s1".to_owned(),
        grant: Grant::default(),
    };
    Call {
        attempt: Attempt {
            id: CallId(Ulid::generate()),
            parent: None,
            via: None,
            host: Arc::new(Host {
                identity,
                client_info: None,
                capabilities: "{}".to_owned(),
                era: Era::Handshake,
            }),
            door: Door {
                source: Source::Mcp,
                transport: Transport::Stdio,
            },
            frame: Frame::parse(request, Strictness::Full).unwrap(),
            declared: None,
        },
        target: Target::Tool(Arc::new(tool)),
    }
}

/// The example of this crate, which cargo builds together with its tests.
fn warden_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let program = built.join("examples/builtin_warden");
    assert!(program.exists(), "not built: {}", program.display());
    program
}

/// Keeps nothing: these tests are not about the record.
#[derive(Debug)]
struct Nowhere;

impl Store for Nowhere {
    fn append(&self, _: &Entry) -> Result<Position, StoreError> {
        Ok(Position(0))
    }

    fn append_or_queue(&self, _: Entry) -> Option<Position> {
        None
    }

    fn settled(&self, _: Position) -> DurabilityWait<'_> {
        Either::Left(ready(Ok(())))
    }
}

#[derive(Debug)]
struct Silent;

impl Caller for Silent {
    fn notify(&self, _: Bytes) {}

    fn ask(&self, _: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async { Err(AskFailed::NoWay) })
    }
}
