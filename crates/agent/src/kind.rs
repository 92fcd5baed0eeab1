//! The supported agents, one line each.

use std::{fmt, str::FromStr};

use crate::{
    claude,
    cli::{AgentCli, LongestResult, PARAGRAPH_END},
    codex, gemini, opencode,
};

/// Generates [`AgentKind`] and the lookup of its [`AgentCli`] from one table, so that a new agent is one line.
macro_rules! agent_clis {
    ($($(#[$doc:meta])* $kind:ident => $cli:expr,)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum AgentKind {
            $($(#[$doc])* $kind,)+
            /// Any model with OpenAI's chat completions API. It has no program: its loop runs in this process.
            OpenAiCompatible,
        }

        impl AgentKind {
            /// The agents with a program of their own.
            pub const PROGRAMS: &'static [Self] = &[$(Self::$kind),+];

            /// `None` for a model, which has no program.
            pub(crate) fn cli(self) -> Option<&'static dyn AgentCli> {
                match self {
                    $(Self::$kind => Some(&$cli),)+
                    Self::OpenAiCompatible => None,
                }
            }
        }
    };
}

agent_clis! {
    Claude => claude::Claude,
    Gemini => gemini::Gemini,
    Codex => codex::Codex,
    OpenCode => opencode::OpenCode,
}

/// The name of an OpenAI-compatible model.
const OPENAI_COMPATIBLE: &str = "openai_compatible";
/// An accepted alternative spelling.
const OPENAI_COMPATIBLE_DASHED: &str = "openai-compatible";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent `{0}` (agents: {known})", known = known_names())]
pub struct UnknownAgent(String);

impl AgentKind {
    /// The name that users write and records show.
    pub fn as_str(self) -> &'static str {
        self.cli().map_or(OPENAI_COMPATIBLE, AgentCli::program)
    }

    /// Whether it refuses arguments that a tool's schema does not allow.
    pub fn validates_arguments(self) -> bool {
        self.cli().is_some_and(AgentCli::validates_arguments)
    }

    /// The longest result that it hands to its model whole, if that is shorter than a page of ours.
    pub fn longest_result(self) -> Option<LongestResult> {
        self.cli().and_then(AgentCli::longest_result)
    }

    pub(crate) fn text_separator(self) -> &'static str {
        self.cli().map_or(PARAGRAPH_END, AgentCli::text_separator)
    }
}

fn known_names() -> String {
    let programs = AgentKind::PROGRAMS.iter().map(|kind| kind.as_str());
    let names: Vec<&str> = programs.chain([OPENAI_COMPATIBLE]).collect();
    names.join(", ")
}

impl fmt::Display for AgentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AgentKind {
    type Err = UnknownAgent;

    fn from_str(text: &str) -> Result<Self, UnknownAgent> {
        if [OPENAI_COMPATIBLE, OPENAI_COMPATIBLE_DASHED].contains(&text) {
            return Ok(Self::OpenAiCompatible);
        }
        let mut programs = Self::PROGRAMS.iter().copied();
        let found = programs.find(|kind| kind.as_str() == text);
        found.ok_or_else(|| UnknownAgent(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn agent_names_round_trip() {
        for kind in AgentKind::PROGRAMS {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
        }
        for name in ["openai_compatible", "openai-compatible"] {
            assert_eq!(name.parse(), Ok(AgentKind::OpenAiCompatible));
        }
    }

    #[test]
    fn the_error_for_an_unknown_agent_lists_the_known_ones() {
        let unknown = "Claude".parse::<AgentKind>().unwrap_err();
        let expected =
            "unknown agent `Claude` (agents: claude, gemini, codex, opencode, openai_compatible)";
        assert_eq!(unknown.to_string(), expected);
    }

    #[test]
    fn malformed_events_are_never_final() {
        for kind in AgentKind::PROGRAMS {
            for event in [
                json!(null),
                json!("result"),
                json!([{"type": "result"}]),
                json!({"type": 7}),
                json!({"type": "done", "status": "success"}),
                json!({"subtype": "success", "result": "ok"}),
            ] {
                let said = kind.cli().unwrap().read_event(&event);
                assert_eq!(said, [], "{kind}: {event}");
            }
        }
    }
}
