//! Which agents there are.

use std::{fmt, str::FromStr};

/// An agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentKind {
    /// Claude Code.
    Claude,
    /// Gemini CLI.
    Gemini,
    /// Codex.
    Codex,
    /// OpenCode.
    OpenCode,
    /// Any model with OpenAI's chat completions; no program is started.
    OpenAiCompatible,
}

/// There is no agent of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent `{0}` (agents: claude, gemini, codex, opencode, openai_compatible)")]
pub struct UnknownAgent(String);

impl AgentKind {
    /// Those that are programs of their own.
    pub const PROGRAMS: [Self; 4] = [Self::Claude, Self::Gemini, Self::Codex, Self::OpenCode];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Gemini => "gemini",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::OpenAiCompatible => "openai_compatible",
        }
    }
}

impl fmt::Display for AgentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AgentKind {
    type Err = UnknownAgent;

    fn from_str(text: &str) -> Result<Self, UnknownAgent> {
        match text {
            "claude" => Ok(Self::Claude),
            "gemini" => Ok(Self::Gemini),
            "codex" => Ok(Self::Codex),
            "opencode" => Ok(Self::OpenCode),
            "openai_compatible" | "openai-compatible" => Ok(Self::OpenAiCompatible),
            other => Err(UnknownAgent(other.to_owned())),
        }
    }
}
