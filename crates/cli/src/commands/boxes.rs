//! The boxes of what the configuration starts, for `doctor` and `servers list`.

use std::path::Path;

use callgate_config::Settings;
use callgate_gate::{BoxMode, BoxSpec, Launch};

/// The agents of steps, in lists of what runs.
const AGENTS: &str = "agents";

/// The word for the box of a server: its mode, `none`, or `-` if callgate starts no process for it.
pub(crate) fn word(settings: &Settings, server: &str) -> &'static str {
    let mut servers = settings.servers.iter();
    let spec = servers.find(|spec| spec.name.as_str() == server);
    let Some(spec) = spec else { return "-" };
    match (&spec.launch, &spec.sandbox) {
        (Launch::Http(_), _) => "-",
        (Launch::Stdio { .. } | Launch::SwitchedOff | Launch::Off { .. }, None) => "none",
        (_, Some(sandbox)) => sandbox.mode.as_str(),
    }
}

/// The servers and plugins that run with all rights of the user, each as `server x` or `plugin x`.
pub(crate) fn missing(settings: &Settings) -> Vec<String> {
    let is_unboxed = |spec: &&callgate_gate::ServerSpec| {
        matches!(spec.launch, Launch::Stdio { .. }) && spec.sandbox.is_none()
    };
    let servers = settings.servers.iter().filter(is_unboxed);
    let servers = servers.map(|spec| format!("server {}", spec.name));
    let plugins = settings.plugins().map(|(name, _)| name);
    let plugins = plugins.filter(|name| matches!(settings.plugin_box(name), Ok(None)));
    let plugins = plugins.map(|name| format!("plugin {name}"));
    let agents = matches!(settings.agent_box(None), Ok(None)).then(|| AGENTS.to_owned());
    // Every configuration can run workflows, so they are named only where something that is configured is boxed.
    let workflows = (settings.config.workflows.sandbox.is_none()
        && boxed(settings).next().is_some())
    .then(|| "commands of workflows".to_owned());
    servers
        .chain(plugins)
        .chain(workflows)
        .chain(agents)
        .collect()
}

/// The box of the commands of a workflow that runs in the present folder. `Err` is shown by the run.
fn workflows(settings: &Settings) -> Option<BoxSpec> {
    settings.workflow_box(Path::new("")).ok().flatten()
}

/// The boxes of servers and plugins.
fn boxed(settings: &Settings) -> impl Iterator<Item = BoxSpec> {
    let servers = settings.servers.iter();
    let servers = servers.filter_map(|spec| spec.sandbox.clone());
    let plugins = settings.plugins();
    servers.chain(plugins.filter_map(|(name, _)| settings.plugin_box(name).ok().flatten()))
}

/// The modes of the boxes of servers, plugins, commands of workflows and agents.
pub(crate) fn modes(settings: &Settings) -> Vec<BoxMode> {
    let agents = settings.agent_box(None).ok().flatten();
    let all = boxed(settings).chain(workflows(settings)).chain(agents);
    all.map(|sandbox| sandbox.mode).collect()
}

/// Each box in one line.
pub(crate) fn lines(settings: &Settings) -> Vec<String> {
    let servers = settings.servers.iter();
    let servers =
        servers.filter_map(|spec| Some((format!("server {}", spec.name), spec.sandbox.clone()?)));
    let plugins = settings.plugins().filter_map(|(name, _)| {
        let sandbox = settings.plugin_box(name).ok().flatten()?;
        Some((format!("plugin {name}"), sandbox))
    });
    let workflows = workflows(settings).map(|sandbox| {
        let who = "command of a workflow that runs here".to_owned();
        (who, sandbox)
    });
    let all = servers.chain(plugins).chain(workflows);
    let lines = all.map(|(who, sandbox)| line(&who, &sandbox));
    lines.chain(agents(settings)).collect()
}

/// The box of agents.
fn agents(settings: &Settings) -> Option<String> {
    let sandbox = settings.agent_box(None).ok().flatten()?;
    let mode = sandbox.mode.as_str();
    let more = [&sandbox.read, &sandbox.write];
    let paths = more
        .into_iter()
        .flatten()
        .map(|path| format!("`{}`", path.display()));
    let more: Vec<String> = paths.chain(sandbox.net.iter().cloned()).collect();
    let more = match more.is_empty() {
        true => String::new(),
        false => format!("; besides, {}", more.join(", ")),
    };
    Some(format!(
        "{AGENTS} are boxed ({mode}): each has its own program, its step's folders and its model's endpoint{more}"
    ))
}

fn line(who: &str, sandbox: &BoxSpec) -> String {
    let BoxSpec {
        mode,
        read,
        write,
        hidden,
        net,
    } = sandbox;
    let paths = |word: &str, paths: &[std::path::PathBuf]| {
        let paths: Vec<String> = paths
            .iter()
            .map(|path| format!("`{}`", path.display()))
            .collect();
        (!paths.is_empty()).then(|| format!("{word} {}", paths.join(", ")))
    };
    let hosts = match net.is_empty() {
        true => "reaches no host".to_owned(),
        false => format!("reaches {}", net.join(", ")),
    };
    let granted = || read.iter().chain(write);
    let hidden = hidden.iter();
    let in_granted = hidden.filter(|place| granted().any(|path| place.starts_with(path)));
    let hidden: Vec<_> = in_granted.cloned().collect();
    let missing: Vec<_> = granted().filter(|path| !path.exists()).cloned().collect();
    let parts = [
        paths("reads", read),
        paths("changes", write),
        paths("does not see", &hidden),
        paths("is to have what does not exist:", &missing),
        Some(hosts),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let mode = mode.as_str();
    format!("{who} is boxed ({mode}): {}", parts.join("; "))
}
