//! What the configuration says about servers, ready to be used.

use std::{path::PathBuf, sync::Arc, time::Duration};

use callgate_call::Audience;
use callgate_gate::{Naming, pins::PinStore};
use callgate_wire::Era;

/// What all servers have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetOptions {
    /// How tools are shown.
    pub naming: Naming,
    /// Our own binary, which children are started under.
    pub warden_program: PathBuf,
    /// The folder for the servers' stderr logs.
    pub log_dir: Option<PathBuf>,
    /// The folder for the servers' last known definitions.
    pub definitions_dir: Option<PathBuf>,
    /// Where accepted definitions are kept; without a store they last until the end of the process.
    pub pin_store: Option<KeptPins>,
    /// How long a first list or call waits for servers that are still connecting.
    pub connect_wait: Duration,
    /// Longest pause between two attempts to reach a server.
    pub reconnect_cap: Duration,
    /// How long a server that went away keeps its place in the list.
    pub listed_while_down: Duration,
    /// Longest line from a server over stdio.
    pub frame_bytes: usize,
    /// Largest message from a server over HTTP.
    pub http_bytes: usize,
    /// Calls under way at once, per connection.
    pub concurrency_per_server: usize,
    /// Processes of one server at once.
    pub processes_per_server: usize,
}

/// The store of accepted definitions. Two are equal where they are the same place.
#[derive(Debug, Clone)]
pub struct KeptPins(pub Arc<dyn PinStore>);

impl PartialEq for KeptPins {
    fn eq(&self, other: &Self) -> bool {
        self.0.place() == other.0.place()
    }
}

impl Eq for KeptPins {}

/// In whose name a connection is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The principal it belongs to; `None` until the first one uses it.
    pub principal: Option<String>,
    /// `clientInfo` towards the server, raw.
    pub client_info: String,
    /// Capabilities towards the server, raw.
    pub capabilities: String,
    /// The era that is spoken.
    pub era: Era,
}

impl Profile {
    /// The gateway's own: no capabilities, so that no server asks anything.
    pub fn gateway() -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self {
            principal: None,
            client_info: format!(r#"{{"name":"callgate","version":"{version}"}}"#),
            capabilities: "{}".to_owned(),
            era: Era::Handshake,
        }
    }

    /// Whether hosts of the other share connections of this one: one principal, the same capabilities,
    /// one era.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        self.principal == other.principal
            && self.capabilities == other.capabilities
            && self.era == other.era
    }

    /// The hosts that share connections of this one; `None` where that is anybody's still.
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

    /// A host's.
    pub fn of(host: &callgate_gate::Host) -> Self {
        Self {
            principal: Some(host.who.principal.clone()),
            client_info: host
                .client_info
                .clone()
                .unwrap_or_else(|| Self::gateway().client_info),
            capabilities: host.capabilities.clone(),
            era: host.era,
        }
    }

    /// The same in an era. A stateless connection serves hosts of any capabilities, since each request
    /// says its own.
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
