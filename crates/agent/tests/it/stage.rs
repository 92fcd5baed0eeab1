//! A step's surroundings: a user's home, a work folder, fake agents on the `PATH`, a gate with two tools, a record.

mod tools;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use callgate_agent::{
    AgentKind, Budget, Options, Outcome, Proxy, Step, StepContext, StepEvent, StepFailed,
    Transcripts, Verdicts,
};
use callgate_call::{CallPath, Telemetry};
use callgate_record::{
    DurabilityWait, Entry, OnFailure, Position, Recorder, Redactor, Store, StoreError,
};
use callgate_server::Gateway;
use callgate_testkit::agents::{AgentScript, FakeCall};
use futures_util::future::{Either, ready};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use tools::TwoTools;

/// Far longer than any step here takes: only one that hangs reaches it.
const DEADLINE: Duration = Duration::from_secs(60);
/// The versions that are known to be isolated, in the order of [`AgentKind::PROGRAMS`].
const ISOLATED: [&str; 4] = ["2.1.325", "0.61.0", "0.166.0", "1.18.33"];

pub(crate) struct Stage {
    place: TempDir,
    pub(crate) context: Arc<StepContext>,
    tools: Arc<TwoTools>,
    journal: Arc<Journal>,
    pub(crate) events: Mutex<Vec<StepEvent>>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with_env(&[])
    }

    /// A stage whose policy denies this tool.
    pub(crate) fn denying(tool: &str) -> Self {
        Self::with(&[], &[tool])
    }

    /// A stage where agents inherit these variables as well.
    pub(crate) fn with_env(more: &[(&str, &str)]) -> Self {
        Self::with(more, &[])
    }

    fn with(more: &[(&str, &str)], denied: &[&str]) -> Self {
        let place = TempDir::new().unwrap();
        for name in ["home", "work", "data"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        AgentScript::install(&place.path().join("bin"));
        let (tools, journal) = (
            Arc::new(TwoTools::denying(denied)),
            Arc::new(Journal::default()),
        );
        let redactor = Redactor::new(&[], 2048).unwrap();
        let recorder = Recorder::new(journal.clone(), redactor, OnFailure::Refuse);
        let path = CallPath::new(tools.clone(), recorder, Telemetry::default());
        let mut env = environment(place.path());
        env.extend(more.iter().map(|(name, value)| pair(name, value)));
        let context = StepContext {
            gateway: Gateway::new(path, Vec::new),
            frame_bytes: 1024 * 1024,
            principal: "user".to_owned(),
            program: own_program(),
            warden_program: own_program(),
            env,
            verdicts: Verdicts::of(&place.path().join("data")),
            agent_box: None,
            transcripts: Some(Transcripts::of(&place.path().join("data"))),
            trace: None,
            within: None,
        };
        Self {
            place,
            context: Arc::new(context),
            tools,
            journal,
            events: Mutex::default(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join(name)
    }

    /// Writes a file of the home or of the work folder.
    pub(crate) fn file(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Sets what the agents do.
    pub(crate) fn script(&self, script: AgentScript) {
        let script = AgentScript {
            log: self.path("agent.log"),
            ..script
        };
        self.file("script.json", &serde_json::to_string(&script).unwrap());
    }

    pub(crate) fn step(&self, kind: AgentKind, proxy: Proxy) -> Step {
        Step {
            kind,
            prompt: "do it".to_owned(),
            workdir: self.path("work"),
            proxy,
            options: Options::default(),
            timeout: Some(DEADLINE),
            budget: Budget::default(),
        }
    }

    pub(crate) async fn run(&self, step: &Step) -> Result<Outcome, StepFailed> {
        self.run_until(step, CancellationToken::new()).await
    }

    pub(crate) async fn run_until(
        &self,
        step: &Step,
        stop: CancellationToken,
    ) -> Result<Outcome, StepFailed> {
        let tell = |event| self.events.lock().unwrap().push(event);
        let running = step.run(&self.context, stop, &tell);
        let ended = tokio::time::timeout(2 * DEADLINE, running).await;
        ended.expect("a step ends by itself")
    }

    /// The events so far.
    pub(crate) fn events(&self) -> Vec<StepEvent> {
        self.events.lock().unwrap().clone()
    }

    /// What the last agent was given.
    pub(crate) fn given(&self) -> Given {
        let log = fs::read_to_string(self.path("agent.log")).unwrap();
        Given(serde_json::from_str(log.lines().last().unwrap()).unwrap())
    }

    /// The task in the last agent's prompt, after the work folder and the instructions.
    pub(crate) fn task(&self) -> String {
        let given = self.given();
        let prompt = given.0["stdin"].as_str().unwrap();
        let (preface, task) = prompt.split_once("working directory is.\n\n").unwrap();
        let work = self.path("work").display().to_string();
        assert!(preface.contains(&work), "{preface}");
        task.to_owned()
    }

    /// The files of the work folder that the agents obeyed.
    pub(crate) fn obeyed(&self) -> String {
        fs::read_to_string(self.path("obeyed")).unwrap_or_default()
    }

    /// The arguments of the calls that reached a tool, in order.
    pub(crate) fn reached(&self) -> Vec<Value> {
        self.tools.reached()
    }

    /// The entries of the record.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.journal.entries.lock().unwrap().clone()
    }
}

/// What an agent was given.
pub(crate) struct Given(pub(crate) Value);

impl Given {
    pub(crate) fn args(&self) -> Vec<&str> {
        let args = self.0["argv"].as_array().unwrap().iter().skip(1);
        args.map(|arg| arg.as_str().unwrap()).collect()
    }

    /// The argument after this one.
    pub(crate) fn value(&self, flag: &str) -> Option<&str> {
        let args = self.args();
        let at = args.iter().position(|arg| *arg == flag)?;
        args.get(at + 1).copied()
    }

    pub(crate) fn has(&self, words: &[&str]) -> bool {
        self.args().windows(words.len()).any(|some| some == words)
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.0["env"][name].as_str()
    }
}

/// A script of the version that is known to be isolated.
pub(crate) fn isolated(kind: AgentKind) -> AgentScript {
    let at = AgentKind::PROGRAMS.iter().position(|known| *known == kind);
    AgentScript {
        version: ISOLATED[at.unwrap()].to_owned(),
        text: "all is well".to_owned(),
        ..AgentScript::default()
    }
}

pub(crate) fn call(tool: &str, arguments: Value) -> FakeCall {
    FakeCall {
        tool: tool.to_owned(),
        arguments,
    }
}

fn environment(place: &Path) -> Vec<(String, String)> {
    let own = |name: &str| place.join(name).display().to_string();
    vec![
        pair("PATH", &format!("{}:/usr/bin:/bin", own("bin"))),
        pair("HOME", &own("home")),
    ]
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The example of this crate, which cargo builds together with its tests.
fn own_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let program = built.join("examples/agent_program");
    assert!(program.exists(), "not built: {}", program.display());
    program
}

/// A record in memory.
#[derive(Debug, Default)]
struct Journal {
    entries: Mutex<Vec<Entry>>,
}

impl Store for Journal {
    fn append(&self, entry: &Entry) -> Result<Position, StoreError> {
        self.entries.lock().unwrap().push(entry.clone());
        Ok(Position(0))
    }

    fn append_or_queue(&self, entry: Entry) -> Option<Position> {
        self.entries.lock().unwrap().push(entry);
        None
    }

    fn settled(&self, _: Position) -> DurabilityWait<'_> {
        Either::Left(ready(Ok(())))
    }
}
