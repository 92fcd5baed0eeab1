//! `callgate agent` as typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Run a coding agent for one task, with the gate as where its tools come from.
///
/// The final text goes to stdout, progress to stderr. `callgate agent probe [PROVIDER]` looks at the
/// agents that are installed and says which of them can be reduced to our tools.
#[derive(Debug, ClapArgs)]
pub(crate) struct Agent {
    /// claude, gemini, codex, opencode or openai_compatible; or `probe`
    pub(crate) provider: String,
    /// With `probe`: only this one
    #[arg(value_name = "PROBED")]
    pub(crate) probed: Option<String>,
    /// What it is to do: a text, or `@FILE`
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) prompt: Option<String>,
    /// Where it works
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) workdir: PathBuf,
    /// full: our tools alone; additive: its own, and those of plugins
    #[arg(long, value_enum, default_value_t = AgentMode::Full)]
    pub(crate) mode: AgentMode,
    /// Offer operations of a plugin (repeatable)
    #[arg(long = "plugin", value_name = "PLUGIN:OP,OP")]
    pub(crate) plugins: Vec<String>,
    /// The model
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// How long it may take, for example 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// How many rounds of calls an OpenAI-compatible model may make
    #[arg(long, value_name = "N")]
    pub(crate) max_rounds: Option<u32>,
    /// Ask an OpenAI-compatible model for whole answers
    #[arg(long)]
    pub(crate) no_stream: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentMode {
    Full,
    Additive,
}
