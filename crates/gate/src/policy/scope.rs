//! Scopes: the subjects of a rule set, and the fields its rules can have.

use super::projection::SubjectKind;

/// The subjects of a rule set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// Every tool call, by its name.
    McpTool,
    /// Every prompt that is requested or completed, by its name.
    McpPrompt,
    /// Every resource that is read or completed, by its URI.
    McpResource,
    /// Every request that is not a tool call, by its method.
    McpMethod,
    Filesystem,
    Shell,
    Network,
    Browser,
    Data,
    Cost,
    /// A custom scope: tools that are mapped to it, by their names.
    Word(String),
}

/// A field by which a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Pattern,
    Paths,
    Domains,
    Action,
}

impl Scope {
    /// Parses a scope; `None` unless it is one word.
    pub(super) fn read(text: &str) -> Option<Self> {
        let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.len() <= 64
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        is_word.then(|| match text {
            "mcp_tool" => Self::McpTool,
            "mcp_prompt" => Self::McpPrompt,
            "mcp_resource" => Self::McpResource,
            "mcp_method" => Self::McpMethod,
            "filesystem" => Self::Filesystem,
            "shell" => Self::Shell,
            "network" => Self::Network,
            "browser" => Self::Browser,
            "data" => Self::Data,
            "cost" => Self::Cost,
            word => Self::Word(word.to_owned()),
        })
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::McpTool => "mcp_tool",
            Self::McpPrompt => "mcp_prompt",
            Self::McpResource => "mcp_resource",
            Self::McpMethod => "mcp_method",
            Self::Filesystem => "filesystem",
            Self::Shell => "shell",
            Self::Network => "network",
            Self::Browser => "browser",
            Self::Data => "data",
            Self::Cost => "cost",
            Self::Word(word) => word,
        }
    }

    /// The kind of subject that arguments are searched for; `None` where rules match the name.
    pub(super) fn sought(&self) -> Option<SubjectKind> {
        match self {
            Self::Filesystem => Some(SubjectKind::Paths),
            Self::Shell => Some(SubjectKind::Commands),
            Self::Network | Self::Browser => Some(SubjectKind::Hosts),
            Self::Data => Some(SubjectKind::Texts),
            Self::McpTool
            | Self::McpPrompt
            | Self::McpResource
            | Self::McpMethod
            | Self::Cost
            | Self::Word(_) => None,
        }
    }

    /// The fields that rules can have here. A rule with another field could never match.
    pub(super) fn fields(&self) -> &'static [Field] {
        match self {
            Self::McpTool
            | Self::McpPrompt
            | Self::McpResource
            | Self::McpMethod
            | Self::Shell
            | Self::Data => &[Field::Pattern],
            Self::Filesystem => &[Field::Paths, Field::Action],
            Self::Network | Self::Browser => &[Field::Domains],
            Self::Cost => &[],
            Self::Word(_) => &[Field::Pattern, Field::Action],
        }
    }
}

impl Field {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pattern => "pattern",
            Self::Paths => "paths",
            Self::Domains => "domains",
            Self::Action => "action",
        }
    }
}
