//! A call in progress: first an [`Attempt`], and a [`Call`] once its target is known.

use std::{borrow::Cow, fmt, sync::Arc};

use callgate_wire::Frame;
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{
    DeclaredIntent, Hints, Host, ItemKind, Operation, Reference, ServerName, Tool, ToolSource,
};

/// The id of a call, and of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub Ulid);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The kind of caller that made the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A host that speaks MCP.
    Mcp,
    /// A command of this binary.
    Cli,
    /// A program that uses the REST API.
    Api,
    /// An agent in an agent step.
    Agent,
    /// A script that makes calls.
    Code,
    /// A server that asks its host a question.
    Server,
}

impl Source {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Cli => "cli",
            Self::Api => "api",
            Self::Agent => "agent",
            Self::Code => "code",
            Self::Server => "server",
        }
    }
}

/// The transport that received the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Lines on standard input.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// No transport: the same process.
    Local,
}

impl Transport {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Local => "local",
        }
    }
}

/// The door that a call came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Door {
    /// The kind of caller.
    pub source: Source,
    pub transport: Transport,
}

/// A received request: caller and bytes are known, the target is not resolved yet.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Assigned when the request was received.
    pub id: CallId,
    /// The call that this one belongs to: the first of several rounds, or a script run.
    pub parent: Option<CallId>,
    /// The local pack whose script made the call.
    pub via: Option<Arc<str>>,
    /// The host that sent it.
    pub host: Arc<Host>,
    /// The door it came through.
    pub door: Door,
    /// The request, byte for byte; the translated call where a view translated it.
    pub frame: Frame,
    /// The declared intent; `None` where the door has no way to declare one.
    pub declared: Option<Arc<DeclaredIntent>>,
}

/// The target of a call: exactly one thing of exactly one server.
#[derive(Debug, Clone)]
pub enum Target {
    /// A tool of the catalog.
    Tool(Arc<Tool>),
    /// A prompt to fill in.
    Prompt(Reference),
    /// A resource to read.
    Resource(Reference),
    /// An argument of a prompt or resource template to complete.
    Completion(Reference),
    /// Any other request: about a task of a server, or passed on to the only server there is.
    Method {
        /// The server that receives it.
        server: ServerName,
        method: String,
        /// The server's own id of the task; hosts know it under another one.
        task: Option<String>,
    },
}

impl Target {
    /// The server that the call goes to.
    pub fn server(&self) -> &ServerName {
        match self {
            Self::Tool(tool) => &tool.server,
            Self::Prompt(of) | Self::Resource(of) | Self::Completion(of) => &of.server,
            Self::Method { server, .. } => server,
        }
    }

    /// The kind of provider that performs the call.
    pub fn source(&self) -> ToolSource {
        match self {
            Self::Tool(tool) => tool.source,
            Self::Prompt(_) | Self::Resource(_) | Self::Completion(_) | Self::Method { .. } => {
                ToolSource::Server
            }
        }
    }

    /// The provider, for spans and log lines.
    pub fn source_text(&self) -> String {
        match self.source() {
            ToolSource::Builtin => "builtin".to_owned(),
            ToolSource::Plugin => format!("plugin:{}", self.server()),
            ToolSource::Server => format!("server:{}", self.server()),
        }
    }

    /// The server's name of the tool or prompt, the resource's URI, or the method.
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(tool) => &tool.name,
            Self::Prompt(of) | Self::Resource(of) | Self::Completion(of) => &of.name,
            Self::Method { method, .. } => method,
        }
    }

    /// The name for log lines and events: a URI without its possibly secret parts.
    pub fn label(&self) -> Cow<'_, str> {
        match self {
            Self::Tool(_) | Self::Method { .. } => self.name().into(),
            Self::Prompt(of) | Self::Resource(of) | Self::Completion(of) => match of.kind {
                ItemKind::Prompt => self.name().into(),
                // Prompt names are chosen by servers; URIs can be composed by hosts, with tokens in them.
                ItemKind::Resource | ItemKind::Template => without_secrets(&of.name),
            },
        }
    }

    /// The scope whose rules apply to it.
    pub fn scope(&self) -> &'static str {
        match self {
            Self::Tool(_) => "mcp_tool",
            Self::Prompt(of) | Self::Resource(of) | Self::Completion(of) => of.kind.scope(),
            Self::Method { .. } => "mcp_method",
        }
    }
}

/// A URI without user, password, query and fragment.
fn without_secrets(uri: &str) -> Cow<'_, str> {
    // Queries, fragments and user parts are where URIs carry tokens; log lines leave the gateway.
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = path.split_once("://") else {
        return path.into();
    };
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]).into(),
        None => path.into(),
    }
}

/// An attempt whose target is known. Only [`decide`](crate::decide) turns it into a permit.
#[derive(Debug, Clone)]
pub struct Call {
    pub attempt: Attempt,
    /// The target that the request resolved to.
    pub target: Target,
}

impl Call {
    /// What the call will do: as declared, else by the server's annotations.
    pub fn operation(&self) -> Operation {
        match (&self.attempt.declared, &self.target) {
            (Some(declared), _) => declared.operation(),
            (None, Target::Tool(tool)) => tool.hints.operation(),
            (None, Target::Prompt(_) | Target::Resource(_) | Target::Completion(_)) => {
                Hints::reading().operation()
            }
            (None, Target::Method { .. }) => Hints::default().operation(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_omit_credentials_and_queries() {
        let cases = [
            ("file:///a/b", "file:///a/b"),
            ("postgres://me:pw@db/t/schema", "postgres://db/t/schema"),
            ("a://h/p?token=1", "a://h/p"),
            ("a://h/p#token=1", "a://h/p"),
            ("a://h/p@q", "a://h/p@q"),
            ("urn:x", "urn:x"),
        ];
        for (uri, label) in cases {
            let target = Target::Resource(Reference {
                kind: ItemKind::Resource,
                server: ServerName::new("s").unwrap(),
                name: uri.to_owned(),
            });
            assert_eq!(target.label(), label);
        }
    }
}
