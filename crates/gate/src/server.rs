//! The configuration of a server: launch, transport and protocol. Data only; `crates/upstream` starts servers.

mod boxed;
mod endpoint;

use std::{path::PathBuf, time::Duration};

use callgate_wire::Era;

use crate::ServerName;

pub use boxed::{BoxMode, BoxSpec};
pub use endpoint::{Endpoint, EndpointError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    pub name: ServerName,
    /// How it is started, or why it cannot be started.
    pub launch: Launch,
    /// The deadline of a call.
    pub timeout: Duration,
    /// The protocol era to use.
    pub protocol: Protocol,
    /// What its process may reach; everything that the user may if `None`.
    pub sandbox: Option<BoxSpec>,
}

/// The protocol era for a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The host's era if the server supports it, else the other.
    #[default]
    Auto,
    Only(Era),
}

/// How a server is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// A child process that speaks over its standard streams.
    Stdio {
        command: String,
        args: Vec<String>,
        /// Its whole environment.
        env: Vec<(String, String)>,
        cwd: Option<PathBuf>,
    },
    /// A server that is reached over HTTP.
    Http(Endpoint),
    /// The configuration has `enabled: false`.
    SwitchedOff,
    /// The configuration is not usable; the reason is shown wherever the server is.
    Off { reason: String },
}

impl Launch {
    /// Whether the server can be started.
    pub fn is_enabled(&self) -> bool {
        match self {
            Self::Stdio { .. } | Self::Http(_) => true,
            Self::SwitchedOff | Self::Off { .. } => false,
        }
    }

    /// The word that users see: `stdio` or `http`.
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Stdio { .. } | Self::SwitchedOff | Self::Off { .. } => "stdio",
            Self::Http(_) => "http",
        }
    }
}
