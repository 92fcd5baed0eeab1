//! Runs the agents and operations of a workflow, each step behind its own gate.

use std::{path::PathBuf, sync::Arc, time::Duration};

use callgate_agent::{StepEvent, StepFailed, relay::PluginTools};
use callgate_builtin::Shape;
use callgate_call::{Caller, Received};
use callgate_gate::{Door, Source, Transport};
use callgate_wire::{Frame, Id, Strictness, message};
use callgate_workflow::{
    AgentTask, Failure, OperationTask, Outcome, PluginOffer, Plugins, StepRunner,
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use callgate_config::{Failed, Settings};

use crate::{
    local_user::local_host,
    plan::{self, StepTools},
    running::{Running, StepGate},
    server_tools::ServerTools,
    steps::{NoTools, StepOwner, StepPlugins, context, offered_builtins},
};

/// A step's calls end before the step does, so shutdown has little to wait for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Runs the steps of one workflow run.
#[derive(Debug)]
pub struct GatedStepRunner<'a> {
    pub settings: &'a Settings,
    pub running: &'a Running,
    pub plugins: StepPlugins,
    /// Receives the progress of operations.
    pub caller: Arc<dyn Caller>,
    /// The run's working folder.
    pub workdir: PathBuf,
}

impl GatedStepRunner<'_> {
    /// A gate with exactly the requested tools. On failure nothing stays started.
    async fn gate(
        &self,
        workdir: &std::path::Path,
        builtins: Option<Shape>,
        wanted: (&[PluginTools], &[String]),
    ) -> Result<StepGate, Failure> {
        let told = |error: NoTools| Failure::Failed(format!("{}: {error}", error.code()));
        let (plugins, tools) = wanted;
        let servers = ServerTools::read(self.settings, tools).map_err(told)?;
        let tools = StepTools {
            plugins: self.plugins.tools(plugins).await.map_err(told)?,
            ..servers.to_start(self.settings)
        };
        let plan = plan::step(self.settings, workdir, builtins, tools);
        let plan = plan.map_err(|error| failed(&error))?;
        let gate = self.running.step_gate(self.settings, plan);
        let gate = gate.map_err(|error| failed(&error))?;
        match servers.check(gate.fleet()).await {
            Ok(()) => Ok(gate),
            Err(error) => {
                gate.close(PATIENCE).await;
                Err(told(error))
            }
        }
    }
}

fn failed(error: &Failed) -> Failure {
    Failure::Failed(error.message().to_owned())
}

impl StepRunner for GatedStepRunner<'_> {
    fn agent<'a>(
        &'a self,
        task: AgentTask,
        stop: CancellationToken,
        tell: &'a (dyn Fn(StepEvent) + Send + Sync),
    ) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(async move {
            let step = &task.step;
            let builtins = offered_builtins(step);
            let gate = self
                .gate(&step.workdir, builtins, (&task.plugin_tools, &task.tools))
                .await?;
            let owner = StepOwner {
                trace: task.place.trace,
                within: Some(task.place.spending),
            };
            let context = context(self.settings, &gate.gateway, Some(step), owner);
            let context = Arc::new(context.map_err(|error| failed(&error))?);
            let ended = step.run(&context, stop, tell).await;
            drop(context);
            gate.close(PATIENCE).await;
            match ended {
                Ok(outcome) => Ok(Outcome {
                    tokens_input: outcome.tokens.input,
                    tokens_output: outcome.tokens.output,
                    ..Outcome::success(outcome.text)
                }),
                Err(StepFailed::Stopped) => Err(Failure::Stopped),
                Err(error @ StepFailed::TimedOut(_)) => Err(Failure::TimedOut(error.to_string())),
                Err(error) => Err(Failure::Failed(error.to_string())),
            }
        })
    }

    fn operation<'a>(
        &'a self,
        task: OperationTask,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(async move {
            let wanted = PluginTools {
                plugin: task.plugin.clone(),
                expose: vec![task.operation.clone()],
            };
            let spending = &task.place.spending;
            if !spending.admits_call() {
                let why = spending.excess().unwrap_or_default();
                return Err(Failure::Failed(why.to_owned()));
            }
            let gate = self.gate(&self.workdir, None, (&[wanted], &[])).await?;
            let answer = call(&gate, &task, self.caller.clone(), stop).await;
            gate.close(PATIENCE).await;
            answer
        })
    }
}

/// One call through the gate, like any other.
async fn call(
    gate: &StepGate,
    task: &OperationTask,
    caller: Arc<dyn Caller>,
    stop: CancellationToken,
) -> Result<Outcome, Failure> {
    let name = format!("{}:{}", task.plugin, task.operation);
    let arguments = Value::Object(task.inputs.clone());
    let id = Id::string(&Ulid::generate().to_string());
    let request = message::tool_call(&id, &name, &arguments.to_string());
    let frame = Frame::parse(request, Strictness::Full);
    let frame = frame.map_err(|error| Failure::Failed(error.to_string()))?;
    let door = Door {
        source: Source::Cli,
        transport: Transport::Local,
    };
    let received = Received {
        trace: task.place.trace.clone(),
        ..Received::plain(frame, Arc::new(local_host()), door)
    };
    let mut pending = gate.gateway.path().start(received, caller);
    let answer = tokio::select! {
        answer = pending.answer() => answer,
        () = stop.cancelled() => return Err(Failure::Stopped),
    };
    let answer = answer.ok_or(Failure::Stopped)?;
    let frame = Frame::parse(answer.into_bytes(), Strictness::Envelope);
    read(&frame.map_err(|error| Failure::Failed(error.to_string()))?)
}

/// The outcome that an answer reports.
fn read(frame: &Frame) -> Result<Outcome, Failure> {
    if let Some(error) = frame.error() {
        let text = error.get("message").and_then(|text| text.as_str());
        return Err(Failure::Failed(text.unwrap_or_default().into_owned()));
    }
    let result = frame.result().map(|result| result.as_text().to_owned());
    let result: Value = serde_json::from_str(&result.unwrap_or_default())
        .map_err(|error| Failure::Failed(error.to_string()))?;
    let texts: Vec<&str> = result["content"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|block| block["text"].as_str())
        .collect();
    let structured = result.get("structuredContent").cloned();
    if result["isError"] == true {
        let why = texts.last().copied().unwrap_or_default();
        return Ok(Outcome {
            json: structured,
            ..Outcome::failure(why)
        });
    }
    let output = structured.as_ref().and_then(|data| data["output"].as_str());
    let output = output.map_or_else(|| texts.join("\n"), str::to_owned);
    Ok(Outcome {
        json: structured,
        ..Outcome::success(output)
    })
}

impl Plugins for StepPlugins {
    fn offer<'a>(&'a self, plugin: &'a str) -> BoxFuture<'a, Result<PluginOffer, String>> {
        Box::pin(async move {
            let plugin = self.plugin(plugin).await.map_err(|error| match error {
                NoTools::UnknownPlugin { why, .. } => why,
                NoTools::UnknownOperation(why)
                | NoTools::UnsupportedSchema(why)
                | NoTools::UnknownServer(why) => why,
                error @ NoTools::NameCollision { .. } => error.to_string(),
            })?;
            let one = |name: &str| {
                let described = plugin.descriptor(name);
                let why = described
                    .and_then(Result::err)
                    .map(|error| error.to_string());
                (name.to_owned(), why)
            };
            Ok(plugin.operations().map(one).collect())
        })
    }
}
