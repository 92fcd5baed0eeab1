//! `callgate agent` as typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Run a coding agent for one task, with its tools routed through the gate
///
/// The final text goes to stdout, progress to stderr. `callgate agent probe [PROVIDER]` checks which of
/// the installed agents can be restricted to callgate's tools. `callgate agent list` lists past runs,
/// `callgate agent show RUN` shows what happened in one.
#[derive(Debug, ClapArgs)]
pub(crate) struct Agent {
    /// claude, gemini, codex, opencode or openai_compatible; or `probe`, `list`, `show`
    pub(crate) provider: String,
    /// With `probe`: the only agent to check. With `show`: the run
    #[arg(value_name = "SUBJECT")]
    pub(crate) subject: Option<String>,
    /// The task: a text, or `@FILE`
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) prompt: Option<String>,
    /// The agent's working folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) workdir: PathBuf,
    /// full: only callgate's tools; additive: the agent's own tools and those of plugins
    #[arg(long, value_enum, default_value_t = AgentMode::Full)]
    pub(crate) mode: AgentMode,
    /// Offer operations of a plugin (repeatable)
    #[arg(long = "plugin", value_name = "PLUGIN:OP,OP")]
    pub(crate) plugins: Vec<String>,
    /// Offer tools of a server of callgate.yaml, such as `files:*` (repeatable)
    #[arg(long = "tool", value_name = "SERVER:TOOL")]
    pub(crate) tools: Vec<String>,
    /// The model to use
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// How long the agent may take, such as 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// How many calls the agent may make
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_calls: Option<u64>,
    /// How many tokens the agent may use, input and output together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// How many dollars the agent may spend, for agents that report it
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<f64>,
    /// The highest number of call rounds of an OpenAI-compatible model
    #[arg(long, value_name = "N")]
    pub(crate) max_rounds: Option<u32>,
    /// Do not stream the answers of an OpenAI-compatible model
    #[arg(long)]
    pub(crate) no_stream: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentMode {
    Full,
    Additive,
}
