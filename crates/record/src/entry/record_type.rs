//! What records are about.

use serde::{Deserialize, Serialize};

/// What kind of request a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordType {
    /// tools/call.
    ToolCall,
    /// A script, whose calls are records of their own.
    Run,
    /// prompts/get.
    PromptGet,
    /// resources/read.
    ResourceRead,
    /// Any other request that passed through.
    Other,
    /// A client asked whether a call is allowed.
    Check,
    /// A person decided about a call.
    Approval,
    /// Something that happened to an upstream server.
    Server,
    /// Something that happened to the gateway.
    System,
}

impl RecordType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolCall => "tool_call",
            Self::Run => "run",
            Self::PromptGet => "prompt_get",
            Self::ResourceRead => "resource_read",
            Self::Other => "other",
            Self::Check => "check",
            Self::Approval => "approval",
            Self::Server => "server",
            Self::System => "system",
        }
    }
}
