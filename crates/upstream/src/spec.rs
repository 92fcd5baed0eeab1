//! Settings of all servers, and the profiles of connections.

use std::{path::PathBuf, sync::Arc, time::Duration};

use callgate_call::Audience;
use callgate_gate::{Naming, pins::PinStore};
use callgate_wire::Era;

/// Settings shared by all servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetOptions {
    pub naming: Naming,
    /// The program that starts and supervises child processes.
    pub warden_program: PathBuf,
    /// The folder for the servers' stderr logs.
    pub log_dir: Option<PathBuf>,
    /// The folder for saved definitions.
    pub definitions_dir: Option<PathBuf>,
    /// The store of accepted definitions; without one they last until this process ends.
    pub pin_store: Option<PinStoreHandle>,
    /// How long a first list or call waits for servers that are still connecting.
    pub connect_wait: Duration,
    /// How long the answer to `initialize` waits for servers that were never connected before.
    pub initialize_wait: Duration,
    /// Longest pause between two attempts to reach a server.
    pub reconnect_cap: Duration,
    /// How long a server that is down stays listed.
    pub listed_while_down: Duration,
    /// Longest line from a server over stdio.
    pub frame_bytes: usize,
    /// Largest message from a server over HTTP.
    pub http_bytes: usize,
    /// Calls in flight at once, per connection.
    pub concurrency_per_server: usize,
    /// Processes of one server at once.
    pub processes_per_server: usize,
}

/// The store of accepted definitions. Two are equal if they store to the same place.
#[derive(Debug, Clone)]
pub struct PinStoreHandle(pub Arc<dyn PinStore>);

impl PartialEq for PinStoreHandle {
    fn eq(&self, other: &Self) -> bool {
        self.0.place() == other.0.place()
    }
}

impl Eq for PinStoreHandle {}

/// The principal, client and capabilities that a connection is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The principal it belongs to; `None` until the first one uses it.
    pub principal: Option<String>,
    /// `clientInfo` towards the server, raw.
    pub client_info: String,
    /// Capabilities towards the server, raw.
    pub capabilities: String,
    pub era: Era,
}

impl Profile {
    /// The gateway's own profile. It has no capabilities, so servers must not ask anything.
    pub fn gateway() -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self {
            principal: None,
            client_info: format!(r#"{{"name":"callgate","version":"{version}"}}"#),
            capabilities: "{}".to_owned(),
            era: Era::Handshake,
        }
    }

    /// Whether hosts of both profiles may share a connection.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        // `client_info` does not count: clients that differ only in name and version share a process.
        self.principal == other.principal
            && self.capabilities == other.capabilities
            && self.era == other.era
    }

    /// The hosts that share connections of this profile; `None` if no principal has claimed it yet.
    pub(crate) fn audience(&self) -> Option<Audience> {
        let capabilities = match self.era {
            Era::Handshake => Some(self.capabilities.clone()),
            Era::Stateless => None,
        };
        let principal = self.principal.clone()?;
        Some(Audience::Sharing {
            principal,
            capabilities,
        })
    }

    pub fn of(host: &callgate_gate::Host) -> Self {
        Self {
            principal: Some(host.identity.principal.clone()),
            client_info: host
                .client_info
                .clone()
                .unwrap_or_else(|| Self::gateway().client_info),
            capabilities: host.capabilities.clone(),
            era: host.era,
        }
    }

    /// The same profile in an era. A stateless connection has no capabilities of its own: each request carries
    /// those of its host.
    pub(crate) fn speaking(self, era: Era) -> Self {
        let capabilities = match era {
            Era::Handshake => self.capabilities,
            Era::Stateless => "{}".to_owned(),
        };
        Self {
            era,
            capabilities,
            ..self
        }
    }
}
