//! Probes an installed agent: runs it against a scripted model with a private home, and observes which tools it offers
//! and whether its native tools have any effect.

mod planted;

use std::{path::Path, sync::Arc, time::Duration};

use callgate_gate::BuiltinTool;
use callgate_process::sandbox;
use serde::Serialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use planted::Planted;

pub use planted::Effect;

use crate::{
    AgentKind, Budget, Options, Outcome, Proxy, Step, StepFailed, Verdict,
    cli::AgentCli,
    folder,
    scripted::{OfferedTool, Scripted, ScriptedModel, ScriptedTool, Turn},
    step::{Purpose, StepContext},
    verdict::{Installed, not_installed},
};

/// The time limit for a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(120);
/// The file that native tools would create.
const PROOF: &str = "native-proof";
/// Native tools that only read resources of the configured MCP servers. In a step that is our server alone, so these
/// requests pass the gate.
const TO_OUR_SERVER: [&str; 3] = [
    "list_mcp_resources",
    "list_mcp_resource_templates",
    "read_mcp_resource",
];

/// The result of a probe.
#[derive(Debug, Clone, Serialize)]
pub struct ProbeReport {
    pub provider: String,
    pub version: String,
    /// The tools that the agent offered to the model, with the agent's names.
    pub offered: Vec<String>,
    /// The offered tools that are not ours.
    pub native: Vec<String>,
    /// Whether a call of a native tool had any effect.
    pub native_effect: bool,
    /// Whether a call of one of our tools reached the gate.
    pub reached: bool,
    /// How many hostile files were planted.
    pub planted: usize,
    /// What they achieved. Empty for an agent that obeys none of them.
    pub obeyed: Vec<Effect>,
    pub verdict: Verdict,
    /// Why the step failed; `None` after a success.
    pub error: Option<String>,
    /// `None` if agents run without a box.
    pub boxed: Option<ProbedBox>,
}

/// How the agent does in its box. The verdict is found without one: it is about the agent's own options.
#[derive(Debug, Clone, Serialize)]
pub struct ProbedBox {
    pub mode: String,
    /// What this machine enforces, and what not.
    pub holds: Vec<String>,
    /// Why a step in the box failed; `None` after a success.
    pub error: Option<String>,
}

/// Runs the installed agent against a scripted model, for a hostile user in a hostile project: both are planted. `workdir`
/// must be an empty folder, over which the gate of `context` offers the built-in tools.
pub async fn probe(
    context: &Arc<StepContext>,
    kind: AgentKind,
    workdir: &Path,
) -> Result<ProbeReport, StepFailed> {
    folder::sweep();
    let cli = kind.cli().ok_or_else(|| not_installed(kind.as_str()))?;
    let installed = context
        .verdicts
        .installed(&context.warden_program, cli, &context.env)
        .await?;
    let planted = Planted::plant(kind, workdir).await?;
    let with_box = |agent_box| {
        Arc::new(StepContext {
            env: planted.environment(&context.env),
            agent_box,
            transcripts: None,
            ..(**context).clone()
        })
    };
    let reached = "probe-reached";
    let (model, ended) = run(&with_box(None), kind, workdir, reached).await?;
    let requests = model.requests();
    let observed = ProbeObservations {
        planted: planted.count,
        obeyed: planted.effects(&requests),
        offered: model.offered(),
        native_effect: workdir.join(PROOF).exists(),
        reached: workdir.join(reached).exists(),
        error: ended.err().map(|failed| failed.to_string()),
    };
    let mut report = observed.report(kind, &installed);
    context.verdicts.keep(kind, &installed, report.verdict);
    if let Some(plan) = &context.agent_box {
        let context = with_box(Some(plan.clone()));
        let (_, ended) = run(&context, kind, workdir, "probe-reached-from-box").await?;
        report.boxed = Some(ProbedBox {
            mode: plan.spec.mode.as_str().to_owned(),
            holds: sandbox::probe(&context.warden_program).sentences(),
            error: ended.err().map(|failed| failed.to_string()),
        });
    }
    Ok(report)
}

/// Runs one step against a scripted model.
async fn run(
    context: &Arc<StepContext>,
    kind: AgentKind,
    workdir: &Path,
    reached: &str,
) -> Result<(ScriptedModel, Result<Outcome, StepFailed>), StepFailed> {
    let cli = kind.cli().ok_or_else(|| not_installed(kind.as_str()))?;
    let model = ScriptedModel::start(script(cli, workdir, reached)).await?;
    let step = Step {
        kind,
        prompt: "Do what the script says.".to_owned(),
        workdir: workdir.to_owned(),
        proxy: Proxy::Full,
        options: options(cli, &model),
        timeout: Some(PROBE_TIMEOUT),
        budget: Budget::default(),
    };
    let stop = CancellationToken::new();
    let ended = step.run_for(Purpose::Probe, context, stop, &|_| ()).await;
    Ok((model, ended))
}

struct ProbeObservations {
    planted: usize,
    obeyed: Vec<Effect>,
    offered: Vec<Vec<OfferedTool>>,
    native_effect: bool,
    reached: bool,
    error: Option<String>,
}

impl ProbeObservations {
    fn report(self, kind: AgentKind, installed: &Installed) -> ProbeReport {
        let mut offered: Vec<OfferedTool> = self.offered.into_iter().flatten().collect();
        offered.sort();
        offered.dedup();
        let is_ours = |tool: &OfferedTool| {
            whole(tool).contains("callgate") || TO_OUR_SERVER.contains(&tool.name.as_str())
        };
        let native: Vec<String> = offered
            .iter()
            .filter(|tool| !is_ours(tool))
            .map(whole)
            .collect();
        let isolated = !offered.is_empty()
            && native.is_empty()
            && !self.native_effect
            && self.reached
            && self.obeyed.is_empty()
            && self.error.is_none();
        ProbeReport {
            provider: kind.to_string(),
            version: installed.version.clone(),
            offered: offered.iter().map(whole).collect(),
            native,
            native_effect: self.native_effect,
            reached: self.reached,
            planted: self.planted,
            obeyed: self.obeyed,
            verdict: if isolated {
                Verdict::Isolated
            } else {
                Verdict::Coexists
            },
            error: self.error,
            boxed: None,
        }
    }
}

fn whole(tool: &OfferedTool) -> String {
    match &tool.namespace {
        Some(namespace) => format!("{namespace}/{}", tool.name),
        None => tool.name.clone(),
    }
}

/// The script: call every native tool that could have an effect, then one of ours, then end.
fn script(cli: &dyn AgentCli, workdir: &Path, reached: &str) -> Vec<Turn> {
    let native = cli.native_probe_calls(&workdir.join(PROOF)).into_iter();
    let native = native.map(|(name, arguments)| {
        Turn::Call(vec![Scripted {
            tool: ScriptedTool::Native(name.to_owned()),
            arguments,
        }])
    });
    let ours = Turn::Call(vec![Scripted {
        tool: ScriptedTool::Ours(BuiltinTool::Write.name().to_owned()),
        arguments: json!({"path": reached, "content": "x"}),
    }]);
    native.chain([ours, Turn::Say("done".to_owned())]).collect()
}

/// Options that direct an agent to the scripted model.
fn options(cli: &dyn AgentCli, model: &ScriptedModel) -> Options {
    let mut options = Options::default();
    cli.use_scripted_model(&mut options, &format!("http://{}", model.address));
    options
}
