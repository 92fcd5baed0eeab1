//! `callgate agent`: one agent step from the shell, past ones, and a probe of the installed agents.

mod kept;
mod probe;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use callgate_agent::{
    AgentKind, Budget, Options, Proxy, Step, StepEvent, StepFailed, relay::PluginTools,
};
use callgate_call::TraceContext;
use callgate_config::{Settings, TimeSpan};
use callgate_gateway::{
    Running,
    plan::StepTools,
    server_tools::ServerTools,
    steps::{StepOwner, StepPlugins, context, offered_builtins},
};
use callgate_upstream::Profile;

use crate::{
    args::{Agent, AgentMode, Shared},
    exit::{Failed, stopped},
    print::outln,
    setup,
    signals::{Hangup, Signals},
    steps::{Attended, Display, StepLines, show},
};

/// A step's calls end before the step does, so shutdown has little to wait for.
const PATIENCE: Duration = Duration::from_millis(500);

pub(crate) fn run(shared: &Shared, agent: &Agent) -> Result<ExitCode, Failed> {
    match agent.provider.as_str() {
        "probe" => return probe::run(shared, agent),
        "list" => return kept::list(shared),
        "show" => return kept::one(shared, agent.subject.as_deref()),
        _ => {}
    }
    if let Some(more) = &agent.subject {
        return Err(Failed::user(format!("unexpected argument `{more}`")));
    }
    let step = step(agent)?;
    let wanted = wanted(agent)?;
    let settings = setup::settings_of_steps(shared)?;
    if step.proxy == Proxy::Additive && wanted.is_empty() && agent.tools.is_empty() {
        return Err(empty_proxy());
    }
    let runtime = setup::runtime()?;
    let tools = (wanted.as_slice(), agent.tools.as_slice());
    let ended = runtime.block_on(run_step(&settings, &step, tools, shared.json));
    // Tasks that a second signal abandoned must not delay the exit.
    runtime.shutdown_background();
    ended
}

/// The gate of one step, with exactly the tools that it offers.
async fn open(
    settings: &Settings,
    step: &Step,
    plugins: &StepPlugins,
    (wanted, tools): (&[PluginTools], &[String]),
) -> Result<Running, Failed> {
    let servers = ServerTools::read(settings, tools)?;
    let tools = StepTools {
        plugins: plugins.tools(wanted).await?,
        ..servers.to_start(settings)
    };
    let plan =
        callgate_gateway::plan::step(settings, &step.workdir, offered_builtins(step), tools)?;
    let running = Running::start_with(settings, plan, Profile::gateway())?;
    match servers.check(&running.fleet).await {
        Ok(()) => Ok(running),
        Err(error) => {
            running.stop(PATIENCE).await;
            Err(error.into())
        }
    }
}

async fn run_step(
    settings: &Settings,
    step: &Step,
    tools: (&[PluginTools], &[String]),
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let signals = Signals::listen(Hangup::Stops)?;
    let plugins = StepPlugins::new(settings, &std::env::current_dir().unwrap_or_default());
    let running = match open(settings, step, &plugins, tools).await {
        Ok(running) => running,
        Err(failed) => {
            plugins.stop().await;
            return Err(failed);
        }
    };
    plugins.log_is_open(running.gateway.path().recorder().clone());
    let env: Vec<(String, String)> = std::env::vars().collect();
    let owner = StepOwner {
        trace: TraceContext::in_env(&env),
        within: None,
    };
    let context = Arc::new(context(settings, &running.gateway, Some(step), owner)?);
    let shown = Shown::start(settings, &running, as_json);
    let tell = |event: StepEvent| shown.tell(&event);
    let mut ended = None;
    let stepping = async {
        let stepping = step.run(&context, signals.stop.clone(), &tell);
        ended = Some(plugins.during(&signals.stop, stepping).await);
        running.stop(PATIENCE).await;
    };
    signals.wind_down(stepping).await;
    shown.end().await;
    match ended {
        Some(Ok(outcome)) => {
            if !as_json {
                outln!("{}", outcome.text);
            }
            Ok(ExitCode::SUCCESS)
        }
        Some(Err(StepFailed::Stopped)) | None => Ok(stopped(&StepFailed::Stopped.to_string())),
        Some(Err(failed)) => Err(failure(&failed)),
    }
}

/// What is shown of a step, and asked.
struct Shown {
    as_json: bool,
    display: Arc<Display>,
    lines: Mutex<StepLines>,
    attended: Option<Attended>,
}

impl Shown {
    fn start(settings: &Settings, running: &Running, as_json: bool) -> Self {
        let display = Arc::new(Display::plain());
        let attended = match as_json {
            true => None,
            false => Attended::start(settings, running, display.clone()),
        };
        Self {
            as_json,
            display,
            lines: Mutex::default(),
            attended,
        }
    }

    fn tell(&self, event: &StepEvent) {
        if self.as_json {
            outln!("{}", serde_json::to_string(event).unwrap_or_default());
            return;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        show(&self.display, &mut lines, event);
        if let Some(attended) = &self.attended {
            attended.note(event);
        }
    }

    /// Stops asking. Before the outcome is printed: the question of a call that nothing waits for must not follow it.
    async fn end(self) {
        if let Some(attended) = self.attended {
            let _ = tokio::task::spawn_blocking(move || attended.end()).await;
        }
    }
}

fn step(agent: &Agent) -> Result<Step, Failed> {
    let kind: AgentKind = agent
        .provider
        .parse()
        .map_err(|error| Failed::user(format!("{error}")))?;
    let wanted = agent.prompt.as_deref();
    let wanted = wanted.ok_or_else(|| {
        Failed::user("`--prompt` is missing")
            .help("pass the task: `--prompt TEXT` or `--prompt @FILE`")
    })?;
    let prompt = match wanted.strip_prefix('@') {
        Some(file) => fs::read_to_string(file)
            .map_err(|error| Failed::user(format!("cannot read the prompt `{file}`: {error}")))?,
        None => wanted.to_owned(),
    };
    let proxy = match agent.mode {
        AgentMode::Full => Proxy::Full,
        AgentMode::Additive => Proxy::Additive,
    };
    let timeout = agent.timeout.as_deref().map(time).transpose()?;
    Ok(Step {
        kind,
        prompt,
        workdir: folder(&agent.workdir)?,
        proxy,
        options: Options {
            model: agent.model.clone(),
            max_rounds: agent.max_rounds,
            stream: agent.no_stream.then_some(false),
            ..Options::default()
        },
        timeout,
        budget: Budget {
            calls: agent.max_calls,
            tokens: agent.max_tokens,
            cost_usd: agent.max_cost,
            time: None,
        },
    })
}

/// Additive mode without plugin tools would offer nothing of the gate's.
pub(crate) fn empty_proxy() -> Failed {
    Failed::user("USER.MCP_PROXY.EMPTY_PROXY: additive mode without a plugin offers no tool")
        .help("add `--plugin PLUGIN:OPERATION` or `--tool SERVER:TOOL`, or use `--mode full`")
}

/// The operations of plugins that are offered, as `PLUGIN:OP,OP`.
fn wanted(agent: &Agent) -> Result<Vec<PluginTools>, Failed> {
    let one = |text: &String| {
        let (plugin, operations) = text.split_once(':').unwrap_or((text, ""));
        let operations = operations.split(',').map(str::trim);
        let expose: Vec<String> = operations
            .filter(|operation| !operation.is_empty())
            .map(str::to_owned)
            .collect();
        if expose.is_empty() {
            let what = format!("USER.MCP_PROXY.EMPTY_PROXY: `--plugin {text}` names no operation");
            return Err(Failed::user(what).help("write it like `--plugin kubernetes:get,apply`"));
        }
        Ok(PluginTools {
            plugin: plugin.to_owned(),
            expose,
        })
    };
    agent.plugins.iter().map(one).collect()
}

fn folder(workdir: &Path) -> Result<PathBuf, Failed> {
    let found = fs::canonicalize(workdir);
    let found = found.ok().filter(|folder| folder.is_dir());
    found.ok_or_else(|| Failed::user(format!("`{}` is not a folder", workdir.display())))
}

/// Bare numbers are seconds.
fn time(text: &str) -> Result<Duration, Failed> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let span: TimeSpan = text.parse().map_err(Failed::user)?;
    Ok(span.0)
}

fn failure(failed: &StepFailed) -> Failed {
    match failed {
        StepFailed::Missing(_)
        | StepFailed::ProjectFile { .. }
        | StepFailed::LoginExpired { .. }
        | StepFailed::Boxed(_) => Failed::user(failed.to_string()),
        StepFailed::Setup(_) => Failed::system(failed.to_string()),
        StepFailed::NotStarted { .. }
        | StepFailed::NoTools { .. }
        | StepFailed::NoFinalEvent { .. }
        | StepFailed::Agent(_)
        | StepFailed::TimedOut(_)
        | StepFailed::Stopped
        | StepFailed::OverBudget(_)
        | StepFailed::LoopGuard(_)
        | StepFailed::Model(_) => Failed::execution(failed.to_string()),
    }
}
