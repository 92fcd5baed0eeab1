//! A call on its way: first an [`Attempt`], and once its target is known a [`Call`].

use std::{borrow::Cow, fmt, sync::Arc};

use callgate_wire::Frame;
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{Declared, Hints, Host, ItemKind, Operation, Reference, ServerName, Tool, ToolSource};

/// The id of a call, and of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub Ulid);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which kind of caller made the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A host that speaks MCP.
    Mcp,
    /// A command of our own binary.
    Cli,
    /// A program that uses the REST API.
    Api,
    /// An agent in one of our own steps.
    Agent,
    /// A script that makes calls.
    Code,
    /// A server that asks its host something.
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

/// How the call came in.
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
    /// Which kind of caller.
    pub source: Source,
    /// Over what.
    pub transport: Transport,
}

/// A request as it was received: known caller, known bytes, target not looked up yet.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Minted when the request was received.
    pub id: CallId,
    /// What this one is a part of: the first round of several, or a script.
    pub parent: Option<CallId>,
    /// The local pack of a script that made it, by its name.
    pub via: Option<Arc<str>>,
    /// The host that sent it.
    pub host: Arc<Host>,
    /// The door it came through.
    pub door: Door,
    /// The request, byte for byte; where a view translated it, the call that it stands for.
    pub frame: Frame,
    /// What the caller declared that it will do; `None` where the door has no way to declare it.
    pub declared: Option<Arc<Declared>>,
}

/// What a call is aimed at: exactly one thing of exactly one server.
#[derive(Debug, Clone)]
pub enum Target {
    /// A tool of the catalog.
    Tool(Arc<Tool>),
    /// A prompt that is to be filled in.
    Prompt(Reference),
    /// A resource that is to be read.
    Resource(Reference),
    /// An argument of a prompt, or of a template of resources, that is to be completed.
    Completion(Reference),
    /// Any other request: about a task of a server, or passed on to the only server there is.
    Method {
        /// The server that gets it.
        server: ServerName,
        /// The JSON-RPC method.
        method: String,
        /// The server's own id of the task that it is about, where hosts know another one.
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

    /// Who does the call.
    pub fn source(&self) -> ToolSource {
        match self {
            Self::Tool(tool) => tool.source,
            Self::Prompt(_) | Self::Resource(_) | Self::Completion(_) | Self::Method { .. } => {
                ToolSource::Server
            }
        }
    }

    /// Who does the call, as spans and log lines have it.
    pub fn source_text(&self) -> String {
        match self.source() {
            ToolSource::Builtin => "builtin".to_owned(),
            ToolSource::Plugin => format!("plugin:{}", self.server()),
            ToolSource::Server => format!("server:{}", self.server()),
        }
    }

    /// The own name of the tool or prompt, the resource's URI, or the method.
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(tool) => &tool.name,
            Self::Prompt(of) | Self::Resource(of) | Self::Completion(of) => &of.name,
            Self::Method { method, .. } => method,
        }
    }

    /// The same for log lines and events: a URI without what may be secret in it.
    pub fn label(&self) -> Cow<'_, str> {
        match self {
            Self::Tool(_) | Self::Method { .. } => self.name().into(),
            Self::Prompt(of) | Self::Resource(of) | Self::Completion(of) => match of.kind {
                ItemKind::Prompt => self.name().into(),
                ItemKind::Resource | ItemKind::Template => without_secrets(&of.name),
            },
        }
    }

    /// The scope whose rules are asked about it.
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
    /// What was received.
    pub attempt: Attempt,
    /// What it is aimed at.
    pub target: Target,
}

impl Call {
    /// What the call will do: as it was declared, else as the server's annotations say.
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
