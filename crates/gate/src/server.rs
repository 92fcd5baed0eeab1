//! What a configured server is: how it is reached and how it is spoken to. Data only; starting servers is the business
//! of others.

mod endpoint;

use std::{path::PathBuf, time::Duration};

use callgate_wire::Era;

use crate::ServerName;

pub use endpoint::{Endpoint, EndpointError};

/// One configured server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// Its name.
    pub name: ServerName,
    /// How it is started, or why it cannot be.
    pub launch: Launch,
    /// How long a call may take.
    pub timeout: Duration,
    /// Which era of the protocol is spoken with it.
    pub protocol: Protocol,
}

/// Which era of the protocol is spoken with a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// That of the host where the server speaks it, else the other.
    #[default]
    Auto,
    /// Only this one.
    Only(Era),
}

/// How a server is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// A child process that speaks over its standard streams.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its whole environment.
        env: Vec<(String, String)>,
        /// Where it runs.
        cwd: Option<PathBuf>,
    },
    /// A server that is reached over HTTP.
    Http(Endpoint),
    /// The configuration says `enabled: false`.
    SwitchedOff,
    /// It cannot be started as it is configured; the reason is shown wherever the server is.
    Off {
        /// Why.
        reason: String,
    },
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
