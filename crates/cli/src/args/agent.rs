//! `callgate agent` as typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Run a coding agent for one task, with its tools routed through the gate
///
/// The final text goes to stdout, progress to stderr. `callgate agent probe [PROVIDER]` checks which of
/// the installed agents can be restricted to callgate's tools.
#[derive(Debug, ClapArgs)]
pub(crate) struct Agent {
    /// claude, gemini, codex, opencode or openai_compatible; or `probe`
    pub(crate) provider: String,
    /// With `probe`: the only agent to check
    #[arg(value_name = "PROBED")]
    pub(crate) probed: Option<String>,
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
    /// The model to use
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// How long the agent may take, such as 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
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
